package guard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ending is the one release of a lease, or the one reclaim of an acquire: its limits, its
// result, and who waits for it. Handles of the same lease share it, so that Done means the
// same before and after a Transfer.
type ending struct {
	name    string
	timeout time.Duration
	grace   time.Duration
	observe func(Event)

	own     detached      // the context of the call
	overdue chan struct{} // closed when the hard limit passed before that; nil without one

	mu      sync.Mutex    // guards the fields below
	over    bool          // the call has returned
	done    chan struct{} // closed when it has; made for whoever waits
	settled bool          // release is final
	commit  Outcome       // of a Commit that failed, else zero; set before the release starts
	release Outcome       // of the call, or the hard limit's
}

// prepare fills in a zero ending for the resource.
func (r *Resource[T]) prepare(e *ending) {
	e.name, e.timeout, e.grace, e.observe = r.name(), r.timeout(), r.Grace, r.Observe
	if e.grace > 0 {
		e.overdue = make(chan struct{})
	}
}

// run makes the call and waits for it, at most until its hard limit where there is one; wait
// then has the result. It is called once. about is the event to report, but for what only the
// end of the call can tell.
func (e *ending) run(ctx context.Context, about Event, by backer) {
	start := time.Now()
	if e.grace == 0 {
		e.call(ctx, start, about, by)
		return
	}
	go e.call(ctx, start, about, by) // waited for through done
	e.limit(start, about)
}

// A backer gives a thing back: a lease by its release, a resource by its reclaim.
type backer interface {
	back(ctx context.Context, o Outcome) error
}

func (e *ending) call(ctx context.Context, start time.Time, about Event, by backer) {
	own := &e.own
	own.parent, own.deadline = ctx, start.Add(e.timeout)
	attempt(own, true, func() error { return by.back(own, about.Outcome) }, func(o Outcome) {
		own.end()
		defer e.finish()
		if about.Late = !e.settle(o); about.Late {
			<-e.overdue // the event of the limit comes first
		}
		e.tell(start, about, o.Err)
	})
}

// limit waits until the call has returned or its hard limit has passed.
func (e *ending) limit(start time.Time, about Event) {
	hard := e.timeout + e.grace
	timer := time.NewTimer(hard)
	defer timer.Stop()
	select {
	case <-e.returned():
		return
	case <-timer.C:
	}
	err := fmt.Errorf("%w (limit %v)", ErrReleaseTimeout, hard)
	if e.settle(Outcome{Kind: Cancelled, Err: err}) {
		defer close(e.overdue)
		e.tell(start, about, err)
	}
}

// settle makes o the result unless there is one, and says whether it did.
func (e *ending) settle(o Outcome) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.settled {
		return false
	}
	e.settled, e.release = true, o
	return true
}

// fail records that Commit ended with o.
func (e *ending) fail(o Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.commit = o
}

// finish says that the call has returned.
func (e *ending) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.done != nil {
		close(e.done)
	}
}

// returned returns a channel that is closed when the call has returned. Most releases are
// waited for by nobody but who makes them, so it is made here.
func (e *ending) returned() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.over {
			close(e.done)
		}
	}
	return e.done
}

// wait blocks until there is a result and returns it: the same one to everybody.
func (e *ending) wait() (commit, release Outcome) {
	if commit, release, over := e.result(); over {
		return commit, release
	}
	select {
	case <-e.returned():
	case <-e.overdue:
	}
	commit, release, _ = e.result()
	return commit, release
}

func (e *ending) result() (commit, release Outcome, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.commit, e.release, e.over
}

func (e *ending) tell(start time.Time, about Event, err error) {
	if e.observe == nil {
		return
	}
	about.Name, about.Err, about.Took = e.name, err, time.Since(start)
	e.observe(about)
}
