package inflight

import (
	"context"
	"sync"
)

// Registration is a function that waits for a context to end. It begins with AfterFunc; whoever
// has it calls Stop. Its methods may be called from any goroutine.
type Registration struct {
	off  func() bool   // of context.AfterFunc
	done chan struct{} // closed when f has returned, or will never run

	mu      sync.Mutex // guards the fields below
	stopped bool       // before f began
	runs    uint64     // the goroutine that f runs on; 0 before
}

// AfterFunc calls f on its own goroutine when ctx has ended, as context.AfterFunc does, at once
// if it has ended already. The difference is the Stop: after it f neither runs nor will.
func AfterFunc(ctx context.Context, f func()) *Registration {
	r := &Registration{done: make(chan struct{})}
	r.off = context.AfterFunc(ctx, func() {
		defer close(r.done)
		r.begin()
		f()
	})
	return r
}

func (r *Registration) begin() {
	id := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = id
}

// Stop takes the registration back and says whether f will never run. If f runs already, Stop
// waits until it has returned, except when it is called from f itself. It may be called any
// number of times and returns the same.
func (r *Registration) Stop() bool {
	if r.off() {
		r.mu.Lock()
		r.stopped = true
		r.mu.Unlock()
		close(r.done)
		return true
	}
	r.mu.Lock()
	own := r.runs != 0 && r.runs == goroutine()
	r.mu.Unlock()
	if own {
		return false
	}
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}
