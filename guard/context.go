package guard

import (
	"context"
	"sync"
	"time"
)

// detached is the context of a release: the caller's values, not its cancellation, and a
// deadline of its own. Most releases never wait on it, so the timer and the channel behind it
// are made when Done is first called; from then on it is the standard context within.
type detached struct {
	parent  context.Context // for its values only
	started time.Duration   // by now
	timeout time.Duration

	mu     sync.Mutex // guards the fields below
	ended  bool       // the release has returned
	timed  context.Context
	cancel context.CancelFunc
}

// epoch is where time is counted from: that costs half of what the wall clock costs, at each
// release.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

func (d *detached) Deadline() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.standardLocked().Deadline() // made now, so that the answer stays the same
}

func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.standardLocked().Done()
}

func (d *detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil && !d.ended && now()-d.started < d.timeout {
		return nil
	}
	return d.standardLocked().Err() // made now, so that the answer stays the same
}

// Value asks the standard context once there is one, so that the context package recognises
// it and children of a detached need no goroutine. Before that it hides the caller's
// cancellation from the context package, as WithoutCancel does.
func (d *detached) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return context.WithoutCancel(d.parent).Value(key)
}

// endLocked cancels it, since the release has returned.
func (d *detached) endLocked() {
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

func (d *detached) standardLocked() context.Context {
	if d.timed != nil {
		return d.timed
	}
	values := context.WithoutCancel(d.parent)
	if d.ended { // then not by its deadline, though that may have passed since
		ended, cancel := context.WithCancel(values)
		cancel()
		values = ended
	}
	at := time.Now()
	d.timed, d.cancel = context.WithDeadline(values, at.Add(d.timeout-(at.Sub(epoch)-d.started)))
	return d.timed
}
