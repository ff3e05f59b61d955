package render

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/proc"
	"github.com/berth-dev/berth/lease"
)

// A stoppedError is the error of a renderer that was stopped from outside: its
// code is that of the cause, and what the renderer said is kept.
type stoppedError struct {
	why      *lease.Error
	renderer error
}

// Code returns the code of the cause.
func (e *stoppedError) Code() string { return e.why.Code() }

// Unwrap returns the cause first, then what the renderer said.
func (e *stoppedError) Unwrap() []error { return []error{e.why, e.renderer} }

// Error says why, and what the renderer said if that is more.
func (e *stoppedError) Error() string {
	var ended *proc.Error
	switch {
	case errors.As(e.renderer, &ended) && ended.Kind == proc.Cancelled:
		return fmt.Sprintf("%v (%v)", e.why, ended.Status)
	case strings.HasSuffix(e.why.Error(), e.renderer.Error()):
		return e.why.Error()
	}
	return e.why.Error() + "; " + e.renderer.Error()
}

// stopped returns the error of a job whose context has ended.
func stopped(ctx context.Context, j Job, renderer error) error {
	cause := context.Cause(ctx)
	why := lease.Errorf(causeCode(cause), "job %s was stopped: %w", j.JobID, cause)
	if renderer == nil {
		return why
	}
	return &stoppedError{why, renderer}
}

// causeCode returns the code of a context's cause. A cause that has none is a
// cancellation, or the caller's deadline.
func causeCode(cause error) lease.Code {
	var c interface{ Code() string }
	switch {
	case errors.As(cause, &c):
		return lease.Code(c.Code())
	case errors.Is(cause, context.DeadlineExceeded):
		return lease.CodeTimedOut
	}
	return lease.CodeCancelled
}

// coded gives the error of a lease a code where it has none, as when the
// context ended before there was a slot.
func coded(ctx context.Context, j Job, err error) error {
	var c interface{ Code() string }
	switch {
	case err == nil || errors.As(err, &c):
		return err
	case ctx.Err() != nil:
		return stopped(ctx, j, err)
	}
	return lease.Errorf(lease.CodeRendererFailed, "cannot render job %s: %w", j.JobID, err)
}
