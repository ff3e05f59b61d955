// Package guard gives a resource back on every path out of the work that uses it.
//
// What it does not do: it cannot release anything when the process is killed, the machine
// stops or os.Exit is called, it cannot know whether a remote side applied a release whose
// answer was lost, and it never closes the broker, pool or client a resource came from: it
// owns the one thing that Acquire returned and nothing else.
//
// [Use] acquires, runs a body and releases when the body returns, fails, panics, calls
// runtime.Goexit or is cancelled. The release happens once, is waited for, and runs on a
// context that keeps the caller's values but not its cancellation, under its own time limit.
// The errors of body and release are both kept, the body's first ([Error]). A panic goes on
// as the same panic with its original frames still on the stack.
//
// [Open] is for a scope that is no block of code: its [Lease] is ended by [Lease.Close], from
// any goroutine and any number of times, and can be handed on with [Lease.Transfer].
// [Execute] is Use for callers that want every failure as a value with a code.
//
// What happens before what: Acquire before the body, the body before Commit, Commit before
// Release, Release before the return of every Close and of Use, unless the Resource has a
// hard limit and it passed. Once one of these returned, or Done is closed, what Release wrote
// can be read without a lock.
package guard
