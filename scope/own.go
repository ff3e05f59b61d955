package scope

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/guard"
)

// A holding is a resource that the scope owns.
type holding struct {
	lease interface {
		Close(ctx context.Context, o guard.Outcome) error
	}
	older *holding
}

// Own acquires a resource for all children of the scope: it is released when the scope ends,
// after the last child, however that came, and before Run or Close return. In a scope made by
// New that is at Close, also when no child runs long before. Several are released in the
// opposite order, each with its own time limit, also when another fails; their errors are in
// the scope's result. Own fails as guard.Open does, or with ErrClosed. The lease may be closed
// or transferred earlier; then nothing is left to do.
//
// A release is told how the scope's work ended, and a Commit runs before it only where that is
// Completed: the body and every child that was started returned nil. One that gave up because
// its context had ended, which is no failure of the scope, makes it Cancelled; whose end at a
// cancel leaves nothing undone, such as a heartbeat, returns nil then.
func Own[T any](ctx context.Context, s *Scope, res guard.Resource[T]) (*guard.Lease[T], error) {
	c := &child{name: "acquire " + res.Name}
	if err := s.admit(c); err != nil {
		return nil, err
	}
	var l *guard.Lease[T]
	defer func() { keep(c, l) }()
	l, err := guard.Open(ctx, res)
	return l, err
}

// keep ends the acquire and remembers what it got.
func keep[T any](c *child, l *guard.Lease[T]) {
	if l != nil {
		s := c.part.scope
		s.mu.Lock()
		s.holds = &holding{l, s.holds}
		s.mu.Unlock()
	}
	c.leave()
}

// release closes all that the scope owns, the newest first.
func (s *Scope) release() (errs []error) {
	o := s.outcome()
	for h := s.holds; h != nil; h = h.older {
		if err := h.lease.Close(s.parent, o); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// outcome says how the scope's work ended. What counts is what the body and the children did, not
// why they were told to end: a cancel that cut nobody off has left the work complete.
func (s *Scope) outcome() guard.Outcome {
	t, stopped := s.told()
	o := guard.Outcome{Kind: guard.Completed, Cause: context.Cause(&s.ctx)}
	_, panicked := errors.AsType[*guard.PanicError](stopped)
	switch failure := t.failures.join(); {
	case panicked:
		o.Kind, o.Err = guard.Panicked, stopped
	case failure != nil:
		o.Kind, o.Err = guard.Failed, failure
	case errors.Is(stopped, guard.ErrExited):
		o.Kind, o.Err = guard.Exited, stopped
	case t.cut:
		o.Kind, o.Err = guard.Cancelled, o.Cause
	}
	return o
}
