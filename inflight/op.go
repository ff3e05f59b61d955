package inflight

import (
	"context"
	"fmt"
	"time"
)

// Config says how one operation is handled. The zero value is ready to use.
type Config[T any] struct {
	// Name stands in errors and events. Empty means "operation".
	Name string

	// OnComplete is called once, after the completion, with no lock held. The value and the
	// bytes of the buffer are lent to it until it returns. It runs on whichever goroutine
	// brought the operation so far, Start's own for a completion inside the registration, so it
	// must not wait. Optional.
	OnComplete func(v T, bytes []byte, err error)

	// Dispose is called once with a value that nobody will take: the operation completed
	// without an error and was abandoned or drained. Optional.
	Dispose func(v T)
}

// Start begins an operation of s. It calls register on the caller's goroutine, which publishes
// the Completer to its source and returns a function that asks the source to cancel, or nil.
// That function is called at most once, with the cause, not before register has returned and
// not after the completion; it must not wait for the completion.
//
// When Start returns nil, the buffer (nil for none) has moved into the operation and comes back
// with Take. With an error the buffer is the caller's as before and there is no operation: s
// was closed (ErrClosed) or the buffer in use (ErrInFlight, ErrReleased), and register was not
// called; or register failed. Should the completion have come before that, it counts, Start
// returns the operation, and the error of register is told to Set.Observe.
//
// When register panics, the panic goes on. The operation, which may have been published, stays
// with s and keeps the buffer locked until it completes; then its value is disposed of, and the
// buffer is the caller's again.
func Start[T any](s *Set, c Config[T], b *Buffer, register func(Completer[T]) (cancel func(cause error), err error)) (Op[T], error) {
	o := &operation[T]{set: s, conf: c, buf: b, doing: registering}
	o.name, o.started = c.Name, time.Now()
	if register == nil {
		return Op[T]{}, fmt.Errorf("inflight: start %v: the register function is nil", o.label)
	}
	if s.Trace {
		o.callers = callers()
	}
	if err := o.enter(); err != nil {
		return Op[T]{}, fmt.Errorf("inflight: start %v: %w", o.label, err)
	}
	return o.start(register)
}

// enter makes the set the owner of o, and o that of its buffer.
func (o *operation[T]) enter() (err error) {
	if err = o.set.admit(o, &o.birth); err != nil {
		return err
	}
	if err = o.buf.enter(o.label); err != nil {
		o.set.withdraw(o.number)
	}
	return err
}

// Completer is the source's side of an operation, a small value. It may be copied, kept for any
// time, and used from any goroutine.
type Completer[T any] struct{ op *operation[T] }

// Complete ends the operation with a value or an error. The first call counts and returns true;
// the source must not touch the bytes from then on. Every other call does nothing and returns
// false: the value stays the source's. It may run OnComplete and Dispose before it returns, and
// waits for nothing else.
func (c Completer[T]) Complete(v T, err error) bool {
	return c.op != nil && c.op.complete(v, err)
}

// Bytes returns those of the buffer, for the source to use until it completes; after that, and
// without a buffer, nil.
func (c Completer[T]) Bytes() []byte {
	if c.op == nil {
		return nil
	}
	c.op.mu.Lock()
	defer c.op.mu.Unlock()
	if c.op.phase != open {
		return nil
	}
	return c.op.buf.raw()
}

// Op is the owner's side of an operation, a small value: a pointer and the generation of the
// handle. It begins with Start; whoever has it ends it with Take or Abandon. Copies are the
// same handle. After Transfer all of them are inert; so is the zero value. All methods may be
// called from any goroutine.
type Op[T any] struct {
	op   *operation[T]
	turn uint32
}

// Cancel asks the source to end the operation, and says whether this call was the request:
// false if it was asked before, has completed, or the handle is inert. True does not mean that
// the operation will be cancelled: the source decides, and a value that comes all the same is
// the result. It may run the cancel function and what follows from it, and waits for nothing
// else. A nil cause means context.Canceled.
func (h Op[T]) Cancel(cause error) bool {
	if cause == nil {
		cause = context.Canceled
	}
	asked := false
	h.with(func(o *operation[T]) error {
		asked = o.askLocked(cause)
		return nil
	})
	return asked
}

// Abandon gives the handle up: nobody will take the result. It does not cancel and does not
// wait. The Set owns the operation until it has settled; then the value is disposed of and the
// buffer released. After a Take it does nothing, so it can be deferred.
func (h Op[T]) Abandon() {
	h.with(func(o *operation[T]) error {
		o.abandoned = true
		return nil
	})
}

// Transfer moves the operation to a new handle. Every copy of the old one is then inert: it
// cancels nothing, and Wait, Take and Transfer return ErrMoved, those that wait already when
// they wake up. It fails with ErrMoved or ErrTaken.
func (h Op[T]) Transfer() (Op[T], error) {
	next := Op[T]{}
	err := h.with(func(o *operation[T]) error {
		o.turn++
		next = Op[T]{o, o.turn}
		return nil
	})
	return next, err
}

// Done is closed when the operation has settled. It is nil for the zero Op.
func (h Op[T]) Done() <-chan struct{} {
	if h.op == nil {
		return nil
	}
	h.op.mu.Lock()
	defer h.op.mu.Unlock()
	return h.op.doneLocked()
}

// Wait waits until the operation has settled and returns nil, whatever the result. When ctx
// ends before that, it returns an error that is ErrPending and the cause of ctx: the operation
// goes on and the buffer stays locked. After Take or Abandon it returns ErrTaken. In a function
// of the operation itself it returns ErrInside; in that of another it may.
func (h Op[T]) Wait(ctx context.Context) error {
	return h.with(func(o *operation[T]) error { return h.waitLocked(ctx) })
}

// Take waits as Wait does and then hands over the value, the buffer and the error of the
// operation. The buffer comes back in success and in failure, nil only when there was none or
// Take did not take. One Take of all gets the result, every other ErrTaken. With a ctx that has
// ended it takes what is there, without waiting.
func (h Op[T]) Take(ctx context.Context) (v T, b *Buffer, err error) {
	var result error
	if err = h.with(func(o *operation[T]) error {
		err := h.waitLocked(ctx)
		if err == nil {
			v, b, result = o.takeLocked()
		}
		return err
	}); err != nil {
		return v, nil, err
	}
	h.op.set.remove(h.op.number)
	return v, b, result
}

// with calls f under the lock, unless the handle is inert or the result gone, and then does
// what has become due.
func (h Op[T]) with(f func(o *operation[T]) error) error {
	if h.op == nil {
		return fmt.Errorf("inflight: no operation was started: %w", ErrMoved)
	}
	h.op.mu.Lock()
	err := h.usableLocked()
	if err == nil {
		err = f(h.op)
	}
	act := h.op.claimLocked()
	h.op.mu.Unlock()
	h.op.run(act)
	return err
}

func (h Op[T]) usableLocked() error {
	switch {
	case h.op.turn != h.turn:
		return fmt.Errorf("inflight: %v: %w", h.op.label, ErrMoved)
	case h.op.abandoned || h.op.phase == over:
		return fmt.Errorf("inflight: %v: %w", h.op.label, ErrTaken)
	}
	return nil
}

// waitLocked gives the lock back while it waits. A waiter keeps Drain from disposing of the
// result before it had a chance to take it.
func (h Op[T]) waitLocked(ctx context.Context) error {
	o := h.op
	if o.phase >= settled {
		return nil
	}
	if o.doing != nothing && inside() {
		return fmt.Errorf("inflight: wait for %v: %w: its functions must not wait", o.label, ErrInside)
	}
	done := o.doneLocked()
	o.waiters++
	o.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	o.waiters--
	if err := h.usableLocked(); err != nil || o.phase >= settled {
		return err
	}
	o.gaveUp = o.gaveUp || o.phase == open
	return fmt.Errorf("inflight: %v: %w: %w", o.label, ErrPending, context.Cause(ctx))
}
