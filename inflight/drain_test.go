package inflight_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

func TestF17_DrainWaitsForTheCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c, s := b.config(), &source{}
		c.OnComplete = func(int, []byte, error) {
			time.Sleep(time.Second)
			b.note("end of complete")
		}
		o, err := inflight.Start(b.set, c, nil, s.Register)
		wantNo(t, err)
		go s.Complete()
		synctest.Wait() // OnComplete runs
		wantText(t, b.set.Drain(ended(), nil), "its OnComplete runs")
		if !isOpen(o.Done()) {
			t.Error("settled while OnComplete runs")
		}
		start := time.Now()
		wantNo(t, b.set.Drain(t.Context(), nil))
		b.wantBook(t, "end of complete", "dispose")
		if took := time.Since(start); took != time.Second {
			t.Errorf("Drain took %v, want the callback's second", took)
		}
	})
}

func TestF17_DrainWaitsForCancelAndDispose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := b.config()
		c.Dispose = func(int) {
			time.Sleep(time.Second)
			b.note("end of dispose")
		}
		slow := func(c inflight.Completer[int]) (func(error), error) {
			return func(error) {
				c.Complete(7, nil)
				time.Sleep(time.Second)
				b.note("end of cancel")
			}, nil
		}
		for range 3 { // each on its own goroutine: they take the time of one
			_, err := inflight.Start(b.set, c, b.pool.Get(), slow)
			wantNo(t, err)
		}
		start := time.Now()
		wantText(t, b.set.Drain(ended(), nil), "its cancel function runs", "read #1", "read #2", "read #3")
		time.Sleep(1500 * time.Millisecond)
		wantText(t, b.set.Drain(ended(), nil), "its Dispose runs")
		wantNo(t, b.set.Drain(t.Context(), nil))
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want two seconds", took)
		}
		if book := strings.Join(b.book, ","); strings.Count(book, "end of dispose") != 3 || strings.Count(book, "end of cancel") != 3 {
			t.Errorf("what happened: %s", book)
		}
		wantNo(t, b.set.Drain(ended(), nil)) // nothing is left to wait for
	})
}

// TestF18_DrainInsideACallback: from each function of an operation, of that set or another.
func TestF18_DrainInsideACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		other := &inflight.Set{}
		inside := func(where string) {
			for _, s := range []*inflight.Set{b.set, other} {
				if err := deep(50, func() error { return s.Drain(context.Background(), nil) }); !errors.Is(err, inflight.ErrInside) {
					t.Errorf("Drain in %s gave %v", where, err)
				}
			}
			b.note(where)
		}
		c := inflight.Config[int]{
			OnComplete: func(int, []byte, error) { inside("complete") },
			Dispose:    func(int) { inside("dispose") },
		}
		buf := inflight.Own(nil, func([]byte, string) { inside("back") })
		o, err := inflight.Start(b.set, c, buf, func(c inflight.Completer[int]) (func(error), error) {
			inside("register")
			return func(error) {
				inside("cancel")
				c.Complete(7, nil)
			}, nil
		})
		wantNo(t, err)
		o.Cancel(errCause)
		o.Abandon()
		b.wantBook(t, "register", "cancel", "complete", "dispose", "back")

		s := &source{Script: inflighttest.Inline} // a refused Drain has closed nothing
		o, err = inflight.Start(b.set, inflight.Config[int]{}, b.pool.Get(), s.Register)
		wantNo(t, err)
		wantTake(t, o, 0, nil)
	})
}

// deep calls f with a tall stack.
func deep(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	return deep(n-1, f)
}

// TestF18_WaitWhileACallbackRunsElsewhere waits for it, as it must.
func TestF18_WaitWhileACallbackRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, let := newBench(t), make(chan struct{})
		c, s := b.config(), &source{}
		c.OnComplete = func(int, []byte, error) { <-let }
		o, err := inflight.Start(b.set, c, b.pool.Get(), s.Register)
		wantNo(t, err)
		go s.Complete()
		synctest.Wait() // in OnComplete now
		waited := make(chan error, 1)
		go func() { waited <- o.Wait(context.Background()) }()
		synctest.Wait()
		close(let)
		wantNo(t, <-waited)
		wantTake(t, o, 0, nil)
	})
}

func TestF18_WaitInsideItsOwnCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var o op
		c, s := b.config(), &source{}
		c.OnComplete = func(int, []byte, error) {
			wantIs(t, o.Wait(context.Background()), inflight.ErrInside)
			_, _, err := o.Take(context.Background())
			wantIs(t, err, inflight.ErrInside)
		}
		o, err := inflight.Start(b.set, c, b.pool.Get(), s.Register)
		wantNo(t, err)
		s.Complete()
		wantTake(t, o, 0, nil)
	})
}

// TestF17_DrainOfNothing is never a failure, also where ctx has ended.
func TestF17_DrainOfNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // either case of a select may come first
		wantNo(t, new(inflight.Set).Drain(ctx, nil))
	}
}

func TestF19_StartAfterDrain(t *testing.T) {
	b := newBench(t)
	wantNo(t, b.set.Drain(t.Context(), nil))
	buf, s := b.pool.Get(), &source{}
	_, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantIs(t, err, inflight.ErrClosed)
	wantText(t, err, "start read")
	wantSource(t, s)
	wantNo(t, buf.Release())
	wantStats(t, b.set, inflight.Stats{})
}

func TestF19_StartRacesDrain(t *testing.T) {
	for range 300 {
		b := newBench(t)
		var all sync.WaitGroup
		var started, registered atomic.Int64
		for range 4 {
			all.Go(func() {
				buf, s := b.pool.Get(), &source{Script: inflighttest.AfterCancel}
				_, err := inflight.Start(b.set, b.config(), buf, func(c inflight.Completer[int]) (func(error), error) {
					registered.Add(1)
					return s.Register(c)
				})
				if err != nil {
					wantIs(t, errors.Join(err, buf.Release()), inflight.ErrClosed)
					return
				}
				started.Add(1)
			})
		}
		all.Go(func() { wantNo(t, b.set.Drain(t.Context(), errCause)) })
		all.Wait()
		stats := b.set.Stats()
		if n := uint64(started.Load()); registered.Load() != started.Load() || stats.Started != n || stats.Settled != n || stats.Open != 0 {
			t.Fatalf("started %d, registered %d, stats %+v", n, registered.Load(), stats)
		}
	}
}

func TestF20_DestroyBeforeDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		destroy := func() error { b.note("destroy"); return errDisk }
		err := b.set.Destroy(destroy)
		wantIs(t, err, inflight.ErrOpen)
		wantText(t, err, "disk is not drained: call Drain first")

		s := &source{Script: inflighttest.IgnoringCancel}
		o, _ := b.start(t, s)
		o.Abandon()
		wantIs(t, b.set.Drain(ended(), nil), inflight.ErrOpen)
		synctest.Wait() // the cancel function has returned
		err = b.set.Destroy(destroy)
		wantIs(t, err, inflight.ErrOpen)
		wantText(t, err, "disk is not drained: read #1 (", "not completed, nobody waits for it", "was started at")
		b.wantBook(t)

		s.Complete()
		wantNo(t, b.set.Drain(t.Context(), nil))
		for range 3 {
			wantIs(t, b.set.Destroy(destroy), errDisk)
		}
		b.wantBook(t, "complete", "dispose", "destroy")
		wantText(t, b.set.Destroy(nil), "destroy disk: the function is nil")
	})
}

func TestF20_ManyDestroyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &inflight.Set{}
		wantNo(t, set.Drain(t.Context(), nil))
		destroyed := 0
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				wantIs(t, set.Destroy(func() error { time.Sleep(time.Second); destroyed++; return errDisk }), errDisk)
				if destroyed != 1 {
					t.Errorf("Destroy returned with %d destroyed", destroyed)
				}
			})
		}
		all.Wait()
	})
}

func TestF20_DestroyThatPanics(t *testing.T) {
	set := &inflight.Set{}
	wantNo(t, set.Drain(t.Context(), nil))
	wantPanic(t, errDisk, func() { set.Destroy(func() error { panic(errDisk) }) })
	err := set.Destroy(func() error { t.Error("destroyed twice"); return nil })
	wantText(t, err, "destroy set: the function panicked")
}

func TestF28_ValueNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := &source{Script: inflighttest.Inline, Value: 7}
		o, _ := b.start(t, s)
		time.Sleep(time.Minute)
		if b.pool.Out() != 1 {
			t.Error("disposed of before the drain")
		}
		if open := b.set.Open(); len(open) != 1 || open[0].State != "settled, its result not taken" {
			t.Errorf("open: %+v", open)
		}
		for range 2 {
			wantNo(t, b.set.Drain(t.Context(), errCause))
		}
		b.wantBook(t, "complete", "dispose")
		if b.pool.Out() != 0 {
			t.Error("the buffer did not come back")
		}
		e := b.wantEvent(t, inflight.Untaken)
		if e.Err != nil || e.Age != time.Minute || !strings.HasPrefix(e.Stack, "github.com/berth-dev/berth/inflight_test.(*bench).start\n") {
			t.Errorf("heard %+v", e)
		}
		_, _, err := o.Take(t.Context())
		wantIs(t, err, inflight.ErrTaken)
		wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1, Untaken: 1})
	})
}

func TestF28_ErrorNobodyTakes(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.Inline, Value: 7, Err: errDisk}
	_, buf := b.start(t, s)
	wantNo(t, buf.Release()) // its owner has, so the drain must not
	wantNo(t, b.set.Drain(t.Context(), nil))
	b.wantBook(t, "complete") // a value beside an error is nobody's
	wantIs(t, b.wantEvent(t, inflight.Untaken).Err, errDisk)
}

// TestF28_WaiterGetsItsResultFirst: the drain leaves a result to who waits in Take.
func TestF28_WaiterGetsItsResultFirst(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			s := &source{Script: inflighttest.AfterCancel}
			o, _ := b.start(t, s)
			var taker sync.WaitGroup
			taker.Go(func() { wantTake(t, o, 0, errCause) })
			synctest.Wait()
			wantNo(t, b.set.Drain(t.Context(), errCause))
			taker.Wait()
			if len(b.events) != 0 {
				t.Errorf("heard %v", b.events)
			}
		})
	}
}

// TestF28_WaiterThatGivesUpLeavesNothing: the last waiter's end is the drain's beginning.
func TestF28_WaiterThatGivesUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		o, _ := b.start(t, &source{Script: inflighttest.AfterCancel})
		waited := make(chan error, 1)
		go func() { waited <- o.Wait(t.Context()) }()
		synctest.Wait()
		wantNo(t, b.set.Drain(t.Context(), errCause))
		wantNo(t, <-waited)
		wantIs(t, b.wantEvent(t, inflight.Untaken).Err, errCause)
	})
}

func TestDrainCauseOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, second := &source{Script: inflighttest.IgnoringCancel}, &source{Script: inflighttest.IgnoringCancel}
		b.start(t, first)
		_, err := inflight.Start(b.set, inflight.Config[int]{}, nil, second.Register)
		wantNo(t, err)
		for _, cause := range []error{nil, errCause, errDisk} {
			err := b.set.Drain(ended(), cause)
			wantText(t, err, "read #1", ", operation #2")
		}
		synctest.Wait()
		for _, s := range []*source{first, second} {
			s.Complete()
			wantSource(t, s, "register", "registered", "cancel: no new work is taken", "complete true")
		}
		wantNo(t, b.set.Drain(t.Context(), nil))
	})
}
