// Package broker is a running lease broker: it keeps the machine's decisions
// in a store and answers only what is durable.
//
// It does not watch the work under a lease: that a lease has ended does not
// mean that its work has stopped. It serves one process; the daemon puts it on
// a socket.
//
// [Open] loads the store, [Broker.Run] serves until its context ends or the
// store fails. Two goroutines take turns at the [Engine], whose step (gather,
// apply, commit, answer) is pure and always one goroutine's. The one that has
// sealed a batch commits it itself, while the next batch forms in the other's
// hands. A batch is sealed when no commit is under way, never before, so
// nobody waits on a timer.
//
// Calls are taken in together with a reading of the clock: all of them came
// before it, whatever comes later came after it. So they are decided at that
// moment, and time itself, which may expire leases, is let on only then.
package broker
