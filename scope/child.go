package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/guard"
)

// A job is what a child, or a worker, is to do. It is small, for it goes through a channel.
type job struct {
	name    string
	run     func(ctx context.Context) error
	awaiter *awaiter // nil if nobody asks how it ends
}

// An awaiter waits for the end of a job.
type awaiter struct {
	// settled hears how the job ended, before the scope does.
	settled func(err error)
	// alone says that the job's error is the awaiter's and not the scope's, contained that its
	// panic is too.
	alone, contained bool
}

// settle tells how the job ended, and says whether that is the scope's business too.
func (a *awaiter) settle(err error) (scopes bool) {
	if a == nil {
		return true
	}
	a.settled(err)
	return !a.alone
}

func (a *awaiter) contains() bool { return a != nil && a.contained }

// A child is one goroutine that the scope waits for, or one acquire of [Own]. It is small, since
// memory is most of what a start costs.
type child struct {
	name  string
	run   func(ctx context.Context) error
	part  *part
	older *child

	over atomic.Bool
	told bool // how it ends is told elsewhere
}

// A part is what a child is in its scope. Plain children share one.
type part struct {
	scope   *Scope
	awaiter *awaiter
	desk    *desk         // of a worker
	since   time.Duration // by now, in a scope that keeps ages
}

// epoch is where ages are counted from: that costs half of what the wall clock costs.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// Go starts f as a child. With a limit it waits for a place until ctx ends; ctx has no other
// meaning: f gets the children's context. It returns nil when f was started. A scope that is
// closed, was cancelled or had a failure starts nothing more: the error is then ErrClosed
// together with the cause.
func (s *Scope) Go(ctx context.Context, name string, f func(ctx context.Context) error) error {
	return s.launch(ctx, &child{name: name, run: f})
}

// launch starts the child, once there is a place for it.
func (s *Scope) launch(ctx context.Context, c *child) error {
	if s.places != nil {
		if err := s.takePlace(ctx, c.name); err != nil {
			return err
		}
	}
	if err := s.admit(c); err != nil {
		s.givePlace()
		return err
	}
	go c.main() // waited for through running
	return nil
}

func (s *Scope) takePlace(ctx context.Context, name string) error {
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
		if cause := context.Cause(&s.ctx); cause != nil { // ctx may be the children's, and end for that
			return s.refusal(name, cause)
		}
		return fmt.Errorf("scope: start %s: no place within the limit of %d: %w", s.label(name), s.cfg.Limit, context.Cause(ctx))
	}
}

func (s *Scope) givePlace() {
	if s.places != nil {
		<-s.places
	}
}

// adopt makes the child one of the scope's.
func (s *Scope) adopt(c *child) {
	if c.part == nil && !s.cfg.Ages {
		c.part = &s.plain
		return
	}
	if c.part == nil {
		c.part = new(part)
	}
	c.part.scope = s
	if s.cfg.Ages {
		c.part.since = now()
	}
}

// admit makes the child one that is waited for.
func (s *Scope) admit(c *child) error {
	s.adopt(c)
	s.mu.Lock()
	if s.stopped != nil || s.state >= releasing {
		cause := cmp.Or(s.stopped, ErrClosed)
		s.mu.Unlock()
		return s.refusal(c.name, cause)
	}
	s.linkLocked(c)
	s.mu.Unlock()
	return nil
}

// linkLocked lists the child. Children that have ended stay in the list until it has doubled, so
// that a child takes no lock to end.
func (s *Scope) linkLocked(c *child) {
	s.running.Add(1)
	c.older, s.newest = s.newest, c
	if s.listed++; s.listed == s.full {
		s.dropEndedLocked()
		s.full = 2*s.listed + keepEnded
	}
}

const keepEnded = 128

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
	err := c.run(&c.part.scope.ctx)
	returned = true
	c.end(err)
}

// broke ends a child that did not return. Called by the deferred function that recovered, so
// the frames of a panic are still on the stack.
func (c *child) broke(p any) {
	s := c.part.scope
	if p == nil {
		c.end(fmt.Errorf("%s: %w", s.label(c.name), guard.ErrExited))
		return
	}
	err := &guard.PanicError{Value: p, Stack: debug.Stack()}
	switch {
	case s.cfg.Contain || c.part.awaiter.contains():
		c.end(err)
	case s.block:
		s.panics(&ChildPanic{Child: c.name, PanicError: err})
		c.told = true
		c.end(err)
	default:
		s.stop(err)
		panic(p)
	}
}

// panics keeps the first panic for the caller of Run and tells of it now.
func (s *Scope) panics(p *ChildPanic) {
	s.mu.Lock()
	if t := s.troubleLocked(); t.panicked == nil {
		t.panicked = p
	}
	s.mu.Unlock()
	s.stop(p.PanicError)
	if s.cfg.OnFailure != nil {
		s.cfg.OnFailure(p.Child, p.PanicError)
	}
}

// end tells how the child ended and takes it out.
func (c *child) end(err error) {
	scopes := c.part.awaiter.settle(err)
	if err != nil && scopes && !c.told {
		c.part.scope.fail(c.name, err)
	}
	c.part.scope.givePlace()
	c.leave()
}

// leave takes the child out; the last one of a scope that is to end ends it.
func (c *child) leave() {
	s := c.part.scope
	c.run = nil // it may stay listed for long
	c.over.Store(true)
	if s.running.Add(-1) > 0 || !s.awaited.Load() {
		return
	}
	s.mu.Lock()
	if s.idle != nil && s.running.Load() == 0 {
		close(s.idle)
		s.idle = nil
	}
	release := s.endLocked()
	s.mu.Unlock()
	if release {
		s.releaseAll()
	}
}

// fail keeps an error, unless it only says that the context had ended, and cancels the
// children where the scope does not supervise.
func (s *Scope) fail(name string, err error) {
	if cause := context.Cause(&s.ctx); cause != nil && (errors.Is(err, s.ctx.Err()) || errors.Is(err, cause)) {
		s.mu.Lock()
		s.troubleLocked().cut = true
		s.mu.Unlock()
		return
	}
	s.mu.Lock()
	s.troubleLocked().failures.add(err, s.cfg.Keep)
	s.mu.Unlock()
	if !s.cfg.Supervise {
		s.stop(err)
	}
	if s.cfg.OnFailure != nil {
		s.cfg.OnFailure(name, err)
	}
}
