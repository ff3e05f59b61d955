package hold_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
)

// down is a link that carries nothing, neither calls nor answers.
func down(string, int) fault { return fault{lost: true} }

// The network is down for 2 TTL and the lease is lost. The same Keeper takes
// the same pool again and holds it for 4 TTL: what is left of the first lease
// (its end of trust, its renewals, its release that goes on behind) does not
// touch the second, whether the first was given back before or is only later.
func TestBR015_SecondLeaseIsRenewedLikeTheFirst(t *testing.T) {
	const ttl = 2 * sec
	for name, c := range map[string]struct {
		releaseFirst bool
		cause        lease.Code
	}{"behind a release": {true, lease.CodeLeaseClosed}, "beside the lost one": {false, lease.CodeLeaseLost}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, ttl)
				k, events := keeper(t, b)
				first := acquire(t, k)
				time.Sleep(ttl)
				b.setLink(down)
				if c.releaseFirst {
					go first.Release(t.Context()) // goes on until the network is back
				}
				time.Sleep(2 * ttl)
				code(t, context.Cause(first.Context()), c.cause)
				if b.held() != 0 {
					t.Fatal("the first lease has not ended")
				}
				b.setLink(nil)

				second := acquire(t, k)
				renewals := b.count("renew")
				for range 40 {
					time.Sleep(ttl / 10)
					if err := context.Cause(second.Context()); err != nil || b.last().end != "" || b.last().fence != 2 {
						t.Fatalf("the second lease: %v, ended as %q", err, b.last().end)
					}
				}
				if n := b.count("renew") - renewals; n != 12 {
					t.Errorf("%d renewals in 4 TTL of which each has 3", n)
				}
				if !c.releaseFirst {
					code(t, first.Release(t.Context()), lease.CodeLeaseLost)
				}
				<-first.Done()
				if b.last().end != "" || len(events.of(hold.Lost)) > 1 {
					t.Errorf("the first lease's release did harm: %q, %+v", b.last().end, events.events)
				}
				if err := second.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// However the body of With ends, the renewals end with it, and the slot is
// free at once.
func TestBR026_RenewalsEndWithTheBody(t *testing.T) {
	errWork := errors.New("the work failed")
	for name, end := range map[string]func() error{
		"return": func() error { return nil },
		"error":  func() error { return errWork },
		"panic":  func() error { panic(errWork) },
		"exit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, 3*sec)
				k, _ := keeper(t, b)
				start := time.Now()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					defer func() { _ = recover() }()
					_ = k.With(t.Context(), one(), func(context.Context, *hold.Lease) error {
						time.Sleep(10 * sec)
						return end()
					})
				}()
				<-ended
				renewals := b.count("renew")
				if renewals < 8 || b.last().end != lease.CodeLeaseReleased || time.Since(start) != 10*sec {
					t.Errorf("after %v: %d renewals, ended as %q", time.Since(start), renewals, b.last().end)
				}
				time.Sleep(time.Minute)
				if n := b.count("renew"); n != renewals {
					t.Errorf("%d renewals after the end", n-renewals)
				}
			})
		})
	}
}

// A body that hangs is renewed as long as it hangs; what ends that is the
// broker's longest hold. The body is told, and the renewals end although it
// still hangs.
func TestBR026_ABodyThatHangsIsEndedByTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 3*sec)
		k, events := keeper(t, b)
		hangs, told := make(chan struct{}), make(chan error, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- k.With(t.Context(), one(), func(ctx context.Context, _ *hold.Lease) error {
				context.AfterFunc(ctx, func() { told <- context.Cause(ctx) })
				<-hangs
				return nil
			})
		}()
		time.Sleep(20 * sec)
		if n := b.count("renew"); n < 18 || b.last().end != "" {
			t.Errorf("%d renewals in 20 s, ended as %q", n, b.last().end)
		}
		b.end(b.last().id, lease.CodeLeaseRevoked)
		code(t, <-told, lease.CodeLeaseLost)
		renewals := b.count("renew")
		time.Sleep(time.Minute)
		if n := b.count("renew"); n != renewals || len(events.of(hold.Lost)) != 1 {
			t.Errorf("%d renewals after the loss, events %+v", n-renewals, events.events)
		}
		close(hangs)
		code(t, <-ended, lease.CodeLeaseLost)
	})
}
