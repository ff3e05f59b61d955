package guard

import (
	"context"
	"fmt"
	"time"
)

// ending is the one release of a lease, or the one reclaim of an acquire: its limits, its
// result, and who waits for it. Handles of the same lease share it, so that Done means the
// same before and after a Transfer.
type ending struct {
	name    string
	observe func(Event)
	opened  time.Duration // by now, where somebody observes
	hard    *hardLimit    // nil without one
	reclaim bool          // of an acquire

	own detached // the context of the call; it ends when the call has returned

	// own.mu guards the fields below.
	settled bool          // how the release went is final
	failed  *ways         // nil while all went well
	done    chan struct{} // closed when the call has returned; made for whoever waits
}

// A hardLimit is for a call that ignores its context.
type hardLimit struct {
	grace  time.Duration
	passed chan struct{} // closed when it passed before the call returned
}

// ways are those of a Commit and of the release after it, or of the hard limit of that.
type ways struct{ commit, release way }

// prepare fills in a zero ending for the resource.
func (r *Resource[T]) prepare(e *ending) {
	e.name, e.own.timeout, e.observe = r.name(), r.timeout(), r.Observe
	if r.Grace > 0 {
		e.hard = &hardLimit{r.Grace, make(chan struct{})}
	}
}

// run makes the call and waits for it, at most until its hard limit where there is one, and
// returns the result. It is called once, with how the work ended, or the acquire.
func (e *ending) run(ctx context.Context, work Outcome, by backer) way {
	start := now()
	if e.hard == nil {
		return e.call(ctx, start, work, by)
	}
	go e.call(ctx, start, work, by) // waited for through done
	return e.limit(start, work)
}

// A backer gives a thing back: a lease by its release, a resource by its reclaim.
type backer interface {
	back(ctx context.Context, o Outcome) error
}

func (e *ending) call(ctx context.Context, start time.Duration, work Outcome, by backer) (release way) {
	own := &e.own
	own.parent, own.started = ctx, start
	attempt(own, true, func() error { return by.back(own, work) }, func(w way) {
		release = w
		defer e.finish(w)
		late := e.hard != nil && !e.settle(w)
		if late {
			<-e.hard.passed // the event of the limit comes first
		}
		e.tell(start, work, w.err, late)
	})
	return release
}

// limit waits until the call has returned or its hard limit has passed.
func (e *ending) limit(start time.Duration, work Outcome) way {
	hard := e.own.timeout + e.hard.grace
	timer := time.NewTimer(hard)
	defer timer.Stop()
	select {
	case <-e.returned():
	case <-timer.C:
		err := fmt.Errorf("%w (limit %v)", ErrReleaseTimeout, hard)
		if e.settle(way{Cancelled, err}) {
			defer close(e.hard.passed)
			e.tell(start, work, err, false)
		}
	}
	w, _ := e.result()
	return w.release
}

// settle makes w the result unless there is one, and says whether it did.
func (e *ending) settle(w way) bool {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	return e.settleLocked(w)
}

func (e *ending) settleLocked(w way) bool {
	if e.settled {
		return false
	}
	e.settled = true
	if w.err != nil {
		e.failedLocked().release = w
	}
	return true
}

// fail records how a Commit that failed ended.
func (e *ending) fail(w way) {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	e.failedLocked().commit = w
}

func (e *ending) failedLocked() *ways {
	if e.failed == nil {
		e.failed = new(ways)
	}
	return e.failed
}

// finish says that the call has returned, and ends its context.
func (e *ending) finish(w way) {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	e.own.endLocked()
	e.settleLocked(w)
	if e.done != nil {
		close(e.done)
	}
}

// returned returns a channel that is closed when the call has returned. Most releases are
// waited for by nobody but who makes them, so it is made here.
func (e *ending) returned() <-chan struct{} {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.own.ended {
			close(e.done)
		}
	}
	return e.done
}

// wait blocks until there is a result and returns it: the same one to everybody.
func (e *ending) wait() ways {
	w, over := e.result()
	if over {
		return w
	}
	var passed chan struct{}
	if e.hard != nil {
		passed = e.hard.passed
	}
	select {
	case <-e.returned():
	case <-passed:
	}
	w, _ = e.result()
	return w
}

// result returns how it went, or how it goes so far, and whether the call has returned.
func (e *ending) result() (w ways, over bool) {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	if e.failed != nil {
		w = *e.failed
	}
	return w, e.own.ended
}

func (e *ending) tell(start time.Duration, work Outcome, err error, late bool) {
	if e.observe == nil {
		return
	}
	about := Event{Name: e.name, Step: StepRelease, Outcome: work, Err: err, Took: now() - start, Late: late}
	if e.reclaim {
		about.Step = StepReclaim
	} else {
		about.Held = start - e.opened
	}
	e.observe(about)
}
