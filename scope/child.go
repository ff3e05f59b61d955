package scope

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/guard"
)

// A job is what a child, or a worker, is to do.
type job struct {
	name string
	run  func(ctx context.Context) error
	// settled hears how the job ended, before the scope does; nil if nobody asks.
	settled func(err error)
	// alone says that the job's error is its awaiter's and not the scope's, contained that its
	// panic is too.
	alone, contained bool
}

func (j *job) settle(err error) {
	if j.settled != nil {
		j.settled(err)
	}
}

// epoch is where ages are counted from: that costs half of what the wall clock costs, at each
// start of a child.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// A child is one goroutine that the scope waits for, or one acquire of [Own].
type child struct {
	job
	over  atomic.Bool
	scope *Scope
	since time.Duration // by now
	desk  *desk         // of a worker
	older *child
}

// Go starts f as a child. With a limit it waits for a place until ctx ends; ctx has no other
// meaning: f gets the children's context. It returns nil when f was started. A scope that is
// closed, was cancelled or had a failure starts nothing more: the error is then ErrClosed
// together with the cause.
func (s *Scope) Go(ctx context.Context, name string, f func(ctx context.Context) error) error {
	return s.launch(ctx, &child{job: job{name: name, run: f}})
}

// launch starts the child, once there is a place for it.
func (s *Scope) launch(ctx context.Context, c *child) error {
	if err := s.takePlace(ctx, c.name); err != nil {
		return err
	}
	if err := s.admit(c); err != nil {
		s.givePlace()
		return err
	}
	go c.main() // waited for through ended
	return nil
}

func (s *Scope) takePlace(ctx context.Context, name string) error {
	if s.places == nil {
		return nil
	}
	select {
	case s.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.places <- struct{}{}:
		return nil
	case <-s.ctx.Done():
		return s.refusal(name, context.Cause(&s.ctx))
	case <-ctx.Done():
		return fmt.Errorf("scope: start %s: no place within the limit of %d: %w", s.label(name), s.cfg.Limit, context.Cause(ctx))
	}
}

func (s *Scope) givePlace() {
	if s.places != nil {
		<-s.places
	}
}

// admit makes the child one that is waited for.
func (s *Scope) admit(c *child) error {
	c.scope, c.since = s, now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return s.refusal(c.name, s.stopped)
	}
	s.linkLocked(c)
	return nil
}

// linkLocked lists the child. Children that have ended stay in the list until they are many, so
// that a child takes no lock to end.
func (s *Scope) linkLocked(c *child) {
	running := s.running.Add(1)
	c.older, s.newest = s.newest, c
	if s.listed++; s.listed > 2*int(running)+keepEnded {
		s.dropEndedLocked()
	}
}

const keepEnded = 32

func (s *Scope) dropEndedLocked() {
	s.listed = 0
	to := &s.newest
	for c := s.newest; c != nil; c = c.older {
		if !c.over.Load() {
			*to, to = c, &c.older
			s.listed++
		}
	}
	*to = nil
}

// main is the child's goroutine.
func (c *child) main() {
	returned := false
	defer func() {
		if !returned {
			c.broke(recover())
		}
	}()
	err := c.run(&c.scope.ctx)
	returned = true
	c.end(err)
}

// broke ends a child that did not return. Called by the deferred function that recovered, so
// the frames of a panic are still on the stack.
func (c *child) broke(p any) {
	if p == nil {
		c.end(fmt.Errorf("%s: %w", c.scope.label(c.name), guard.ErrExited))
		return
	}
	err := &guard.PanicError{Value: p, Stack: debug.Stack()}
	switch {
	case c.scope.cfg.Contain || c.contained:
		c.end(err)
	case c.scope.block:
		c.scope.panics(&ChildPanic{Child: c.name, PanicError: err})
		c.alone = true // the panic is told already
		c.end(err)
	default:
		c.scope.stop(err)
		panic(p)
	}
}

// panics keeps the first panic for the caller of Run and tells of it now.
func (s *Scope) panics(p *ChildPanic) {
	s.mu.Lock()
	if s.panicked == nil {
		s.panicked = p
	}
	s.mu.Unlock()
	s.stop(p.PanicError)
	if s.cfg.OnFailure != nil {
		s.cfg.OnFailure(p.Child, p.PanicError)
	}
}

// end tells how the child ended and takes it out.
func (c *child) end(err error) {
	c.settle(err)
	if err != nil && !c.alone {
		c.scope.fail(c.name, err)
	}
	c.scope.givePlace()
	c.leave()
}

// leave takes the child out; the last one of a scope that is to end ends it.
func (c *child) leave() {
	s := c.scope
	c.over.Store(true)
	if s.running.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	if s.idle != nil && s.running.Load() == 0 {
		close(s.idle)
		s.idle = nil
	}
	last := s.lastLocked()
	s.mu.Unlock()
	if last {
		s.finish()
	}
}

// fail keeps an error, unless it only says that the context had ended, and cancels the
// children where the scope does not supervise.
func (s *Scope) fail(name string, err error) {
	if cause := context.Cause(&s.ctx); cause != nil && (errors.Is(err, s.ctx.Err()) || errors.Is(err, cause)) {
		s.mu.Lock()
		s.cut = true
		s.mu.Unlock()
		return
	}
	s.mu.Lock()
	s.failures.add(err, s.cfg.Keep)
	s.mu.Unlock()
	if !s.cfg.Supervise {
		s.stop(err)
	}
	if s.cfg.OnFailure != nil {
		s.cfg.OnFailure(name, err)
	}
}
