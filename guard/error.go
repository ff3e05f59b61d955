package guard

import (
	"errors"
	"fmt"
)

var (
	// ErrReleased says that a lease was used after its release began, or after it was moved.
	ErrReleased = errors.New("the lease is no longer held")

	// ErrReleaseTimeout says that a release ignored its context and had not returned at its
	// hard limit. It still runs: the thing is not yet known to be released.
	ErrReleaseTimeout = errors.New("the release has not returned within its hard limit and goes on")

	// ErrUncertain is wrapped by an Acquire whose outcome is unknown, such as a request that
	// was sent and never answered.
	ErrUncertain = errors.New("outcome unknown")

	// ErrExited stands for work that ended by runtime.Goexit instead of returning.
	ErrExited = errors.New("runtime.Goexit was called")
)

// Error reports a release that failed, together with what failed before it. Every error of
// this package in which a release or reclaim failed is or holds an *Error. In one of Use or
// Execute, Body == nil means that the work, and its Commit, did succeed; where Uses are nested,
// ask [WorkSucceeded]. Close knows only the Commit: how the work ended is what its caller told
// it.
type Error struct {
	Name    string // the resource's
	Body    error  // of the acquire, the body or its Commit; nil when all went well
	Release error  // of Release or Reclaim; never nil
}

// Error prints the body's error first.
func (e *Error) Error() string {
	if e.Body == nil {
		return fmt.Sprintf("release %s: %v", e.Name, e.Release)
	}
	return fmt.Sprintf("%v; then release %s: %v", e.Body, e.Name, e.Release)
}

// Unwrap returns the errors that are there, the body's first.
func (e *Error) Unwrap() []error {
	if e.Body == nil {
		return []error{e.Release}
	}
	return []error{e.Body, e.Release}
}

// WorkSucceeded reports whether the work is done although err may not be nil: nothing has failed
// but releases, of this Use and of those inside it. A body that wraps or joins the error of a
// Use inside it makes that a failure of its own.
func WorkSucceeded(err error) bool {
	if err == nil {
		return true
	}
	e, ok := err.(*Error)
	return ok && WorkSucceeded(e.Body)
}

// both joins the error of the work and that of the release.
func both(name string, body, release error) error {
	if release == nil {
		return body
	}
	return &Error{Name: name, Body: body, Release: release}
}

// PanicError is a panic as an error: in an Outcome, as the error of a Release that panicked,
// and in the failures of Execute.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked, as debug.Stack prints it
}

// Error prints the value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
