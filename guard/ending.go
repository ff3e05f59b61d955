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
	done    chan struct{} // closed when the call has returned
	overdue chan struct{} // closed when the hard limit passed before that; nil without one

	mu      sync.Mutex // guards the fields below
	settled bool       // release is final
	commit  Outcome    // of a Commit that failed, else zero; set before the release starts
	release Outcome    // of the call, or the hard limit's
}

// prepare fills in a zero ending for the resource.
func (r *Resource[T]) prepare(e *ending) {
	e.name, e.timeout, e.grace, e.observe = r.name(), r.timeout(), r.Grace, r.Observe
	e.done = make(chan struct{})
	if e.grace > 0 {
		e.overdue = make(chan struct{})
	}
}

// run makes the call and waits for it, at most until its hard limit where there is one; wait
// then has the result. It is called once. about is the event to report, but for what only the end of the call can tell.
func (e *ending) run(ctx context.Context, about Event, call func(context.Context) error) {
	start := time.Now()
	if e.grace == 0 {
		e.call(ctx, start, about, call)
		return
	}
	go e.call(ctx, start, about, call) // waited for through done
	e.limit(start, about)
}

func (e *ending) call(ctx context.Context, start time.Time, about Event, call func(context.Context) error) {
	own := &e.own
	own.parent, own.deadline = ctx, start.Add(e.timeout)
	attempt(own, true, func() error { return call(own) }, func(o Outcome) {
		own.end()
		defer close(e.done)
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
	case <-e.done:
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

// wait blocks until there is a result and returns it: the same one to everybody.
func (e *ending) wait() (commit, release Outcome) {
	select {
	case <-e.done:
	case <-e.overdue:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.commit, e.release
}

func (e *ending) tell(start time.Time, about Event, err error) {
	if e.observe == nil {
		return
	}
	about.Name, about.Err, about.Took = e.name, err, time.Since(start)
	e.observe(about)
}
