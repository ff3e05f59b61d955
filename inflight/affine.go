package inflight

import (
	"context"
	"fmt"
	"sync"
)

// Affine is a value that may be touched on one Executor only. It begins with Bind and is ended
// by Destroy. Its methods may be called from any goroutine. Called by a function that runs on
// the value's Loop they act directly, since a post would wait for its caller; a function on
// another kind of Executor must not call them.
type Affine[T any] struct {
	on      Executor
	name    string
	destroy func(T) error
	free    func()
	gone    chan struct{} // closed when destroy has returned
	err     error         // of destroy; before gone

	mu    sync.Mutex // guards the fields below
	ended bool       // destroy has begun
	inUse int        // functions of Do that run, one inside the other
	value T
}

// keeper is an Executor that knows what is bound to it, and whether it is running the caller.
type keeper interface {
	adopt(name string) (free func(), err error)
	within() bool
}

// Bind gives a value, made wherever, to an executor. From then on it is used with Do and ended
// with Destroy, which calls destroy once, there. A Loop is not shut down before that, and
// refuses the value with ErrClosed once it is. Any other executor must be kept alive by whoever
// owns it until its values are destroyed.
func Bind[T any](on Executor, name string, v T, destroy func(T) error) (*Affine[T], error) {
	if destroy == nil {
		return nil, fmt.Errorf("inflight: bind %s: the destroy function is nil", name)
	}
	a := &Affine[T]{on: on, name: name, destroy: destroy, value: v, gone: make(chan struct{}), free: func() {}}
	if k, ok := on.(keeper); ok {
		free, err := k.adopt(name)
		if err != nil {
			return nil, fmt.Errorf("inflight: bind %s: %w", name, err)
		}
		a.free = free
	}
	return a, nil
}

// Do runs f with the value on the executor, waits for it and returns its error. When ctx ends
// before f began, f never runs and the error is ErrPending and the cause; once f runs, Do waits
// for it however long it takes. Once destroy began, or was posted before, it is ErrReleased.
func (a *Affine[T]) Do(ctx context.Context, f func(T) error) error {
	if _, err := a.get(); err != nil {
		return err
	}
	c := &call{done: make(chan struct{}), err: errUnfinished}
	err := a.post(func() {
		defer close(c.done)
		if !c.begin() {
			return
		}
		c.err = a.use(f)
	})
	if err != nil {
		return fmt.Errorf("inflight: use %s: %w", a.name, err)
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if c.begin() {
		return fmt.Errorf("inflight: use %s: %w and now withdrawn: %w", a.name, ErrPending, context.Cause(ctx))
	}
	<-c.done
	return c.err
}

// use calls f with the value.
func (a *Affine[T]) use(f func(T) error) error {
	v, err := a.get()
	if err != nil {
		return err
	}
	a.count(1)
	defer a.count(-1)
	return f(v)
}

func (a *Affine[T]) count(more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inUse += more
}

// call is one Do: either it runs or it is withdrawn.
type call struct {
	done chan struct{}
	err  error // before done

	mu    sync.Mutex // guards the field below
	begun bool
}

// begin says whether the caller is the first.
func (c *call) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.begun
	c.begun = true
	return first
}

func (a *Affine[T]) get() (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		var none T
		return none, fmt.Errorf("inflight: use %s: %w", a.name, ErrReleased)
	}
	return a.value, nil
}

// post runs f on the executor, at once when the caller is there already.
func (a *Affine[T]) post(f func()) error {
	if k, ok := a.on.(keeper); ok && k.within() {
		f()
		return nil
	}
	return a.on.Post(f)
}

// Destroy ends the value on its executor and returns after that, with the error of the destroy
// function: a post is not yet an end. The first call has it done; every other waits for it and
// returns the same. When ctx ends before that, the error is ErrPending and the cause, and the
// value will be destroyed all the same; a later Destroy waits on. When the executor refuses the
// post, nothing has changed and Destroy can be tried again; the value is never destroyed on
// another goroutine instead. From inside a Do of the value it is ErrInside.
func (a *Affine[T]) Destroy(ctx context.Context) error {
	if a.inside() {
		return fmt.Errorf("inflight: destroy %s: %w: a Do of it still runs", a.name, ErrInside)
	}
	if !a.isEnded() {
		// Refused after it ended means: another Destroy was first, and the executor ended since.
		if err := a.post(a.finish); err != nil && !a.isEnded() {
			return fmt.Errorf("inflight: destroy %s: %w", a.name, err)
		}
	}
	select {
	case <-a.gone:
		return a.err
	case <-ctx.Done():
	}
	select {
	case <-a.gone:
		return a.err
	default:
		return fmt.Errorf("inflight: destroy %s: %w: %w", a.name, ErrPending, context.Cause(ctx))
	}
}

// inside reports whether the caller is a function of Do, or was called by one.
func (a *Affine[T]) inside() bool {
	k, ok := a.on.(keeper)
	if !ok || !k.within() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inUse > 0
}

// finish destroys the value, the first time.
func (a *Affine[T]) finish() {
	v, first := a.end()
	if !first {
		return
	}
	a.err = fmt.Errorf("inflight: destroy %s: %w", a.name, errUnfinished)
	defer close(a.gone)
	defer a.free()
	a.err = a.destroy(v)
}

func (a *Affine[T]) end() (v T, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var none T
	v, first = a.value, !a.ended
	a.value, a.ended = none, true
	return v, first
}

func (a *Affine[T]) isEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}
