// Package attempt holds the pure steps of asking for, keeping and giving back
// a lease over a link that loses, delays and repeats.
//
// It promises nothing about time that it is not told: nothing here reads a
// clock, starts a goroutine, draws a random number or sends anything. A shell
// says what happened ([Event]), does what it is told ([Action]) and must not
// sleep past [Action.Until].
//
// [Acquire] is one acquire: it repeats the request with the same id until
// there is an answer, and cancels by id whatever it cannot hand out, so that
// it ends with a token or an error, exactly one. [GiveBack] is one release or
// abandon. [Trust] is until when a holder may act on a lease, and [Renewed]
// what the answer to a renewal means for it.
package attempt
