// Package simulate runs a whole berth world from one seed: holders on machines
// that sleep and reboot, a network that loses, delays, doubles and reorders, a
// broker that stalls, crashes and is restored, a store that fails, operators,
// agents and cleaners. It checks the invariants I1 to I9 on all that happens.
//
// It proves nothing about goroutines, real disks or real clocks: everything
// here happens in one goroutine in virtual time, through the pure steps of
// packages machine, attempt and broker. Two things are taken for granted. A
// holder that wakes from its machine's sleep looks at its clocks before its
// work goes on; and agents, cleaners and operators say what is so.
//
// What the simulation holds to be true is the work: it starts when a holder
// begins and ends when the holder really stops it, whatever the broker
// believes. Holders in pools that hand over by time are honest; in pools that
// wait for a proof some never stop by themselves.
//
// The same [Config] gives the same history, byte for byte. A run is a list of
// decisions ("ops"), each drawn by its own number alone, so that any of them
// can be left out: [Shrink] leaves out what a failure does not need.
package simulate
