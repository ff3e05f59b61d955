// Package lease holds berth's words: pools, slots, requests, leases and the
// contract of a broker that hands them out.
//
// A lease does not prove that the work under it has stopped when the lease
// ends, and a [Fence] is comparable only on slots that a lease holds whole.
// Nothing here reads a clock, a file or the network.
//
// Moments of the broker's own clock ("broker time") are a [time.Duration]
// since the store was made. It never goes back and does not count time in
// which no broker served, so it is no wall clock and no holder's clock.
package lease
