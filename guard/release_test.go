package guard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
)

type traceKey struct{}

// wantDetached checks a context at the start of a release: the caller's values, no
// cancellation, no cause, and a deadline of its own.
func wantDetached(t *testing.T, ctx context.Context, timeout time.Duration) {
	t.Helper()
	bare := ctx.Value(traceKey{}) // before and after Done, which changes what is inside
	if ctx.Err() != nil || context.Cause(ctx) != nil || !isOpen(ctx.Done()) {
		t.Errorf("the release's context has ended: %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	if v := ctx.Value(traceKey{}); v != "t1" || bare != "t1" {
		t.Errorf("the caller's value is %v, then %v; want t1", bare, v)
	}
	if end, ok := ctx.Deadline(); !ok || time.Until(end) != timeout {
		t.Errorf("deadline in %v, want %v", time.Until(end), timeout)
	}
}

func TestG13_CancelledBodyReleasesOnItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), traceKey{}, "t1"))
		d := &desk{change: limits(budget, 0)}
		d.release = func(ctx context.Context, _ guard.Outcome) error {
			wantDetached(t, ctx, budget)
			return nil
		}
		_, err := guard.Use(ctx, d.resource(), func(ctx context.Context, _ *lease) (string, error) {
			time.AfterFunc(time.Second, func() { cancel(errCause) })
			<-ctx.Done()
			return "", ctx.Err()
		})
		if !sameError(err, context.Canceled) {
			t.Errorf("error %v, want the body's own", err)
		}
		if o := d.wantOutcome(t, guard.Cancelled, context.Canceled); !errors.Is(o.Cause, errCause) {
			t.Errorf("cause %v, want the caller's", o.Cause)
		}
	})
}

func TestG13_CauseAloneIsACancellation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &desk{}
	_, err := guard.Use(ctx, d.resource(), func(ctx context.Context, _ *lease) (string, error) {
		cancel(errCause)
		return "", context.Cause(ctx)
	})
	wantIs(t, err, errCause)
	d.wantOutcome(t, guard.Cancelled, errCause)
}

func TestG13_ForeignCancellationIsAFailure(t *testing.T) {
	d := &desk{}
	_, err := guard.Use(t.Context(), d.resource(), with("", context.Canceled))
	wantIs(t, err, context.Canceled)
	d.wantOutcome(t, guard.Failed, context.Canceled)

	ctx, cancel := context.WithCancel(t.Context())
	d = &desk{}
	_, err = guard.Use(ctx, d.resource(), func(context.Context, *lease) (string, error) {
		cancel()
		return "", errBody
	})
	wantIs(t, err, errBody)
	d.wantOutcome(t, guard.Failed, errBody)
}

func TestG13_ValueWinsOverALaterCancellation(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &desk{}
	v, err := guard.Use(ctx, d.resource(), func(context.Context, *lease) (string, error) {
		cancel(errCause)
		return "done", nil
	})
	if v != "done" || err != nil {
		t.Errorf("Use gave %q, %v; want the value", v, err)
	}
	if o := d.wantOutcome(t, guard.Completed, nil); !errors.Is(o.Cause, errCause) {
		t.Errorf("cause %v, want the caller's", o.Cause)
	}
}

func TestG14_ReleaseThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		d := &desk{release: func(context.Context, guard.Outcome) error { <-let; return errRelease }}
		d.change = limits(budget, time.Second)
		var l *lease
		start := time.Now()
		v, err := guard.Use(t.Context(), d.resource(), func(_ context.Context, own *lease) (string, error) {
			l = own
			return "partial", errBody
		})
		if took := time.Since(start); took != budget+time.Second {
			t.Errorf("Use took %v, want budget and grace", took)
		}
		wantParts(t, err, errBody, guard.ErrReleaseTimeout)
		if v != "partial" || !isOpen(l.Done()) {
			t.Errorf("value %q, Done open %v; want the body's value and an open Done", v, isOpen(l.Done()))
		}
		wantIs(t, l.Close(t.Context(), guard.Outcome{}), guard.ErrReleaseTimeout)
		if _, err := l.Value(); !errors.Is(err, guard.ErrReleased) {
			t.Errorf("Value gave %v while the release goes on, want ErrReleased", err)
		}

		time.Sleep(time.Minute)
		close(let)
		<-l.Done()
		es := d.heard(guard.StepRelease)
		if len(es) != 2 || es[0].Late || !errors.Is(es[0].Err, guard.ErrReleaseTimeout) || !es[1].Late || !errors.Is(es[1].Err, errRelease) {
			t.Errorf("heard %+v, want the limit and then the late end", es)
		}
		if took := es[1].Took; took != budget+time.Second+time.Minute {
			t.Errorf("the late event says %v, want the whole time", took)
		}
		wantIs(t, l.Close(t.Context(), guard.Outcome{}), guard.ErrReleaseTimeout) // the same result for ever
		d.wantBook(t, "acquire", "release", "released")
	})
}

// TestG14_EventOfTheLimitComesFirst: even when the release ends while that event is told.
func TestG14_EventOfTheLimitComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		d := &desk{release: func(context.Context, guard.Outcome) error { <-let; return nil }}
		d.change = func(r *guard.Resource[int]) {
			r.Timeout, r.Grace = budget, time.Second
			r.Observe = func(e guard.Event) {
				if e.Err != nil {
					close(let)
					time.Sleep(time.Second)
				}
				d.hear(e)
			}
		}
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		wantIs(t, l.Close(t.Context(), guard.Outcome{}), guard.ErrReleaseTimeout)
		<-l.Done()
		if es := d.heard(guard.StepRelease); len(es) != 2 || es[0].Late || !es[1].Late {
			t.Errorf("heard %+v, want the limit and then the late end", es)
		}
	})
}

func TestG14_AllClosersGoAtTheHardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		d := &desk{release: func(context.Context, guard.Outcome) error { <-let; return nil }}
		d.change = limits(budget, time.Second)
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		start := time.Now()
		var closers sync.WaitGroup
		for i := range 5 {
			closers.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				wantIs(t, l.Close(t.Context(), guard.Outcome{}), guard.ErrReleaseTimeout)
				if took := time.Since(start); took != budget+time.Second {
					t.Errorf("closer %d went after %v, want the one hard limit", i, took)
				}
			})
		}
		closers.Wait()
		close(let)
		<-l.Done()
	})
}

func TestG14_HardLimitNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := map[string]func() error{
			"error":  func() error { return errRelease },
			"panic":  func() error { panic(errRelease) },
			"goexit": func() error { runtime.Goexit(); return nil },
		}
		for name, end := range ends {
			d := &desk{change: limits(budget, time.Second)}
			d.release = func(ctx context.Context, _ guard.Outcome) error { <-ctx.Done(); return end() }
			start := time.Now()
			_, err := guard.Use(t.Context(), d.resource(), with("", nil))
			want := errRelease
			if name == "goexit" {
				want = guard.ErrExited
			}
			wantParts(t, err, nil, want)
			if took := time.Since(start); took != budget {
				t.Errorf("%s: took %v, want the budget", name, took)
			}
		}
	})
}

// TestG14_EndAtTheHardLimit: the end and the limit at the same moment give one result.
func TestG14_EndAtTheHardLimit(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			d := &desk{change: limits(budget, time.Second)}
			d.release = func(context.Context, guard.Outcome) error { time.Sleep(budget + time.Second); return errRelease }
			l, err := guard.Open(t.Context(), d.resource())
			wantNo(t, err)
			err = l.Close(t.Context(), guard.Outcome{})
			<-l.Done()
			again := l.Close(t.Context(), guard.Outcome{})
			late := errors.Is(err, guard.ErrReleaseTimeout)
			if late == errors.Is(err, errRelease) || late != errors.Is(again, guard.ErrReleaseTimeout) {
				t.Errorf("Close gave %v, then %v; want one of the two and then the same", err, again)
			}
			es := d.heard(guard.StepRelease)
			if last := es[len(es)-1]; last.Late != late || !errors.Is(last.Err, errRelease) || late != (len(es) == 2) {
				t.Errorf("Close gave %v, heard %+v", err, es)
			}
		})
	}
}

// TestG14_ReleaseGoesOnUnderAnotherOwner is how a keeper of leases uses the hard limit: past
// its limit the release goes on by the keeper's own context, and the keeper waits for Done.
func TestG14_ReleaseGoesOnUnderAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper, stop := context.WithCancel(t.Context())
		d := &desk{change: limits(budget, 1)}
		d.release = func(ctx context.Context, _ guard.Outcome) error {
			<-ctx.Done()
			<-keeper.Done()
			return keeper.Err()
		}
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		wantIs(t, l.Close(t.Context(), guard.Outcome{Kind: guard.Completed}), guard.ErrReleaseTimeout)
		time.Sleep(time.Hour)
		if !isOpen(l.Done()) {
			t.Error("Done is closed, want a release that goes on")
		}
		stop()
		<-l.Done()
		d.wantOutcome(t, guard.Completed, nil)
	})
}

func TestG15_ReleaseThatHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, grace := range []time.Duration{0, time.Second} {
			d := &desk{change: limits(budget, grace)}
			d.release = func(ctx context.Context, _ guard.Outcome) error { <-ctx.Done(); return ctx.Err() }
			start := time.Now()
			_, err := guard.Use(t.Context(), d.resource(), with("done", nil))
			wantParts(t, err, nil, context.DeadlineExceeded)
			if errors.Is(err, guard.ErrReleaseTimeout) {
				t.Errorf("error %v, want an ordinary release error", err)
			}
			if took := time.Since(start); took != budget {
				t.Errorf("took %v, want the budget", took)
			}
		}
	})
}

func TestG16_SecondCloseGivesTheSameResult(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { return errRelease }}
	l, err := guard.Open(t.Context(), d.resource())
	wantNo(t, err)
	for range 3 {
		wantParts(t, l.Close(t.Context(), guard.Outcome{}), nil, errRelease)
	}
	d.wantBook(t, "acquire", "release", "released")
	d.wantOutcome(t, guard.Abandoned, nil)
	if isOpen(l.Done()) {
		t.Error("Done is open, want it closed")
	}
}

func TestG16_CloseTellsWhyTheCallerEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	for _, known := range []error{nil, errBody} {
		d := &desk{}
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		wantNo(t, l.Close(ctx, guard.Outcome{Kind: guard.Failed, Err: errBody, Cause: known}))
		want := errCause
		if known != nil {
			want = known
		}
		if o := d.wantOutcome(t, guard.Failed, errBody); !sameError(o.Cause, want) {
			t.Errorf("cause %v, want %v", o.Cause, want)
		}
	}
}

func TestG16_UseAfterTheBodyClosed(t *testing.T) {
	for _, own := range []error{nil, errBody} {
		d := &desk{
			commit:  func(context.Context) error { return errCommit },
			release: func(context.Context, guard.Outcome) error { return errRelease },
		}
		_, err := guard.Use(t.Context(), d.resource(), func(ctx context.Context, l *lease) (string, error) {
			wantParts(t, l.Close(ctx, guard.Outcome{Kind: guard.Completed}), errCommit, errRelease)
			return "", own
		})
		want := errCommit
		if own != nil {
			want = own
		}
		wantParts(t, err, want, errRelease)
		d.wantBook(t, "acquire", "commit", "release", "released")
	}
}

func TestG17_ManyClosersOneRelease(t *testing.T) {
	for range 200 {
		var calls atomic.Int32
		ended := false // written by Release, read after Close: the race detector checks the order
		res := guard.Resource[int]{
			Acquire: func(context.Context) (int, error) { return 1, nil },
			Release: func(context.Context, int, guard.Outcome) error {
				calls.Add(1)
				runtime.Gosched()
				ended = true
				return errRelease
			},
		}
		l, err := guard.Open(t.Context(), res)
		wantNo(t, err)
		var closers sync.WaitGroup
		for range 100 {
			closers.Go(func() {
				err := l.Close(t.Context(), guard.Outcome{})
				if !ended || !errors.Is(err, errRelease) {
					t.Errorf("Close gave %v, release ended %v; want the release's error after its end", err, ended)
				}
			})
		}
		closers.Wait()
		if n := calls.Load(); n != 1 {
			t.Fatalf("%d releases, want 1", n)
		}
	}
}

func TestG18_ValueIsRefusedWhileTheReleaseRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{release: func(context.Context, guard.Outcome) error { time.Sleep(time.Second); return nil }}
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		go l.Close(t.Context(), guard.Outcome{})
		synctest.Wait()
		if v, err := l.Value(); v != 0 || !errors.Is(err, guard.ErrReleased) {
			t.Errorf("Value gave %d, %v while the release runs; want ErrReleased", v, err)
		}
		if _, err := l.Transfer(); !errors.Is(err, guard.ErrReleased) {
			t.Errorf("Transfer gave %v while the release runs; want ErrReleased", err)
		}
		if !isOpen(l.Done()) {
			t.Error("Done is closed while the release runs")
		}
		<-l.Done()
	})
}

func TestG19_ValueRacesClose(t *testing.T) {
	for range 100 {
		var begun atomic.Bool
		res := guard.Resource[*int]{
			Acquire: func(context.Context) (*int, error) { return new(int), nil },
			Release: func(context.Context, *int, guard.Outcome) error { begun.Store(true); return nil },
		}
		l, err := guard.Open(t.Context(), res)
		wantNo(t, err)
		var users sync.WaitGroup
		for range 2 {
			users.Go(func() {
				for ; ; runtime.Gosched() {
					after := begun.Load()
					v, err := l.Value()
					if after && err == nil {
						t.Error("a value was handed out after the release began")
						return
					}
					if err != nil {
						if v != nil || !errors.Is(err, guard.ErrReleased) {
							t.Errorf("Value gave %v, %v; want ErrReleased", v, err)
						}
						return
					}
				}
			})
		}
		users.Go(func() { l.Close(t.Context(), guard.Outcome{}) })
		users.Wait()
	}
}

func TestObserverHearsForHowLongItWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		_, err := guard.Use(t.Context(), d.resource(), func(context.Context, *lease) (string, error) {
			time.Sleep(time.Minute)
			return "", nil
		})
		wantNo(t, err)
		if es := d.heard(guard.StepRelease); len(es) != 1 || es[0].Held != time.Minute {
			t.Errorf("heard %+v, want one release after a minute", es)
		}
	})
}

func TestObserverHearsHowLongAnAcquireTook(t *testing.T) {
	for _, failure := range []error{nil, errBody} {
		synctest.Test(t, func(t *testing.T) {
			d := &desk{acquire: func(context.Context) error {
				time.Sleep(time.Minute)
				return failure
			}}
			_, err := guard.Use(t.Context(), d.resource(), with("", nil))
			wantIs(t, err, failure)
			if es := d.heard(guard.StepAcquire); len(es) != 1 || es[0].Took != time.Minute || es[0].Err != failure {
				t.Errorf("heard %+v, want one acquire of a minute with the error %v", es, failure)
			}
		})
	}
}

// A use is one allocation, and stays it where the release only asks whether its context has
// ended; one that waits on it pays for the timer and the channel.
func TestWhatAUseAllocates(t *testing.T) {
	for _, c := range []struct {
		name    string
		release func(ctx context.Context)
		most    float64
	}{
		{"a release that ignores its context", func(context.Context) {}, 1},
		{"a release that asks it", func(ctx context.Context) { _ = ctx.Err() }, 1},
		{"a release that waits on it", func(ctx context.Context) { ctx.Done() }, 8},
	} {
		res := guard.Resource[int]{
			Acquire: func(context.Context) (int, error) { return 1, nil },
			Release: func(ctx context.Context, _ int, _ guard.Outcome) error { c.release(ctx); return nil },
		}
		body := func(_ context.Context, l *lease) (int, error) { return l.Value() }
		got := testing.AllocsPerRun(200, func() { _, _ = guard.Use(t.Context(), res, body) })
		if got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}
