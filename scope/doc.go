// Package scope owns goroutines: whoever starts work in a scope cannot leave before it ended,
// and whoever ends a scope knows what still runs.
//
// What it does not do: it cannot stop a function that ignores its context, only name it; it
// cannot end work that a child starts with a bare go statement; it restarts nothing; and a
// child that waits for its own scope with a context that is not the scope's waits until that
// context ends.
//
// [Run] is a scope that is a block of code: it returns when its body and all children have
// ended, whatever way. [New] makes a scope for a component, which [Scope.Close] ends. One that
// fails cancels all others, with its error as their cause, unless the scope supervises. A
// child that calls runtime.Goexit has failed with [guard.ErrExited].
//
// # Panics
//
// A child's panic cancels its siblings at once. Then, in Run, all are joined and the panic goes
// on in the caller as a [*ChildPanic], which prints the child's own stack: a caller that would
// have seen the panic of a plain call sees this one too. Against it speaks that the panic is
// late by as much as the siblings need to end, that a debugger does not stop at its place, and
// that a sibling which never ends hides it; that is why errgroup went back to crashing. In a
// block of code the join is what the caller asked for, and Config.OnFailure hears at once. In
// a scope made by New nobody may come to Close for days, so there the panic goes on in the
// child, and the process crashes with the original stack. Config.Contain makes panics errors
// in both: for those who run foreign code and have somebody who reads the errors.
//
// # Results
//
// [Async] starts a child with a result, a [Task]. [All] wants every result, [First] the first
// success; [Race] is the same with other rules for who wins, with starts in turn, and with a
// place for values that come too late. [Workers] runs functions on a fixed number of
// goroutines. [Own] holds a resource until all children have ended.
//
// # What happens before what
//
// What was written before Go can be read by the child; what a child wrote can be read after
// Run, Close and Wait returned nil or after its Task's Await did. The children's context ends
// before [Scope.Context] does, which ends before Close waits.
package scope
