package guard

import (
	"context"
	"errors"
	"time"
)

// Use acquires the resource, runs body on the caller's goroutine, and releases on every way
// out of it. It returns after the release ended. The body gets ctx itself and the lease, whose
// Value is the thing.
//
//   - The value is always what body returned, also beside an error: with a nil Body in the
//     *Error the work is done and only the release failed. A value wins over a cancellation
//     that came after it.
//   - When ctx had ended before Acquire, nothing is acquired; when it ended during Acquire, the
//     thing is released and the body does not run. In these two cases the error is
//     context.Cause(ctx); of work that was cancelled it is what the body returned.
//   - The error of Acquire is returned as it is, and nothing is released.
//   - A panic of Acquire, body or Commit goes on, and so does a Goexit, after the release;
//     an error of that release then reaches only Resource.Observe.
//   - A Use whose release failed has failed for a Use around it, which then is told Failed and
//     does not commit, unless its body looks at the error first: see [WorkSucceeded].
//   - A body may Transfer its lease away, or Close it and so say itself how the work ended: Use
//     then commits and releases nothing more. A deferred Close with an empty Outcome, which is
//     right after Open, is wrong in a body: it means abandoned, and nothing is committed.
//
// A Resource that lacks Acquire or Release, or has a negative limit, and a nil body are refused
// before anything is acquired.
func Use[T, R any](ctx context.Context, res Resource[T], body func(ctx context.Context, l *Lease[T]) (R, error)) (R, error) {
	r := use(ctx, &res, body, false)
	return r.value, both(res.name(), r.work.err, r.release.err)
}

// Open acquires the resource for a scope that is no block of code. Whoever has the lease must
// call Close. It fails as Use does, and then nothing is held. A lease that is garbage collected
// unclosed is reported to Resource.Observe with the place of its Open, and not released.
func Open[T any](ctx context.Context, res Resource[T]) (*Lease[T], error) {
	l, work, undo := acquire(ctx, &res, false)
	if l == nil {
		return nil, both(res.name(), work.err, undo.err)
	}
	l.watch()
	return l, nil
}

// result is all that a use came to.
type result[R any] struct {
	value   R
	entered bool // the body was called
	work    way  // of acquire, body or commit: the first that did not go well, else the body's
	release way  // of the release or the reclaim; zero when there was none
}

// use is the one implementation of Use and Execute. With contain, panics become outcomes.
func use[T, R any](ctx context.Context, res *Resource[T], body func(context.Context, *Lease[T]) (R, error), contain bool) (r result[R]) {
	if body == nil {
		r.work = way{Failed, res.refuse("the body is nil")}
		return r
	}
	var l *Lease[T]
	if l, r.work, r.release = acquire(ctx, res, contain); l == nil {
		return r
	}
	attempt(ctx, contain, func() (err error) {
		r.entered = true
		r.value, err = body(ctx, l)
		return err
	}, func(w way) {
		var commit way
		commit, r.release = l.close(ctx, contain, Outcome{Kind: w.kind, Err: w.err})
		if r.work = w; w.err == nil && commit.err != nil {
			r.work = commit
		}
	})
	return r
}

// acquire returns a lease, or nil with what went wrong and how undoing it went.
func acquire[T any](ctx context.Context, res *Resource[T], contain bool) (l *Lease[T], work, undo way) {
	if err := res.check(); err != nil {
		return nil, way{Failed, err}, way{}
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, ended(ctx, cause), way{}
	}
	var v T
	start := res.observed()
	attempt(ctx, contain, func() (err error) {
		v, err = res.Acquire(ctx)
		return err
	}, func(w way) {
		if work = w; w.err != nil {
			undo = reclaim(ctx, res, w.outcome(ctx), res.observed()-start)
		}
	})
	if work.err != nil {
		return nil, work, undo
	}
	return own(ctx, res, v, start, contain)
}

// own makes the lease for what Acquire returned. From here on the guard answers for it: when
// ctx has ended meanwhile, or the observer panics, it is released at once.
func own[T any](ctx context.Context, res *Resource[T], v T, start time.Duration, contain bool) (l *Lease[T], work, undo way) {
	l = newLease(res, v)
	end := func(w way) {
		if work = w; w.err != nil {
			_, undo = l.close(ctx, contain, w.outcome(ctx))
			l = nil
		}
	}
	if res.Observe == nil {
		end(ended(ctx, context.Cause(ctx)))
		return l, work, undo
	}
	l.end.opened = now()
	attempt(ctx, contain, func() error {
		res.acquired(Outcome{Kind: Completed}, l.end.opened-start)
		return context.Cause(ctx)
	}, end)
	return l, work, undo
}

// reclaim deals with an acquire that failed: it takes back what may have been given out.
func reclaim[T any](ctx context.Context, res *Resource[T], work Outcome, took time.Duration) (undo way) {
	defer res.acquired(work, took) // after the reclaim, which an observer cannot prevent
	if res.Reclaim == nil || !errors.Is(work.Err, ErrUncertain) {
		return way{}
	}
	e, back := new(ending), *res // a copy, so that res itself need not be on the heap
	res.prepare(e)
	e.reclaim = true
	return e.run(ctx, work, &back)
}

func (r *Resource[T]) back(ctx context.Context, o Outcome) error { return r.Reclaim(ctx, o.Err) }

// observed is the time, where somebody hears of it.
func (r *Resource[T]) observed() time.Duration {
	if r.Observe == nil {
		return 0
	}
	return now()
}

func (r *Resource[T]) acquired(o Outcome, took time.Duration) {
	if r.Observe != nil {
		r.Observe(Event{Name: r.name(), Step: StepAcquire, Outcome: o, Err: o.Err, Took: took})
	}
}
