package guard

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
)

// Lease is the ownership of one acquired thing. It starts held, from Open or inside Use, and
// is ended by the first Close, or by Use when the body ends. After a Transfer the new handle
// has the ownership and the old one is inert. All methods may be called from any goroutine.
type Lease[T any] struct {
	value   T
	commit  func(ctx context.Context, v T) error // the Resource's, may be nil
	release func(ctx context.Context, v T, o Outcome) error
	end     *ending
	leak    *runtime.Cleanup // nil where nobody observes

	phase atomic.Int32
}

// The phases of a handle.
const (
	held    int32 = iota
	closing       // the release began; for ever
	moved         // another handle has it
)

// withEnding is a new lease and its ending in one piece of memory.
type withEnding[T any] struct {
	lease Lease[T]
	end   ending
}

func newLease[T any](res *Resource[T], v T) *Lease[T] {
	w := new(withEnding[T])
	l := &w.lease
	l.value, l.commit, l.release, l.end = v, res.Commit, res.Release, &w.end
	res.prepare(l.end)
	return l
}

// Value returns the thing while it is held. From the moment a Close began or the lease was
// moved it returns ErrReleased, also while the release still runs. It does not block. What it
// returned earlier must not be used after that moment either, which the guard cannot check.
func (l *Lease[T]) Value() (T, error) {
	if l.phase.Load() != held {
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
	commit, release := l.close(ctx, false, o)
	return both(l.end.name, commit.err, release.err)
}

// close is the single way to a release. The first caller commits and releases, whatever way
// the commit ends; the others wait. It returns how a commit that failed ended, and
// how the release did; with contain, a panic of the commit is a failure too.
func (l *Lease[T]) close(ctx context.Context, contain bool, o Outcome) (commit, release way) {
	if !l.phase.CompareAndSwap(held, closing) {
		if l.phase.Load() == moved {
			return way{}, way{}
		}
		w := l.end.wait()
		return w.commit, w.release
	}
	l.unwatch()
	if o.Cause == nil {
		o.Cause = context.Cause(ctx)
	}
	if o.Kind == Completed && l.commit != nil {
		return l.commitFirst(ctx, contain, o)
	}
	return way{}, l.end.run(ctx, o, l)
}

// commitFirst commits and releases.
func (l *Lease[T]) commitFirst(ctx context.Context, contain bool, work Outcome) (commit, release way) {
	attempt(ctx, contain, func() error { return l.commit(ctx, l.value) }, func(w way) {
		if w.err != nil {
			commit = w
			l.end.fail(w)
			work = w.outcome(ctx)
		}
		release = l.end.run(ctx, work, l)
	})
	return commit, release
}

func (l *Lease[T]) back(ctx context.Context, o Outcome) error { return l.release(ctx, l.value, o) }

// Transfer moves the ownership to a new handle, for an owner that outlives this one: a body of
// Use that returns the new handle has taken the thing out of Use, which then neither commits
// nor releases. Of the old handle Value returns ErrReleased, Close does nothing, and Done is
// that of the new one. It is refused with ErrReleased when this handle no longer holds.
func (l *Lease[T]) Transfer() (*Lease[T], error) {
	if !l.phase.CompareAndSwap(held, moved) {
		return nil, l.refuse("transfer")
	}
	l.unwatch()
	next := &Lease[T]{value: l.value, commit: l.commit, release: l.release, end: l.end}
	next.watch()
	return next, nil
}

// Done is closed when Release has returned, also when that was after its hard limit, when
// Close had long given up. It is how to wait for a release that went on.
func (l *Lease[T]) Done() <-chan struct{} { return l.end.returned() }

func (l *Lease[T]) refuse(what string) error {
	return fmt.Errorf("guard: %s %s: %w", what, l.end.name, ErrReleased)
}
