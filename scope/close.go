package scope

import "context"

// Cancel cancels the children's context with the cause, nil meaning context.Canceled, and lets
// the scope start nothing more. It does not wait. Only the first cancel counts, be it by
// Cancel, Close or a failure.
func (s *Scope) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	s.stop(cause)
}

func (s *Scope) stop(cause error) {
	s.mu.Lock()
	if s.stopped == nil {
		s.stopped = cause
	}
	s.mu.Unlock()
	s.cancel(cause)
}

// Close ends the scope: it starts nothing more, cancels the children's context with the cause
// (nil means ErrClosed), then the scope's own, and waits until all children have ended and what
// the scope owns is released. It may be called any number of times, from any goroutine; all get
// the same result: nil, the one error, or a *Failures.
//
// When ctx ends first, it returns a *StillRunning that names the children that have not ended,
// with the failures so far; the scope goes on closing, and another Close waits again. Called
// with the context of one of the scope's own children it begins the closing, and returns
// ErrInside instead of waiting for itself.
func (s *Scope) Close(ctx context.Context, cause error) error {
	s.beginClose(cause)
	return s.awaitEnd(ctx)
}

// awaitEnd waits for the end of a scope that is closing and returns its result.
func (s *Scope) awaitEnd(ctx context.Context) error {
	if s.inside(ctx) {
		return ErrInside
	}
	if err := s.await(ctx, s.ended); err != nil {
		return err
	}
	return s.result
}

func (s *Scope) beginClose(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	s.mu.Lock()
	if s.stopped == nil {
		s.stopped = cause
	}
	cause = s.stopped
	s.state = max(s.state, closing)
	last, cancelOwn := s.lastLocked(), s.cancelOwn
	s.mu.Unlock()
	s.cancel(cause)
	if cancelOwn != nil {
		cancelOwn(cause)
	}
	if last {
		s.finish()
	}
}

// join lets the last child end the scope, or ends it where there is none.
func (s *Scope) join() {
	s.mu.Lock()
	s.state = max(s.state, joining)
	last := s.lastLocked()
	s.mu.Unlock()
	if last {
		s.finish()
	}
}

// lastLocked reports, once, that the scope is to end and nothing runs any more.
func (s *Scope) lastLocked() bool {
	if s.running.Load() > 0 || s.state == open || s.state == over {
		return false
	}
	s.state = over
	if s.stopped == nil {
		s.stopped = ErrClosed
	}
	return true
}

// finish releases what the scope owns and makes the result known. It runs once, when no child
// runs and none can be started.
func (s *Scope) finish() {
	released := s.release()
	s.cancel(ErrClosed)
	s.mu.Lock()
	for _, err := range released {
		s.failures.add(err, s.cfg.Keep)
	}
	s.result = s.failures.join()
	cancelOwn := s.cancelOwn
	s.mu.Unlock()
	if cancelOwn != nil {
		cancelOwn(ErrClosed)
	}
	close(s.ended)
}

// Wait waits until no child runs, and ends nothing. It returns as Close does when ctx ends
// first, or when it is called with the context of one of the children. The body of Run has that
// too: to wait for a first batch it takes a context from outside.
func (s *Scope) Wait(ctx context.Context) error {
	if s.inside(ctx) {
		return ErrInside
	}
	s.mu.Lock()
	if s.running.Load() == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	return s.await(ctx, idle)
}

// await waits for done, or names who still runs.
func (s *Scope) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		return &StillRunning{
			Scope: s.cfg.Name, Children: s.runningLocked(), Cause: context.Cause(ctx), Failed: s.failures.join(),
		}
	}
}
