package inflight

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrClosed says that a Set or Loop takes no new work: it is being drained or shut down.
	ErrClosed = errors.New("no new work is taken")

	// ErrOpen says that a Set cannot be called drained: operations of it are open.
	ErrOpen = errors.New("not drained")

	// ErrPending says that a wait gave up: what it waited for goes on, and nothing is unlocked.
	ErrPending = errors.New("still in flight")

	// ErrTaken says that the result is gone: taken, abandoned, or disposed of at a drain.
	ErrTaken = errors.New("the result is gone")

	// ErrMoved says that this handle is inert: Transfer gave the operation to another.
	ErrMoved = errors.New("the operation was moved to another handle")

	// ErrInside says that a call would wait for the function that it was called from.
	ErrInside = errors.New("called from inside what it would wait for")

	// ErrInFlight says that a buffer is with an operation that has not settled.
	ErrInFlight = errors.New("the buffer is in flight")

	// ErrReleased says that a buffer was used after its Release, or an affine value after its
	// Destroy.
	ErrReleased = errors.New("already released")

	// ErrOwned says that a Loop cannot end yet: values are bound to it.
	ErrOwned = errors.New("values are bound to it")

	errUnfinished = errors.New("the function panicked or called runtime.Goexit")
)

// Open describes an operation that a Set still owns.
type Open struct {
	Name  string        // from its Config, and its number in the Set
	Age   time.Duration // since Start
	State string        // what it waits for, in words
	Stack string        // where it was started; empty unless Set.Trace
}

// OpenError names the operations that keep a Set from being drained or destroyed. It is
// ErrOpen, and its Cause where there is one.
type OpenError struct {
	Set   string
	Open  []Open // oldest first; empty when the Set was never asked to drain
	Cause error  // of the context that ended the wait; nil when nothing was waited for
}

// Error prints each operation with its age and state, and where it was started when the Set
// traces.
func (e *OpenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "inflight: %s is %v", e.Set, ErrOpen)
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	if len(e.Open) == 0 {
		b.WriteString(": call Drain first")
	}
	for i, o := range e.Open {
		fmt.Fprintf(&b, "%s %s (%v, %s)", [2]string{":", ","}[min(i, 1)], o.Name, o.Age, o.State)
	}
	for _, o := range e.Open {
		if o.Stack != "" {
			fmt.Fprintf(&b, "\n%s was started at\n%s", o.Name, o.Stack)
		}
	}
	return b.String()
}

// Unwrap returns ErrOpen and the cause.
func (e *OpenError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrOpen}
	}
	return []error{ErrOpen, e.Cause}
}
