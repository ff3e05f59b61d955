package hold_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
)

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(3, 30*sec)
		b.link = onRelease(func(n int) fault { return fault{lost: n == 0 || n == 1 || n == 2} })
		k, events := keeper(t, b)
		held, background := acquire(t, k), acquire(t, k)
		code(t, background.Release(t.Context()), lease.CodeOutcomeUnknown)
		time.AfterFunc(20*sec, func() { held.Release(t.Context()) })
		r := one()
		third := acquire(t, k)
		r.Wait = time.Hour
		waiting := make(chan error)
		go func() {
			_, err := k.Acquire(t.Context(), r)
			waiting <- err
		}()
		synctest.Wait()
		time.AfterFunc(5*sec, func() { third.Release(t.Context()) })
		go func() {
			time.Sleep(ms)
			_, err := k.Acquire(t.Context(), one())
			waiting <- err
		}()
		start := time.Now()
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if time.Since(start) != 20*sec || b.held() != 0 {
			t.Errorf("closed after %v with %d held", time.Since(start), b.held())
		}
		first, second := <-waiting, <-waiting
		code(t, first, lease.CodeStopped)
		code(t, second, lease.CodeStopped)
		if len(events.of(hold.Lost)) != 0 {
			t.Errorf("events %+v", events.events)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestCloseNamesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(4, 30*sec)
		b.link = onRelease(func(n int) fault {
			switch n {
			case 0:
				return fault{lost: true}
			default:
				return fault{err: errReset}
			}
		})
		k, events := keeper(t, b)
		held, background, slow := acquire(t, k), acquire(t, k), acquire(t, k)
		released := make(chan error)
		go func() { released <- background.Release(t.Context()) }()
		synctest.Wait()
		go slow.Release(t.Context())
		synctest.Wait()
		b.setLink(func(string, int) fault { return fault{lost: true} })
		ctx, cancel := context.WithTimeoutCause(t.Context(), sec, errors.New("too slow"))
		defer cancel()
		start := time.Now()
		err := k.Close(ctx)
		code(t, err, lease.CodeOutcomeUnknown)
		if time.Since(start) != sec {
			t.Errorf("closed after %v", time.Since(start))
		}
		for _, part := range []string{
			string(held.Ref()) + " on g/g-0 is still held",
			string(background.Ref()) + " on g/g-1 is being given back",
			string(slow.Ref()) + " on g/g-2 could not be given back: connection reset",
			"too slow",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		code(t, <-released, lease.CodeOutcomeUnknown)
		<-background.Done()
		code(t, context.Cause(held.Context()), lease.CodeLeaseLost)
		if !errors.Is(context.Cause(held.Context()), lease.CodeStopped.Err()) {
			t.Error(context.Cause(held.Context()))
		}
		renewals := b.count("renew")
		time.Sleep(20 * sec)
		if n := b.count("renew"); n != renewals || len(events.of(hold.Lost)) != 1 {
			t.Errorf("%d renewals after the close, events %+v", n-renewals, events.events)
		}
		// Work that ends after all still gives its lease back.
		b.setLink(nil)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if b.leases[0].end != lease.CodeLeaseReleased {
			t.Errorf("ended as %q", b.leases[0].end)
		}
	})
}

// A broker that answers neither a cancelled acquire nor anything else.
func TestCloseWithAnAcquireThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		hang := make(chan struct{})
		b.link = func(op string, n int) fault {
			return fault{bad: func(*lease.Token) {
				if op == "acquire" {
					<-hang
				}
			}}
		}
		k, events := keeper(t, b)
		acquired := make(chan error)
		go func() {
			_, err := k.Acquire(context.WithoutCancel(t.Context()), one())
			acquired <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		start := time.Now()
		err := k.Close(ctx)
		code(t, err, lease.CodeOutcomeUnknown)
		if time.Since(start) != sec || !strings.Contains(err.Error(), "is not answered yet") {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(hang) // the token comes after all: it is given back
		code(t, <-acquired, lease.CodeStopped)
		if b.last().end != lease.CodeLeaseReleased || len(events.of(hold.Lost)) != 0 {
			t.Errorf("ended as %q, events %+v", b.last().end, events.events)
		}
	})
}

// A lease that is dropped without a release is abandoned. Real time: the
// garbage collector decides.
func TestDroppedLeaseIsAbandoned(t *testing.T) {
	b := newShaky(1, 30*sec)
	var logged strings.Builder
	leaked := make(chan hold.Event, 4)
	k, err := hold.New(hold.Config{Broker: b, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Observe: func(e hold.Event) {
		if e.Kind == hold.Leaked || e.Kind == hold.Late {
			leaked <- e
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := drop(t, k)
	limit := time.After(30 * sec)
	for len(leaked) == 0 {
		runtime.GC()
		select {
		case <-limit:
			t.Fatal("nobody noticed")
		default:
			runtime.Gosched()
		}
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if e := <-leaked; e.Kind != hold.Leaked || !strings.Contains(e.Err.Error(), "drop") {
		t.Errorf("event %+v", e)
	}
	if e := <-leaked; e.Kind != hold.Late || e.Err != nil {
		t.Errorf("event %+v", e)
	}
	if strings.Count(logged.String(), "error=") != 1 {
		t.Errorf("logged %s", logged.String())
	}
	if b.last().end != lease.CodeLeaseAbandoned || ctx.Err() == nil {
		t.Errorf("ended as %q, context %v", b.last().end, ctx.Err())
	}
}

//go:noinline
func drop(t *testing.T, k *hold.Keeper) context.Context {
	return acquire(t, k).Context()
}
