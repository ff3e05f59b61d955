package inflight

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// operation is what an Op and a Completer stand for.
type operation[T any] struct {
	birth
	set  *Set
	conf Config[T]
	buf  *Buffer

	mu        sync.Mutex // guards the fields below
	turn      uint32     // of the one handle that is not inert
	phase     phase
	doing     action        // what runs now: never two
	cancel    func(error)   // until it is called
	asked     bool          // to cancel
	cause     error         // of the first who asked
	moved     bool          // the buffer is the operation's: Start returned no error
	failed    bool          // the registration failed and that counted
	waiters   int           // in Wait and Take
	gaveUp    bool          // one of them did, before the completion
	abandoned bool          // there is no handle
	drained   bool          // Drain came
	done      chan struct{} // made when first asked for; closed when settled
	value     T             // until taken
	err       error         // the source's
}

// phase is how far an operation has come. It only grows.
type phase int

const (
	open      phase = iota
	completed       // by its source, or by a registration that failed
	told            // OnComplete has run
	settled
	over // the result was taken, or disposed of, or there is none
)

// action is what somebody does for an operation.
type action int

const (
	nothing action = iota
	registering
	callCancel
	callComplete
	settle
	dispose
)

// start registers o with its source.
func (o *operation[T]) start(source func(Completer[T]) (func(error), error)) (Op[T], error) {
	returned := false
	defer func() {
		if !returned {
			o.orphan()
		}
	}()
	var cancel func(error)
	var err error
	within(func() { cancel, err = source(Completer[T]{o}) })
	returned = true
	if err == nil {
		o.armed(cancel)
		return Op[T]{o, 0}, nil
	}
	if o.refused(err) {
		return Op[T]{}, fmt.Errorf("inflight: start %v: %w", o.label, err)
	}
	return Op[T]{o, 0}, nil
}

// orphan: the registration panicked. Its completer may be anywhere, so the buffer stays locked
// until the completion; there will be no handle.
func (o *operation[T]) orphan() {
	o.mu.Lock()
	o.abandoned = true
	o.mu.Unlock()
	o.run(o.next())
}

func (o *operation[T]) armed(cancel func(error)) {
	o.mu.Lock()
	o.cancel, o.moved = cancel, true
	o.mu.Unlock()
	o.run(o.next())
}

// refused says whether the error of the registration counts: not if the completion came first.
func (o *operation[T]) refused(err error) bool {
	o.mu.Lock()
	o.failed = o.phase == open
	o.moved = !o.failed
	if o.failed {
		o.phase, o.err, o.abandoned = told, err, true
	}
	failed := o.failed
	o.mu.Unlock()
	if !failed {
		o.report(fmt.Errorf("it completed, and then its registration failed: %w", err))
	}
	o.run(o.next())
	return failed
}

// complete is the one authority over how o ends: the first call counts.
func (o *operation[T]) complete(v T, err error) bool {
	o.mu.Lock()
	if o.phase != open {
		failed := o.failed
		o.mu.Unlock()
		o.report(late(failed))
		return false
	}
	o.phase, o.value, o.err = completed, v, err
	act := o.claimLocked()
	o.mu.Unlock()
	o.run(act)
	return true
}

func late(failed bool) error {
	if failed {
		return errors.New("its registration failed, and then it completed")
	}
	return errors.New("it completed twice")
}

func (o *operation[T]) report(err error) {
	o.set.count(func(s *Stats) { s.Refused++ })
	o.tell(Refused, err)
}

func (o *operation[T]) tell(kind Kind, err error) {
	o.set.tell(Event{Operation: o.label.String(), Kind: kind, Err: err, Age: time.Since(o.started), Stack: o.stack()})
}

// drain asks o to end and makes sure that nothing of it is left. What is due now runs on its
// own goroutine, so that one that blocks holds up neither the others nor Drain's context; Drain
// waits for it, since o stays in its set meanwhile.
func (o *operation[T]) drain(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drained = true
	o.askLocked(cause)
	if act := o.claimLocked(); act != nothing {
		go o.run(act)
	}
}

// askLocked remembers that somebody asked o to cancel, and says whether this was the first.
func (o *operation[T]) askLocked(cause error) bool {
	if o.asked || o.phase != open {
		return false
	}
	o.asked, o.cause = true, cause
	return true
}

// claimLocked returns what is due, which the caller must then run, without the lock. It is
// nothing while something runs: whoever runs that claims what has become due when it ends.
func (o *operation[T]) claimLocked() action {
	if o.doing == nothing {
		o.doing = o.dueLocked()
		return o.doing
	}
	return nothing
}

func (o *operation[T]) dueLocked() action {
	switch {
	case o.phase == open && o.asked && o.cancel != nil:
		return callCancel
	case o.phase == completed:
		return callComplete
	case o.phase == told:
		return settle
	case o.phase == settled && (o.abandoned || o.drained) && o.waiters == 0:
		return dispose
	}
	return nothing
}

// run does what was claimed and whatever has become due by then. When a function of the user
// panics or exits, the rest is done all the same before that goes on.
func (o *operation[T]) run(act action) {
	if act == nothing {
		return
	}
	returned := false
	defer func() {
		if !returned {
			o.run(o.next())
		}
	}()
	for act != nothing {
		o.do(act)
		act = o.next()
	}
	returned = true
}

// next ends what runs and claims what is due.
func (o *operation[T]) next() action {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doing = nothing
	return o.claimLocked()
}

func (o *operation[T]) do(act action) {
	switch act {
	case callCancel:
		o.callCancel()
	case callComplete:
		o.callComplete()
	case settle:
		o.settle()
	case dispose:
		o.dispose()
	}
}

func (o *operation[T]) callCancel() {
	o.mu.Lock()
	cancel, cause := o.cancel, o.cause
	o.cancel = nil
	o.mu.Unlock()
	within(func() { cancel(cause) })
}

func (o *operation[T]) callComplete() {
	o.mu.Lock()
	o.phase = told
	v, err, isLate := o.value, o.err, o.gaveUp
	o.mu.Unlock()
	if isLate {
		o.tell(Late, err)
	}
	if o.conf.OnComplete != nil {
		within(func() { o.conf.OnComplete(v, o.buf.raw(), err) })
	}
}

// settle unlocks the buffer and lets the waiters go, in this order.
func (o *operation[T]) settle() {
	o.buf.leave()
	o.mu.Lock()
	isLate := o.gaveUp
	o.mu.Unlock()
	o.set.count(func(s *Stats) {
		s.Settled++
		if isLate {
			s.Late++
		}
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.phase = settled
	if o.done != nil {
		close(o.done)
	}
}

// dispose ends an operation whose result nobody will take.
func (o *operation[T]) dispose() {
	o.mu.Lock()
	v, b, err := o.takeLocked()
	moved, forgotten := o.moved, !o.abandoned
	o.mu.Unlock()

	defer o.set.remove(o.number)
	if moved {
		defer b.giveUp()
	}
	if forgotten {
		o.set.count(func(s *Stats) { s.Untaken++ })
		o.tell(Untaken, err)
	}
	if err == nil && o.conf.Dispose != nil {
		within(func() { o.conf.Dispose(v) })
	}
}

// takeLocked hands the result over, to the one who may have it.
func (o *operation[T]) takeLocked() (T, *Buffer, error) {
	var none T
	v, b, err := o.value, o.buf, o.err
	o.phase, o.value, o.buf = over, none, nil
	return v, b, err
}

// doneLocked makes the channel when it is first asked for.
func (o *operation[T]) doneLocked() chan struct{} {
	if o.done == nil {
		o.done = make(chan struct{})
		if o.phase >= settled {
			close(o.done)
		}
	}
	return o.done
}

func (o *operation[T]) describe() Open {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Open{
		Name: o.label.String(), Age: time.Since(o.started),
		State: o.stateLocked(), Stack: o.stack(),
	}
}

func (o *operation[T]) stateLocked() string {
	switch {
	case o.doing == registering:
		return "its registration runs"
	case o.doing == callCancel:
		return "its cancel function runs"
	case o.doing == callComplete:
		return "its OnComplete runs"
	case o.doing == dispose:
		return "its Dispose runs"
	case o.phase == settled:
		return "settled, its result not taken"
	case o.abandoned:
		return "not completed, nobody waits for it"
	case o.asked:
		return "not completed, asked to cancel"
	}
	return "not completed"
}
