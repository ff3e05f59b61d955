package inflight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

func TestF7_CancelIsARequest(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.IgnoringCancel, Value: 7}
	o, _ := b.start(t, s)
	if !o.Cancel(errCause) {
		t.Error("Cancel was no request")
	}
	if o.Cancel(errDisk) {
		t.Error("a second cancel was a request")
	}
	s.Complete()
	wantSource(t, s, "register", "registered", "cancel: the caller went away", "complete true")
	wantTake(t, o, 7, nil)
}

func TestF7_CancelWithoutACause(t *testing.T) {
	b := newBench(t)
	o, _ := b.start(t, &source{Script: inflighttest.AfterCancel})
	o.Cancel(nil)
	wantTake(t, o, 0, context.Canceled)
}

func TestF8_CompletionNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, pool := &inflight.Set{Name: "disk", Trace: true}, &inflight.Pool{Size: 8}
		buf, s := pool.Get(), &source{Script: inflighttest.Never}
		o, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, buf, s.Register)
		wantNo(t, err)
		o.Cancel(errCause)

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errDisk)
		defer cancel()
		wantIs(t, o.Wait(ctx), inflight.ErrPending, errDisk)
		_, nobuf, err := o.Take(ctx)
		wantIs(t, err, inflight.ErrPending, errDisk)
		wantText(t, err, "read #1")
		if nobuf != nil {
			t.Error("the buffer came back from a Take that gave up")
		}
		wantPanic(t, inflight.ErrInFlight, func() { buf.Bytes() })

		err = set.Drain(ended(), nil)
		wantIs(t, err, inflight.ErrOpen, errCause)
		wantText(t, err, "disk is not drained (the caller went away): read #1 (1s, not completed, asked to cancel)",
			"read #1 was started at\ngithub.com/berth-dev/berth/inflight_test.TestF8")
		e, ok := errors.AsType[*inflight.OpenError](err)
		if !ok || len(e.Open) != 1 || e.Open[0].Age != time.Second {
			t.Errorf("error %#v, want an *OpenError with the one operation", err)
		}
		wantSource(t, s, "register", "registered", "cancel: the caller went away")
	})
}

func TestF9_CompletionAfterTheWaitGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Value: 7}
		o, _ := b.start(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, o.Wait(ctx), inflight.ErrPending, context.DeadlineExceeded)
		o.Abandon()
		time.Sleep(time.Second)
		if b.pool.Out() != 1 {
			t.Error("the buffer came back before the completion")
		}
		b.wantBook(t)
		if !s.Complete() {
			t.Error("the late completion did not count")
		}
		b.wantBook(t, "complete", "dispose")
		if b.pool.Out() != 0 {
			t.Error("the buffer did not come back")
		}
		if e := b.wantEvent(t, inflight.Late); e.Set != "disk" || e.Operation != "read #1" || e.Age != 2*time.Second || e.Stack == "" {
			t.Errorf("heard %+v", e)
		}
		wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Late: 1})
	})
}

func TestF9_WonValueIsNotLostToTheContext(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.Inline, Value: 7}
	o, _ := b.start(t, s)
	wantNo(t, o.Wait(ended()))
	v, buf, err := o.Take(ended())
	if v != 7 || err != nil {
		t.Errorf("took %d, %v; want what was there", v, err)
	}
	wantNo(t, buf.Release())
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1})
}

func TestF10_SecondCompletion(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.Twice, Value: 7}
	o, _ := b.start(t, s)
	wantSource(t, s, "register", "complete true", "complete false", "registered")
	s.Value, s.Err = 8, errDisk
	if s.Complete() {
		t.Error("a third completion counted")
	}
	wantTake(t, o, 7, nil)
	b.wantBook(t, "complete")
	wantText(t, b.events[0].Err, "completed twice")
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Refused: 2})
}

func TestF11_CompletionAfterTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Script: inflighttest.AfterClose}
		b.start(t, s)
		wantNo(t, b.set.Drain(t.Context(), errCause))
		b.events = nil
		if s.Complete() {
			t.Error("a completion counted after the drain")
		}
		b.wantEvent(t, inflight.Refused)
		b.wantBook(t, "complete")
		wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Refused: 1, Untaken: 1})
	})
}

func TestF29_SecondTakeAndWaitAfterTake(t *testing.T) {
	b := newBench(t)
	ends := map[string]func(op){
		"taken":     func(o op) { wantTake(t, o, 7, nil) },
		"abandoned": func(o op) { o.Abandon() },
	}
	for name, end := range ends {
		o, _ := b.start(t, &source{Script: inflighttest.Inline, Value: 7})
		end(o)
		_, err := o.Transfer()
		for range 3 {
			v, buf, take := o.Take(t.Context())
			if v != 0 || buf != nil {
				t.Errorf("%s: took %d again", name, v)
			}
			for _, again := range []error{take, o.Wait(t.Context())} {
				if wantIs(t, again, inflight.ErrTaken); again.Error() != err.Error() {
					t.Errorf("%s: error %q, and then %q", name, err, again)
				}
			}
		}
		o.Abandon() // does nothing
		if o.Cancel(errCause) || isOpen(o.Done()) {
			t.Errorf("%s: cancelled, or not done", name)
		}
	}
	if n := b.set.Stats().Open; n != 0 {
		t.Errorf("%d operations are open", n)
	}
}

func TestF29_AbandonedInFlight(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.IgnoringCancel, Value: 7}
	o, _ := b.start(t, s)
	o.Abandon()
	if o.Cancel(errCause) {
		t.Error("an abandoned handle cancelled")
	}
	wantIs(t, o.Wait(ended()), inflight.ErrTaken)
	_, _, err := o.Take(ended())
	wantIs(t, err, inflight.ErrTaken)
	s.Complete()
	b.wantBook(t, "complete", "dispose")
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1})
}

func TestF29_OneOfManyTakes(t *testing.T) {
	for range 100 {
		b := newBench(t)
		s := &source{Value: 7}
		o, _ := b.start(t, s)
		var all sync.WaitGroup
		var mu sync.Mutex
		took := 0
		for range 4 {
			all.Go(func() {
				v, buf, err := o.Take(t.Context())
				if err != nil {
					wantIs(t, err, inflight.ErrTaken)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				took += v
				wantNo(t, buf.Release())
			})
		}
		s.Complete()
		all.Wait()
		if took != 7 {
			t.Fatalf("took %d, want 7 once", took)
		}
	}
}

func TestF30_TransferLeavesTheOldHandleInert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Script: inflighttest.IgnoringCancel, Value: 7}
		old, buf := b.start(t, s)
		waiting := make(chan error, 1)
		go func() { waiting <- old.Wait(t.Context()) }()
		synctest.Wait()

		next, err := old.Transfer()
		wantNo(t, err)
		for _, inert := range []op{old, {}} {
			inert.Abandon()
			if inert.Cancel(errCause) {
				t.Error("an inert handle cancelled")
			}
			wantIs(t, inert.Wait(t.Context()), inflight.ErrMoved)
			_, none, err := inert.Take(t.Context())
			wantIs(t, err, inflight.ErrMoved)
			if none != nil {
				t.Error("an inert handle has the buffer")
			}
			_, err = inert.Transfer()
			wantIs(t, err, inflight.ErrMoved)
		}
		wantPanic(t, inflight.ErrInFlight, func() { buf.Bytes() })
		wantSource(t, s, "register", "registered")
		if (op{}).Done() != nil || old.Done() != next.Done() {
			t.Error("Done differs between the handles")
		}
		s.Complete()
		wantIs(t, <-waiting, inflight.ErrMoved)
		wantTake(t, next, 7, nil)
		b.wantBook(t, "complete")
	})
}

func TestF30_OfManyTransfersOneCounts(t *testing.T) {
	for range 100 {
		b := newBench(t)
		o, _ := b.start(t, &source{Script: inflighttest.Inline, Value: 7})
		var all sync.WaitGroup
		next := make(chan op, 4)
		for range cap(next) {
			all.Go(func() {
				if n, err := o.Transfer(); err == nil {
					next <- n
				}
			})
		}
		all.Wait()
		if len(next) != 1 {
			t.Fatalf("moved to %d handles", len(next))
		}
		wantTake(t, <-next, 7, nil)
	}
}

// TestF31_CallersScopeEndsFirst: the caller abandons what it started and returns; what it had
// is not touched, and nothing leaks.
func TestF31_CallersScopeEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Script: inflighttest.IgnoringCancel, Value: 7}
		caller := func(ctx context.Context) (v int, err error) {
			o, _ := b.start(t, s)
			defer o.Abandon()
			v, _, err = o.Take(ctx)
			if errors.Is(err, inflight.ErrPending) {
				o.Cancel(err)
			}
			return v, err
		}
		v, err := caller(ended())
		if v != 0 || !errors.Is(err, inflight.ErrPending) {
			t.Errorf("the caller got %d, %v", v, err)
		}
		b.wantBook(t)
		if b.pool.Out() != 1 {
			t.Error("the buffer came back before the completion")
		}
		time.Sleep(time.Hour)
		s.Complete()
		b.wantBook(t, "complete", "dispose")
		if b.pool.Out() != 0 || b.set.Stats().Open != 0 {
			t.Errorf("%d buffers out, stats %+v", b.pool.Out(), b.set.Stats())
		}
		b.wantEvent(t, inflight.Late)
	})
}

// TestF32_FunctionsOfAnOperationNeverNest: each completes the operation from inside another.
func TestF32_FunctionsOfAnOperationNeverNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var complete inflight.Completer[int]
		var o op
		enter := func(name string) func() {
			b.note(name)
			return func() { b.note("end of " + name) }
		}
		c := inflight.Config[int]{
			OnComplete: func(int, []byte, error) {
				defer enter("complete")()
				complete.Complete(9, nil)
				o.Cancel(errDisk)
				o.Abandon()
			},
			Dispose: func(int) { defer enter("dispose")(); o.Abandon(); complete.Complete(9, nil) },
		}
		o, err := inflight.Start(b.set, c, b.pool.Get(), func(c inflight.Completer[int]) (func(error), error) {
			defer enter("register")()
			complete = c
			return func(error) {
				defer enter("cancel")()
				o.Cancel(errDisk)
				go c.Complete(7, nil) // on another goroutine, while this runs
				synctest.Wait()
			}, nil
		})
		wantNo(t, err)
		o.Cancel(errCause)
		b.wantBook(t, "register", "end of register", "cancel", "end of cancel",
			"complete", "end of complete", "dispose", "end of dispose")
	})
}

// TestFunctionThatPanicsLeavesTheBooksRight: the panic goes on, and the operation settles.
func TestFunctionThatPanicsLeavesTheBooksRight(t *testing.T) {
	overboard := func() { panic(errDisk) }
	uses := map[string]func(b *bench, c *inflight.Config[int]){
		"cancel":  func(*bench, *inflight.Config[int]) {},
		"observe": func(b *bench, _ *inflight.Config[int]) { b.set.Observe = func(inflight.Event) { overboard() } },
		"onComplete": func(_ *bench, c *inflight.Config[int]) {
			c.OnComplete = func(int, []byte, error) { overboard() }
		},
		"dispose": func(_ *bench, c *inflight.Config[int]) { c.Dispose = func(int) { overboard() } },
	}
	for name, change := range uses {
		b := newBench(t)
		c, buf := b.config(), b.pool.Get()
		change(b, &c)
		var o op
		o, err := inflight.Start(b.set, c, buf, func(c inflight.Completer[int]) (func(error), error) {
			return func(error) {
				o.Abandon()
				c.Complete(7, nil)
				if name == "cancel" {
					overboard()
				}
			}, nil
		})
		wantNo(t, err)
		wantIs(t, o.Wait(ended()), inflight.ErrPending)
		wantPanic(t, errDisk, func() { o.Cancel(errCause) })
		wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Late: 1})
		if b.pool.Out() != 0 {
			t.Errorf("%s: the buffer did not come back", name)
		}
	}
}
