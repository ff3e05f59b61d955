package guard

import (
	"context"
	"errors"
	"runtime/debug"
)

// Kind is the way work ended.
type Kind int

const (
	// Abandoned is the zero value: nobody said how the work ended, and it may still run.
	// It never commits, so a deferred Close with an empty Outcome is always safe.
	Abandoned Kind = iota
	// Completed: the work returned nil and, where there is a Commit, that returned nil too.
	Completed
	// Failed: the work or its Commit returned an error.
	Failed
	// Cancelled: the caller's context had ended and the work returned its error or cause.
	Cancelled
	// Panicked: the work panicked; Outcome.Err is a *PanicError.
	Panicked
	// Exited: the work called runtime.Goexit, as t.FailNow does; Outcome.Err is ErrExited.
	Exited
)

// String returns the kind in lower case, as metrics name it.
func (k Kind) String() string {
	switch k {
	case Abandoned:
		return "abandoned"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case Panicked:
		return "panicked"
	case Exited:
		return "exited"
	}
	return "unknown"
}

// Outcome is how the work ended that a resource was held for. Release is told it.
type Outcome struct {
	Kind Kind
	// Err is the error of the work; nil when it completed.
	Err error
	// Cause is why the caller's context had ended by then (context.Cause); nil when it had
	// not. Work that completed before it noticed is Completed with a Cause.
	Cause error
}

// A way is an Outcome that does not ask the context yet. It passes through every step of a use,
// and fits into registers.
type way struct {
	kind Kind
	err  error
}

// outcome tells by now why ctx ended, whose work took the way.
func (w way) outcome(ctx context.Context) Outcome {
	return Outcome{Kind: w.kind, Err: w.err, Cause: context.Cause(ctx)}
}

// ended tells how work that returned err ended. Only the error or the cause of ctx itself, and
// only once ctx has ended, is a cancellation: a foreign context's error is a failure.
func ended(ctx context.Context, err error) way {
	if err == nil {
		return way{kind: Completed}
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, cause)) {
		return way{Cancelled, err}
	}
	return way{Failed, err}
}

// attempt calls step and then end, exactly once, on every way out of step, with how it ended.
//
// A panic of step goes on after end, from the deferred function that recovered it, so that the
// frames of step are still on the stack; with contain it ends here. It goes on by defer, since
// a Goexit inside end would else swallow it. A Goexit always goes on.
func attempt(ctx context.Context, contain bool, step func() error, end func(way)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == nil {
			end(way{Exited, ErrExited})
			return
		}
		if !contain {
			defer panic(p)
		}
		end(way{Panicked, &PanicError{Value: p, Stack: debug.Stack()}})
	}()
	err := step()
	returned = true
	end(ended(ctx, err))
}
