// Package berthv1 holds the messages of the wire, generated from the protocol
// buffers beside it; its only promise is that what is there keeps its number and
// meaning. Package api turns them into the types of package lease.
package berthv1
