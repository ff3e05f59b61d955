package inflight_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

func TestF1_CompletesInsideItsRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c, s := b.config(), &source{Script: inflighttest.Inline, Value: 7}
		registered := false
		c.OnComplete = func(int, []byte, error) {
			if !registered {
				t.Error("OnComplete was called inside the registration")
			}
			b.set.Stats() // takes the set's lock: none may be held
			b.note("complete")
		}
		o, err := inflight.Start(b.set, c, b.pool.Get(), func(c inflight.Completer[int]) (func(error), error) {
			defer func() { registered = true }()
			s.Register(c)
			return func(error) { t.Error("the cancel function of a completed operation was called") }, nil
		})
		wantNo(t, err)
		if isOpen(o.Done()) {
			t.Error("not settled when Start returned")
		}
		if o.Cancel(errCause) {
			t.Error("a completed operation was cancelled")
		}
		wantTake(t, o, 7, nil)
		b.wantBook(t, "complete")
		wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1})
	})
}

func TestF2_CompletesElsewhereBeforeItsRegistrationReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Script: inflighttest.BeforeReturn, Value: 7}
		o, err := inflight.Start(b.set, b.config(), b.pool.Get(), func(c inflight.Completer[int]) (func(error), error) {
			s.Register(c)
			b.wantBook(t) // OnComplete waits for the registration
			return func(error) { t.Error("the cancel function of a completed operation was called") }, nil
		})
		wantNo(t, err)
		b.wantBook(t, "complete")
		if isOpen(o.Done()) || o.Cancel(errCause) {
			t.Error("not settled when Start returned")
		}
		wantTake(t, o, 7, nil)
	})
}

func TestF3_RegistrationFails(t *testing.T) {
	b := newBench(t)
	buf, s := b.pool.Get(), &source{Script: inflighttest.FailedRegistration, Err: errDisk}
	o, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantIs(t, err, errDisk)
	wantText(t, err, "start read #1")
	if o != (op{}) {
		t.Error("there is an operation beside the error")
	}
	buf.Bytes()[0] = 1 // usable
	wantNo(t, buf.Release())
	b.wantBook(t)
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1})
}

func TestF4_RegistrationFailsAfterTheCompletion(t *testing.T) {
	b := newBench(t)
	o, _ := b.start(t, &source{Script: inflighttest.FailedAndCompleted, Value: 7})
	wantTake(t, o, 7, nil)
	b.wantBook(t, "complete")
	wantIs(t, b.wantEvent(t, inflight.Refused).Err, inflighttest.ErrRegistration)
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Refused: 1})
}

func TestF4_CompletionAfterTheRegistrationFailed(t *testing.T) {
	b := newBench(t)
	buf, s := b.pool.Get(), &source{Script: inflighttest.FailedRegistration}
	_, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantIs(t, err, inflighttest.ErrRegistration)
	if s.Complete() {
		t.Error("a completion counted after the registration had failed")
	}
	wantText(t, b.wantEvent(t, inflight.Refused).Err, "registration failed, and then")
	wantNo(t, buf.Release())
	b.wantBook(t)
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Refused: 1})
}

// TestF4_BothAtOnce: whoever wins, one result and one buffer.
func TestF4_BothAtOnce(t *testing.T) {
	for range 300 {
		b := newBench(t)
		buf := b.pool.Get()
		var both sync.WaitGroup
		won := false
		o, err := inflight.Start(b.set, b.config(), buf, func(c inflight.Completer[int]) (func(error), error) {
			both.Go(func() { won = c.Complete(7, nil) })
			return nil, errDisk
		})
		both.Wait()
		if won == (err != nil) {
			t.Fatalf("the completion counted %v, and Start gave %v", won, err)
		}
		if won {
			wantTake(t, o, 7, nil)
		} else {
			wantNo(t, buf.Release())
		}
		b.wantEvent(t, inflight.Refused)
	}
}

func TestF5_RegistrationPanicsAfterPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		buf, s := b.pool.Get(), &source{Script: inflighttest.Panicking, Err: errDisk, Value: 7}
		wantPanic(t, errDisk, func() { inflight.Start(b.set, b.config(), buf, s.Register) })
		wantPanic(t, inflight.ErrInFlight, func() { buf.Bytes() })
		wantIs(t, b.set.Drain(ended(), errCause), inflight.ErrOpen, errCause)

		s.Err = nil
		if !s.Complete() {
			t.Error("the completion did not count")
		}
		wantNo(t, b.set.Drain(t.Context(), errCause))
		b.wantBook(t, "complete", "dispose")
		buf.Bytes()[0] = 1 // Start did not return, so it is the caller's
		wantNo(t, buf.Release())
		if len(b.events) != 0 {
			t.Errorf("heard %v, want nothing", b.events)
		}
	})
}

func TestF5_RegistrationExits(t *testing.T) {
	b := newBench(t)
	var kept inflight.Completer[int]
	returned, p := apart(func() {
		inflight.Start(b.set, b.config(), nil, func(c inflight.Completer[int]) (func(error), error) {
			kept = c
			runtime.Goexit()
			return nil, nil
		})
	})
	if returned || p != nil {
		t.Errorf("returned %v, panic %v; want a Goexit that goes on", returned, p)
	}
	if open := b.set.Open(); len(open) != 1 || open[0].State != "not completed, nobody waits for it" {
		t.Errorf("open: %+v", open)
	}
	kept.Complete(7, nil)
	b.wantBook(t, "complete", "dispose")
}

func TestF6_CancelDuringTheRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		gate := make(chan struct{})
		s := &source{Script: inflighttest.IgnoringCancel, Gate: gate}
		drained := make(chan error, 1)
		go func() { // Drain is who can cancel before there is a handle
			synctest.Wait()
			drained <- b.set.Drain(ended(), errDisk)
			wantSource(t, s, "register")
			close(gate)
		}()
		o, _ := b.start(t, s)
		wantIs(t, <-drained, inflight.ErrOpen)
		wantSource(t, s, "register", "registered", "cancel: disk failed")
		if o.Cancel(errCause) {
			t.Error("a second cancel was a request")
		}
		s.Complete()
		wantNo(t, b.set.Drain(t.Context(), errCause))
		wantSource(t, s, "register", "registered", "cancel: disk failed", "complete true")
	})
}

func TestF6_CancelDuringTheRegistrationThatCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		o, err := inflight.Start(b.set, b.config(), b.pool.Get(), func(c inflight.Completer[int]) (func(error), error) {
			go b.set.Drain(ended(), errCause)
			synctest.Wait()
			c.Complete(7, nil)
			return func(error) { t.Error("cancelled after the completion") }, nil
		})
		wantNo(t, err)
		if _, _, err := o.Take(t.Context()); !errors.Is(err, inflight.ErrTaken) {
			t.Errorf("error %v, want the result disposed of by the drain", err)
		}
		b.wantBook(t, "complete", "dispose")
	})
}

// TestF12_OldCompleterAfterTheMemoryIsUsedAgain: the buffer is recycled, the operation never.
func TestF12_OldCompleterAfterTheMemoryIsUsedAgain(t *testing.T) {
	b := newBench(t)
	pool := &inflight.Pool{Size: 8}
	var old inflight.Completer[int]
	buf := pool.Get()
	first := &buf.Bytes()[0]
	o, err := inflight.Start(b.set, b.config(), buf, func(c inflight.Completer[int]) (func(error), error) {
		old = c
		return nil, nil
	})
	wantNo(t, err)
	old.Complete(1, nil)
	wantTake(t, o, 1, nil)

	again, s := pool.Get(), &source{Value: 2}
	if &again.Bytes()[0] != first {
		t.Fatal("the pool did not use the memory again")
	}
	next, err := inflight.Start(b.set, b.config(), again, s.Register)
	wantNo(t, err)
	if old.Complete(3, errDisk) || old.Bytes() != nil {
		t.Error("the old completer still counts")
	}
	if !isOpen(next.Done()) {
		t.Error("the old completer ended the new operation")
	}
	wantIs(t, buf.Release(), inflight.ErrReleased)
	wantPanic(t, inflight.ErrReleased, func() { buf.Bytes() })
	s.Complete()
	wantTake(t, next, 2, nil)
	wantStats(t, b.set, inflight.Stats{Started: 2, Settled: 2, Refused: 1})
}

func TestStartRefusesNonsense(t *testing.T) {
	b := newBench(t)
	_, err := inflight.Start[int](b.set, inflight.Config[int]{}, nil, nil)
	wantText(t, err, "start operation: the register function is nil")
	var none inflight.Completer[int]
	if none.Complete(1, nil) || none.Bytes() != nil {
		t.Error("a completer of nothing completed something")
	}
	wantStats(t, b.set, inflight.Stats{})
}
