package scope

import (
	"context"
	"runtime"
)

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
	defer s.mu.Unlock()
	s.stopLocked(cause)
}

// stopLocked cancels the children's context. The context package calls nobody's code for that,
// so it may be done under mu.
func (s *Scope) stopLocked(cause error) {
	if s.stopped == nil {
		s.stopped = cause
		s.cancel(cause)
	}
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
	return s.awaitOver(ctx)
}

// awaitOver waits for the end of a scope that is closing and returns its result.
func (s *Scope) awaitOver(ctx context.Context) error {
	if s.inside(ctx) {
		return ErrInside
	}
	if s.running.Load() > 0 {
		runtime.Gosched() // children that end at once cost no channel
	}
	if err := s.await(ctx, s.whenOver()); err != nil {
		return err
	}
	return s.result()
}

// beginClose cancels all and has the last child end the scope, or ends it where there is none.
func (s *Scope) beginClose(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	s.mu.Lock()
	s.stopLocked(cause)
	if s.own != nil {
		s.own.cancel(s.stopped)
	}
	s.state = max(s.state, closing)
	release := s.endLocked()
	s.mu.Unlock()
	if release {
		s.releaseAll()
	}
}

// join lets the last child end the scope, or ends it where there is none.
func (s *Scope) join() {
	s.mu.Lock()
	s.state = max(s.state, joining)
	release := s.endLocked()
	s.mu.Unlock()
	if release {
		s.releaseAll()
	}
}

// joinBlock waits for the children of a Run and ends the scope, unless a Close has done that
// while the body ran.
func (s *Scope) joinBlock() {
	s.mu.Lock()
	if s.state >= releasing {
		over := s.whenOverLocked()
		s.mu.Unlock()
		<-over
		return
	}
	s.state = max(s.state, joining)
	if !s.idleLocked() {
		s.joins = true
		s.joined.Add(1)
		s.mu.Unlock()
		s.joined.Wait()
		s.mu.Lock()
	}
	s.state = releasing
	release := s.overUnlessHoldsLocked()
	s.mu.Unlock()
	if release {
		s.releaseAll()
	}
}

// endLocked ends the scope if it is to end and nothing runs any more. It leaves that to the
// caller of Run where that waits, for a new goroutine's stack is too small for it. Where the
// scope owns something, it reports, once, that releaseAll is to be called without mu.
func (s *Scope) endLocked() (release bool) {
	if s.state == open || s.state >= releasing || !s.idleLocked() {
		return false
	}
	s.state = releasing
	if s.joins {
		s.joined.Done()
		return false
	}
	return s.overUnlessHoldsLocked()
}

func (s *Scope) overUnlessHoldsLocked() (release bool) {
	if s.holds != nil {
		return true
	}
	s.overLocked()
	return false
}

// idleLocked reports whether no child runs; if one does, the last one to end takes mu.
func (s *Scope) idleLocked() bool {
	s.awaited.Store(true)
	return s.running.Load() == 0
}

// releaseAll releases what the scope owns, and then all is over.
func (s *Scope) releaseAll() {
	released := s.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range released {
		s.troubleLocked().failures.add(err, s.cfg.Keep)
	}
	s.overLocked()
}

// overLocked makes the result known, when no child runs and none can be started.
func (s *Scope) overLocked() {
	s.stopLocked(ErrClosed)
	if s.own != nil {
		s.own.cancel(ErrClosed)
	}
	if s.trouble != nil {
		s.trouble.result = s.trouble.failures.join()
	}
	s.state = over
	if s.ended != nil {
		close(s.ended)
	}
}

// result is what a scope that is over came to.
func (s *Scope) result() error {
	if s.trouble == nil {
		return nil
	}
	return s.trouble.result
}

// past is closed: what one waits for has happened.
var past = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (s *Scope) whenOver() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whenOverLocked()
}

// whenOverLocked is closed when all is over; from then on trouble stays as it is.
func (s *Scope) whenOverLocked() <-chan struct{} {
	if s.state == over {
		return past
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

// Wait waits until no child runs, and ends nothing. It returns as Close does when ctx ends
// first, or when it is called with the context of one of the children. The body of Run has that
// too: to wait for a first batch it takes a context from outside.
func (s *Scope) Wait(ctx context.Context) error {
	if s.inside(ctx) {
		return ErrInside
	}
	return s.await(ctx, s.whenIdle())
}

func (s *Scope) whenIdle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleLocked() {
		return past
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle
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
		e := &StillRunning{Scope: s.cfg.Name, Children: s.Running(), Cause: context.Cause(ctx)}
		t, _ := s.told() // second: who fails meanwhile may be named twice, but not left out
		e.Failed = t.failures.join()
		return e
	}
}
