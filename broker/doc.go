// Package broker is a running lease broker: it keeps the machine's decisions
// in a store and answers only what is durable.
//
// It does not watch the work under a lease: that a lease has ended does not
// mean that its work has stopped. It serves one process; the daemon puts it on
// a socket.
//
// [Open] loads the store, [Broker.Run] serves until its context ends or the
// store fails. One goroutine owns the [Engine], whose step (gather, apply,
// commit, answer) is pure; a second one commits. A batch is sealed when the
// committer is free, never before, and the next one forms while it syncs, so
// nobody waits on a timer.
//
// Calls are taken in together with a reading of the clock: all of them came
// before it, whatever comes later came after it. So they are decided at that
// moment, and time itself, which may expire leases, is let on only then.
package broker
