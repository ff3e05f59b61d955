// Package client asks a broker beyond a socket for leases.
//
// What it does not do: it renews nothing and watches no trust, which package
// hold does over any [lease.Broker]; and it cannot tell whether a call whose
// answer was lost was served. So an acquire is repeated with the same id until
// there is an answer, and what cannot be handed out is cancelled by that id
// before the error returns; a release and an abandon are repeated by lease id.
//
// A [Client] is made by [New] and implements [lease.Broker].
package client
