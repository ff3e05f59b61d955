package scope

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/berth-dev/berth/guard"
)

// WorkerConfig says how many workers there are and how they end. Count is required.
type WorkerConfig struct {
	// Name is the workers' name in errors.
	Name string
	// Count is how many there are, at least 1.
	Count int
	// Queue is how many functions may wait for a worker; with 0 a caller waits itself.
	Queue int
	// Threads gives each worker an operating system thread of its own, which is gone after
	// Close, with whatever the functions left on it. Outside Linux one of them can be the
	// process's main thread, which the runtime puts to sleep instead.
	Threads bool
	// Drain lets Close run what is queued, instead of refusing it and cancelling what runs. A
	// Cancel, or the end of the context that the workers were made with, refuses it all the same.
	Drain bool
	// Contain makes a panic an error like any other. Otherwise the process crashes, but for
	// the panics of tasks, which are their results.
	Contain bool
	// Keep is how many errors are kept, OnFailure hears of each; see Config. It hears too, with
	// ErrClosed, of each function of Go that was taken and then refused, which is in no result.
	Keep      int
	OnFailure func(name string, err error)
}

// Workers run functions on a fixed number of goroutines. They begin with NewWorkers and are
// ended by Close. A function that panics or calls runtime.Goexit costs no worker. The methods
// may be called from any goroutine.
type Workers struct {
	cfg     WorkerConfig
	scope   *Scope // its children are the workers
	queue   chan job
	stop    sync.Once     // shuts the queue
	closing chan struct{} // closed first, so that who waits for room gives up

	gate   sync.RWMutex // read-locked while a function is handed in; guards closed
	closed bool         // so is queue
}

// A desk says what a worker does now.
type desk struct {
	mu   sync.Mutex // held by others to read the fields below, by the worker to change them
	busy bool
	name string
}

// NewWorkers starts the workers. It refuses a Count below 1 and a negative Queue. Whoever has
// them must call Close, also when ctx has ended, which only cancels what they run and has them
// refuse the rest.
func NewWorkers(ctx context.Context, cfg WorkerConfig) (*Workers, error) {
	switch {
	case cfg.Count < 1:
		return nil, fmt.Errorf("scope: start %s: Count is %d; it must be at least 1", cmp.Or(cfg.Name, "workers"), cfg.Count)
	case cfg.Queue < 0:
		return nil, fmt.Errorf("scope: start %s: Queue is %d; it must not be negative", cmp.Or(cfg.Name, "workers"), cfg.Queue)
	}
	w := &Workers{
		cfg: cfg,
		scope: New(ctx, Config{
			Name: cfg.Name, Supervise: true, Contain: cfg.Contain, Keep: cfg.Keep, OnFailure: cfg.OnFailure,
		}),
		queue:   make(chan job, cfg.Queue),
		closing: make(chan struct{}),
	}
	for range cfg.Count {
		w.hire(&desk{}, nil)
	}
	return w, nil
}

// hire starts one worker, also while closing: then it refuses what is queued. here, where it
// is not nil, is closed once the worker has its thread.
func (w *Workers) hire(d *desk, here chan<- struct{}) {
	c := &child{told: true, part: &part{scope: w.scope, desk: d}}
	c.run = func(ctx context.Context) error {
		if w.cfg.Threads && !w.takeThread(d, here) {
			return nil
		}
		return w.work(ctx, d)
	}
	w.scope.mu.Lock()
	w.scope.linkLocked(c)
	w.scope.mu.Unlock()
	go c.main() // waited for by the scope
}

// Go hands f to a worker, and waits for room in the queue until ctx ends; ctx has no other
// meaning. It returns nil when f was taken: then f runs, unless the workers are closed or
// cancelled first, of which OnFailure hears; a task started with [Async] ends with that.
// After that it returns ErrClosed.
func (w *Workers) Go(ctx context.Context, name string, f func(ctx context.Context) error) error {
	return w.start(ctx, job{name: name, run: f})
}

func (w *Workers) supervises() bool { return true }

func (w *Workers) start(ctx context.Context, j job) error {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if w.closed || w.scope.ctx.Err() != nil {
		return w.refusal(j.name)
	}
	select {
	case w.queue <- j:
		return nil
	default:
	}
	select {
	case w.queue <- j:
		return nil
	case <-w.closing:
		return w.refusal(j.name)
	case <-w.scope.ctx.Done():
		return w.refusal(j.name)
	case <-ctx.Done():
		return fmt.Errorf("scope: start %s: no room in the queue of %d: %w", w.scope.label(j.name), w.cfg.Queue, context.Cause(ctx))
	}
}

func (w *Workers) refusal(name string) error {
	cause := context.Cause(&w.scope.ctx)
	if cause == nil {
		cause = ErrClosed
	}
	return w.scope.refusal(name, cause)
}

// takeThread gives the worker a thread that ends with it. The main thread never ends: whoever
// is on that keeps it until another worker has its own, which is a different one, and goes.
func (w *Workers) takeThread(d *desk, here chan<- struct{}) bool {
	runtime.LockOSThread()
	if here != nil {
		close(here)
	}
	if !onMainThread() {
		return true
	}
	locked := make(chan struct{})
	w.hire(d, locked)
	<-locked
	runtime.UnlockOSThread()
	return false
}

// work is a worker's life.
func (w *Workers) work(ctx context.Context, d *desk) error {
	for j := range w.queue {
		if ctx.Err() != nil {
			w.refuse(&j)
			continue
		}
		d.begin(j.name)
		w.do(ctx, d, &j)
		if len(w.queue) == 0 {
			d.end()
		}
	}
	return nil
}

// refuse ends a function that was taken and will not run.
func (w *Workers) refuse(j *job) {
	err := w.refusal(j.name)
	if scopes := j.awaiter.settle(err); scopes && w.cfg.OnFailure != nil {
		w.cfg.OnFailure(j.name, err)
	}
}

// do runs one function.
func (w *Workers) do(ctx context.Context, d *desk, j *job) {
	returned := false
	defer func() {
		if !returned {
			w.broke(d, j, recover())
		}
	}()
	err := j.run(ctx)
	returned = true
	w.end(j, err)
}

func (w *Workers) end(j *job, err error) {
	if scopes := j.awaiter.settle(err); err != nil && scopes {
		w.scope.fail(j.name, err)
	}
}

// broke ends a function that did not return. After a Goexit the worker's goroutine goes, and
// another takes its desk.
func (w *Workers) broke(d *desk, j *job, p any) {
	if p == nil {
		d.end()
		w.hire(d, nil)
		w.end(j, fmt.Errorf("%s: %w", w.scope.label(j.name), guard.ErrExited))
		return
	}
	err := &guard.PanicError{Value: p, Stack: debug.Stack()}
	if !w.cfg.Contain && !j.awaiter.contains() {
		w.scope.stop(err)
		panic(p)
	}
	w.end(j, err)
}

// Running returns what the workers run now.
func (w *Workers) Running() []Child { return w.scope.Running() }

// Cancel cancels what runs with the cause and has the workers refuse the rest. It does not
// wait.
func (w *Workers) Cancel(cause error) { w.scope.Cancel(cause) }

// Close takes no more, cancels what runs with the cause (nil means ErrClosed) and refuses what
// is queued, or lets both end with Drain, and waits until the workers are gone. It may be
// called as [Scope.Close] may, and returns the same.
func (w *Workers) Close(ctx context.Context, cause error) error {
	w.shut()
	if w.cfg.Drain && context.Cause(&w.scope.ctx) == nil {
		w.scope.join()
	} else {
		w.scope.beginClose(cause)
	}
	return w.scope.awaitOver(ctx)
}

// shut closes the queue, once nobody hands anything in any more.
func (w *Workers) shut() {
	w.stop.Do(func() {
		close(w.closing)
		w.gate.Lock()
		defer w.gate.Unlock()
		w.closed = true
		close(w.queue)
	})
}

func (d *desk) begin(name string) { d.set(true, name) }
func (d *desk) end()              { d.set(false, "") }

// set is for the worker alone, who need not lock to see that nothing changes.
func (d *desk) set(busy bool, name string) {
	if d.busy == busy && d.name == name {
		return
	}
	d.mu.Lock()
	d.busy, d.name = busy, name
	d.mu.Unlock()
}

// doing returns the function that the worker runs.
func (d *desk) doing() (name string, busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.name, d.busy
}
