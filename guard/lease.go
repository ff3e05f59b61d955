package guard

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Lease is the ownership of one acquired thing. It starts held, from Open or inside Use, and
// is ended by the first Close, or by Use when the body ends. After a Transfer the new handle
// has the ownership and the old one is inert. All methods may be called from any goroutine.
type Lease[T any] struct {
	res    Resource[T]
	end    *ending
	opened time.Time

	mu    sync.Mutex // guards the fields below
	phase phase
	value T // constant while phase is not moved
	leak  runtime.Cleanup
}

type phase int

const (
	held    phase = iota
	closing       // the release began; for ever
	moved         // another handle has it
)

// withEnding is a new lease and its ending in one piece of memory.
type withEnding[T any] struct {
	lease Lease[T]
	end   ending
}

func newLease[T any](res Resource[T], v T, opened time.Time) *Lease[T] {
	w := &withEnding[T]{lease: Lease[T]{res: res, value: v, opened: opened}}
	res.prepare(&w.end)
	w.lease.end = &w.end
	return &w.lease
}

// Value returns the thing while it is held. From the moment a Close began or the lease was
// moved it returns ErrReleased, also while the release still runs. It does not block. What it
// returned earlier must not be used after that moment either, which the guard cannot check.
func (l *Lease[T]) Value() (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != held {
		var none T
		return none, l.refuse("use")
	}
	return l.value, nil
}

// Close ends the lease and waits for the release. The first call does it, on its own
// goroutine: with Completed it commits first, on ctx; then it releases, on a context with the
// values of ctx and its own time limit, so a cancelled ctx is no reason not to close. The usual
// form is a deferred Close with an empty Outcome, and one with Completed at the end.
//
// Every other call, at the same time or later, does nothing but wait for that one release, and
// returns the same result: nil, the error of Commit, or an *Error when the release failed. On
// a handle that was moved Close does nothing and returns nil.
func (l *Lease[T]) Close(ctx context.Context, o Outcome) error {
	if o.Cause == nil {
		o.Cause = context.Cause(ctx)
	}
	commit, release := l.close(ctx, false, o)
	return both(l.end.name, commit.Err, release.Err)
}

// close is the single way to a release. The first caller commits and releases, whatever way
// the commit ends; the others wait. It returns the outcomes of a commit that failed and of the
// release; with contain, a panic of the commit is such an outcome.
func (l *Lease[T]) close(ctx context.Context, contain bool, o Outcome) (commit, release Outcome) {
	switch l.begin() {
	case moved:
		return Outcome{}, Outcome{}
	case closing:
		return l.end.wait()
	}
	attempt(ctx, contain, func() error { return l.commit(ctx, o) }, func(c Outcome) {
		if c.Err != nil {
			l.end.fail(c)
			o = c
		}
		l.release(ctx, o)
	})
	return l.end.wait()
}

// begin moves a held lease to closing and returns the phase it was in.
func (l *Lease[T]) begin() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.phase
	if was == held {
		l.phase = closing
		l.leak.Stop()
	}
	return was
}

func (l *Lease[T]) commit(ctx context.Context, o Outcome) error {
	if o.Kind != Completed || l.res.Commit == nil {
		return nil
	}
	return l.res.Commit(ctx, l.value)
}

func (l *Lease[T]) release(ctx context.Context, o Outcome) {
	about := Event{Step: StepRelease, Outcome: o}
	if l.res.Observe != nil {
		about.Held = time.Since(l.opened)
	}
	l.end.run(ctx, about, l)
}

func (l *Lease[T]) back(ctx context.Context, o Outcome) error { return l.res.Release(ctx, l.value, o) }

// Transfer moves the ownership to a new handle, for an owner that outlives this one: a body of
// Use that returns the new handle has taken the thing out of Use, which then neither commits
// nor releases. Of the old handle Value returns ErrReleased, Close does nothing, and Done is
// that of the new one. It is refused with ErrReleased when this handle no longer holds.
func (l *Lease[T]) Transfer() (*Lease[T], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != held {
		return nil, l.refuse("transfer")
	}
	next := &Lease[T]{res: l.res, end: l.end, opened: l.opened, value: l.value}
	var none T
	l.phase, l.value = moved, none
	l.leak.Stop()
	next.watch()
	return next, nil
}

// Done is closed when Release has returned, also when that was after its hard limit, when
// Close had long given up. It is how to wait for a release that went on.
func (l *Lease[T]) Done() <-chan struct{} { return l.end.returned() }

func (l *Lease[T]) refuse(what string) error {
	return fmt.Errorf("guard: %s %s: %w", what, l.end.name, ErrReleased)
}
