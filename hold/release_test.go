package hold_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
)

func logTo(w *strings.Builder) func(*hold.Config) {
	return func(c *hold.Config) { c.Logger = slog.New(slog.NewTextHandler(w, nil)) }
}

// onRelease is a link on which only releases go wrong.
func onRelease(f func(n int) fault) func(string, int) fault {
	return func(op string, n int) fault {
		if op == "release" {
			return f(n)
		}
		return fault{}
	}
}

// However the work ends, the slot is free again.
func TestBR054ReleasedOnEveryPath(t *testing.T) {
	errWork := errors.New("the work failed")
	for name, c := range map[string]struct {
		work  func(cancel func(), l *hold.Lease) error
		panic any
		err   error
	}{
		"return":    {work: func(func(), *hold.Lease) error { return nil }},
		"error":     {work: func(func(), *hold.Lease) error { return errWork }, err: errWork},
		"panic":     {work: func(func(), *hold.Lease) error { panic("work") }, panic: "work"},
		"goexit":    {work: func(func(), *hold.Lease) error { runtime.Goexit(); return nil }},
		"cancelled": {work: func(cancel func(), l *hold.Lease) error { cancel(); return l.Context().Err() }, err: context.Canceled},
		"released":  {work: func(_ func(), l *hold.Lease) error { return l.Release(context.Background()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, 30*sec)
				k, _ := keeper(t, b)
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "trace"))
				defer cancel()
				returned := false
				var err error
				var recovered any
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recovered = recover() }()
					err = k.With(ctx, one(), func(_ context.Context, l *hold.Lease) error { return c.work(cancel, l) })
					returned = true
				}()
				<-done
				if !errors.Is(err, c.err) || recovered != c.panic || returned != (name != "panic" && name != "goexit") {
					t.Errorf("returned %v with %v, panic %v", returned, err, recovered)
				}
				if e := b.last(); e.end != lease.CodeLeaseReleased || b.count("release") != 1 || name != "released" && e.values != "trace" {
					t.Errorf("ended as %q after %d releases with the value %v", e.end, b.count("release"), e.values)
				}
			})
		})
	}
}

// BR-050: the caller goes away in the middle of the work. The release has a
// time of its own, and the next caller is served.
func TestBR050ReleaseOnItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRelease(func(int) fault { return fault{before: 300 * ms} })
		k, _ := keeper(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		err := k.With(ctx, one(), func(ctx context.Context, _ *hold.Lease) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := k.With(t.Context(), one(), func(context.Context, *hold.Lease) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// BR-052: a release that fails is sent again, while renewals cross it.
func TestBR052ReleaseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		b.link = onRelease(func(n int) fault {
			return []fault{{err: errReset}, {lost: true}, {err: lease.CodeUnavailable.Err()}, {unheard: true}, {}}[min(n, 4)]
		})
		k, events := keeper(t, b)
		if err := k.With(t.Context(), one(), func(context.Context, *hold.Lease) error { return nil }); err != nil {
			t.Error(err)
		}
		if b.count("release") != 5 || b.count("renew") == 0 || len(events.of(hold.Released)) != 1 || len(events.of(hold.Lost)) != 0 {
			t.Errorf("%d releases, %d renewals, %+v", b.count("release"), b.count("renew"), events.events)
		}
	})
}

// The pause before the repeat is short, however long the lease was held.
func TestReleaseIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRelease(func(n int) fault { return []fault{{err: errReset}, {}}[n] })
		k, _ := keeper(t, b)
		l := acquire(t, k)
		time.Sleep(time.Hour)
		start := time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 25*ms || took > 50*ms {
			t.Errorf("it took %v", took)
		}
	})
}

// A lease that ended under the work is lost, whatever the work says.
func TestLostWhileItWorked(t *testing.T) {
	errWork := errors.New("the work failed")
	for _, end := range []lease.Code{lease.CodeLeaseExpired, lease.CodeLeaseRevoked, lease.CodeLeaseAbandoned} {
		for _, result := range []error{nil, errWork} {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, 30*sec)
				k, events := keeper(t, b)
				err := k.With(t.Context(), one(), func(context.Context, *hold.Lease) error {
					b.end(b.last().id, end)
					return result
				})
				code(t, err, lease.CodeLeaseLost)
				if !errors.Is(err, end.Err()) || !errors.Is(err, result) && result != nil {
					t.Errorf("%v", err)
				}
				var both *guard.Error
				if !errors.As(err, &both) || both.Body != result {
					t.Errorf("body %v", both)
				}
				if e := events.of(hold.Released); len(e) != 1 || lease.CodeOf(e[0].Err) != lease.CodeLeaseLost {
					t.Errorf("events %+v", events.events)
				}
			})
		}
	}
}

// Work that ends with its context says why that ended, not that it did.
func TestLossIsNotACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRenew(func(int) fault { return fault{err: errReset} })
		k, _ := keeper(t, b)
		err := k.With(t.Context(), one(), func(ctx context.Context, _ *hold.Lease) error {
			<-ctx.Done()
			return ctx.Err()
		})
		code(t, err, lease.CodeLeaseLost)
		if errors.Is(err, context.Canceled) {
			t.Errorf("%v passes for a cancellation", err)
		}
		err = k.With(t.Context(), one(), func(ctx context.Context, _ *hold.Lease) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if code(t, err, lease.CodeLeaseLost); err != context.Cause(t.Context()) && strings.Contains(err.Error(), "ended:") {
			t.Errorf("%v says it twice", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = k.With(ctx, one(), func(ctx context.Context, _ *hold.Lease) error {
			<-ctx.Done()
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled as well: %v", err)
		}
		errWork := errors.New("the work failed")
		err = k.With(t.Context(), one(), func(ctx context.Context, _ *hold.Lease) error {
			<-ctx.Done()
			return errWork
		})
		if err != errWork {
			t.Errorf("another error: %v", err)
		}
	})
}

// A lease that is not even known: what the first release says, unless the
// holder had lost it.
func TestReleaseOfAnUnknownLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(2, 30*sec)
		k, _ := keeper(t, b)
		l := acquire(t, k)
		b.mu.Lock()
		b.leases = nil
		b.mu.Unlock()
		err := l.Release(t.Context())
		code(t, err, lease.CodeLeaseUnknown)

		l = acquire(t, k)
		b.mu.Lock()
		b.leases = nil
		b.mu.Unlock()
		<-l.Context().Done()
		err = l.Release(t.Context())
		code(t, err, lease.CodeLeaseLost)
	})
}

func TestStillRunningAbandons(t *testing.T) {
	errWork := errors.New("it would not die; " + strings.Repeat("ü", 200))
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b)
		err := k.With(t.Context(), one(), func(context.Context, *hold.Lease) error {
			return hold.StillRunning(errWork)
		})
		if !errors.Is(err, errWork) || err.Error() != errWork.Error() {
			t.Errorf("%v", err)
		}
		e := b.last()
		if e.end != lease.CodeLeaseAbandoned || b.count("release") != 0 {
			t.Errorf("ended as %q", e.end)
		}
		if !strings.HasPrefix(errWork.Error(), e.reason) || len(e.reason) < lease.MaxNote-1 || len(e.reason) > lease.MaxNote {
			t.Errorf("reason of %d bytes: %s", len(e.reason), e.reason)
		}
		if hold.StillRunning(nil) != nil {
			t.Error("no error became one")
		}
	})
}

func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b)
		l := acquire(t, k)
		if err := l.Abandon(t.Context(), "the cable was pulled"); err != nil {
			t.Error(err)
		}
		if e := b.last(); e.end != lease.CodeLeaseAbandoned || e.reason != "the cable was pulled" {
			t.Errorf("ended as %q: %s", e.end, e.reason)
		}
		if err := l.Release(t.Context()); err != nil || b.count("release") != 0 {
			t.Errorf("release after it: %v, %d calls", err, b.count("release"))
		}
		errWork := errors.New("the work failed")
		err := k.With(t.Context(), one(), func(ctx context.Context, l *hold.Lease) error {
			if err := l.Abandon(ctx, ""); err != nil {
				t.Error(err)
			}
			return errWork
		})
		if err != errWork || b.last().end != lease.CodeLeaseAbandoned {
			t.Errorf("%v, ended as %q", err, b.last().end)
		}
	})
}

// BR-048: any number of releases is one, and all have its result.
func TestBR048ReleasedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRelease(func(int) fault { return fault{before: sec, err: lease.CodeLeaseExpired.Err()} })
		k, _ := keeper(t, b)
		l := acquire(t, k)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { code(t, l.Release(t.Context()), lease.CodeLeaseLost) })
		}
		all.Wait()
		code(t, l.Release(t.Context()), lease.CodeLeaseLost)
		if b.count("release") != 1 {
			t.Errorf("%d releases", b.count("release"))
		}
		b.setLink(nil)
		b.end(b.last().id, lease.CodeLeaseReleased)
	})
}

// A release that does not get through within its limit goes on, and the
// renewals end.
func TestReleaseInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		back := time.Now().Add(60 * sec)
		b.link = onRelease(func(int) fault {
			if time.Now().Before(back) {
				return fault{lost: true}
			}
			return fault{}
		})
		var logged strings.Builder
		k, events := keeper(t, b, logTo(&logged))
		time.Sleep(sec)
		l := acquire(t, k)
		time.Sleep(sec)
		start := time.Now()
		err := l.Release(t.Context())
		code(t, err, lease.CodeOutcomeUnknown)
		if time.Since(start) != 10*sec || !strings.Contains(err.Error(), string(l.Ref())) || !strings.Contains(err.Error(), "the link is cut") {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		renewals := b.count("renew")
		<-l.Done()
		took := time.Since(start)
		if n := b.count("renew"); n != renewals {
			t.Errorf("%d renewals in the background", n-renewals)
		}
		delayed, late := events.of(hold.Delayed), events.of(hold.Late)
		if len(delayed) != 1 || len(late) != 1 || len(events.of(hold.Released)) != 0 {
			t.Fatalf("events %+v", events.events)
		}
		if lease.CodeOf(delayed[0].Err) != lease.CodeOutcomeUnknown || delayed[0].Took != 10*sec || delayed[0].Held != sec {
			t.Errorf("event %+v", delayed[0])
		}
		if lease.CodeOf(late[0].Err) != lease.CodeLeaseLost || late[0].Took != took { // it had expired
			t.Errorf("event %+v", late[0])
		}
		if got := l.Release(t.Context()); got == nil || got.Error() != err.Error() {
			t.Errorf("then: %v", got)
		}
		if n := strings.Count(logged.String(), "\n"); n != 2 || strings.Count(logged.String(), "error=") != 2 {
			t.Errorf("logged %s", logged.String())
		}
	})
}

func TestReleaseLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRelease(func(n int) fault { return []fault{{before: time.Minute}, {}}[min(n/3, 1)] })
		k, _ := keeper(t, b, func(c *hold.Config) { c.ReleaseLimit = 3 * sec })
		start := time.Now()
		l := acquire(t, k)
		err := l.Release(t.Context())
		code(t, err, lease.CodeOutcomeUnknown)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v passes for the caller's time being over", err)
		}
		if time.Since(start) != 3*sec || b.count("release") != 3 {
			t.Errorf("after %v and %d tries", time.Since(start), b.count("release"))
		}
		<-l.Done()
		if b.last().end != lease.CodeLeaseReleased {
			t.Errorf("ended as %q", b.last().end)
		}
	})
}

// Lost, and the release does not get through: the loss is said first.
func TestLostAndNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(op string, n int) fault {
			return fault{lost: op == "renew" || op == "release" && n < 5}
		}
		k, _ := keeper(t, b)
		l := acquire(t, k)
		<-l.Context().Done()
		err := l.Release(t.Context())
		code(t, err, lease.CodeLeaseLost)
		if !strings.Contains(err.Error(), "cannot give back") {
			t.Error(err)
		}
		<-l.Done()
	})
}
