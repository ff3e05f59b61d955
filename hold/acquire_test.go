package hold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
)

func TestAcquireAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, events := keeper(t, b)
		l := acquire(t, k)
		slot, err := l.SlotID()
		fence, err2 := l.Fence()
		slots, err3 := l.Slots()
		if slot != "g-0" || fence != 1 || len(slots) != 1 || errors.Join(err, err2, err3) != nil {
			t.Errorf("holds %q %v %v: %v", slot, fence, slots, errors.Join(err, err2, err3))
		}
		if after, ok := l.Handover(); l.Left() != 24*sec || l.Margin() != 6*sec || after != 15*sec || !ok {
			t.Errorf("left %v, margin %v, handover %v %v", l.Left(), l.Margin(), after, ok)
		}
		time.Sleep(5 * sec)
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		<-l.Done()
		if b.last().end != lease.CodeLeaseReleased {
			t.Errorf("the lease ended as %q", b.last().end)
		}
		acquired, released := events.of(hold.Acquired), events.of(hold.Released)
		if len(acquired) != 1 || len(released) != 1 || len(events.events) != 2 {
			t.Fatalf("events %v", events.events)
		}
		if e := released[0]; e.Held != 5*sec || e.Pool != "g" || e.Lease != l.Ref() || fmt.Sprint(e.Slots) != "[g/g-0]" || e.Request == "" {
			t.Errorf("event %+v", e)
		}
	})
}

// What it holds is refused from the moment the release begins.
func TestUseAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(op string, _ int) fault {
			if op == "release" {
				return fault{before: sec}
			}
			return fault{}
		}
		k, _ := keeper(t, b)
		l := acquire(t, k)
		go l.Release(t.Context())
		synctest.Wait()
		select {
		case <-l.Done():
			t.Fatal("the release has ended")
		default:
		}
		_, err := l.SlotID()
		code(t, err, lease.CodeLeaseClosed)
		_, err = l.Slots()
		code(t, err, lease.CodeLeaseClosed)
		_, err = l.Fence()
		code(t, err, lease.CodeLeaseClosed)
		code(t, context.Cause(l.Context()), lease.CodeLeaseClosed)
		<-l.Done()
	})
}

func TestSlotIDOfSeveralSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(op string, _ int) fault {
			return fault{bad: func(t *lease.Token) { t.Slots = append(t.Slots, lease.GrantedSlot{Pool: "h", ID: "h-0", Units: 1}) }}
		}
		k, _ := keeper(t, b)
		l := acquire(t, k)
		_, err := l.SlotID()
		code(t, err, lease.CodeRequestInvalid)
		if slots, err := l.Slots(); len(slots) != 2 || err != nil {
			t.Errorf("slots %v: %v", slots, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// K13: ids are secrets. Nothing that prints shows one.
func TestK13NothingShowsIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		b.link = func(op string, n int) fault {
			if op == "release" {
				return fault{err: errors.New("the link is cut")}
			}
			return fault{}
		}
		var logged strings.Builder
		k, events := keeper(t, b, logTo(&logged))
		r := one()
		r.ID = "secret-request"
		l, err := k.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		b.end("secret-1", lease.CodeLeaseRevoked)
		<-l.Context().Done()
		err = l.Release(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		closed := k.Close(ctx)
		if closed == nil || err == nil {
			t.Fatal("all went well")
		}
		all := fmt.Sprintf("%v %+v %#v %s %v %v %v %+v", l, l, l, l, err, closed, context.Cause(l.Context()), events.events) + logged.String()
		if strings.Contains(all, "secret") {
			t.Error(all)
		}
		if ref := string(l.Ref()); l.String() != ref || l.GoString() != ref || strings.Count(all, ref) < 8 {
			t.Errorf("the ref %s is missing in %s", ref, all)
		}
	})
}

func TestBR010DeadContextTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		past, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for range 100 {
			if _, err := k.Acquire(ctx, one()); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := k.With(past, one(), func(context.Context, *hold.Lease) error { t.Fatal("runs"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if n := b.count("acquire"); n != 0 {
			t.Errorf("%d calls", n)
		}
		l := acquire(t, k)
		for range 100 {
			_, err := k.Acquire(t.Context(), one())
			code(t, err, lease.CodeNoCapacity)
		}
		if n := b.held(); n != 1 {
			t.Errorf("%d held", n)
		}
		l.Release(t.Context())
	})
}

// The grant and the caller's cancel cross in every way: each round ends with a
// lease or an error, and only live leases are held.
func TestBR002CancelWhileTheGrantIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(2, 30*sec)
		b.link = func(op string, _ int) fault {
			if op == "acquire" {
				return fault{before: time.Duration(rand.IntN(1000)) * time.Microsecond, after: time.Duration(rand.IntN(1000)) * time.Microsecond}
			}
			return fault{}
		}
		k, _ := keeper(t, b)
		first, second := acquire(t, k), acquire(t, k)
		granted := 0
		for range 2000 {
			ctx, cancel := context.WithCancel(t.Context())
			r := one()
			r.Wait = sec
			type outcome struct {
				l   *hold.Lease
				err error
			}
			done := make(chan outcome)
			go func() {
				l, err := k.Acquire(ctx, r)
				done <- outcome{l, err}
			}()
			time.Sleep(5 * ms)
			time.AfterFunc(4*ms+time.Duration(rand.IntN(4000)-2000)*time.Microsecond, cancel)
			time.Sleep(4 * ms)
			if err := first.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			o := <-done
			if (o.l == nil) == (o.err == nil) {
				t.Fatalf("lease %v and error %v", o.l, o.err)
			}
			if first = o.l; first == nil {
				if n := b.held(); n != 1 {
					t.Fatalf("%d held after %v", n, o.err)
				}
				first = acquire(t, k)
			} else {
				granted++
			}
			cancel()
			if n := b.held(); n != 2 {
				t.Fatalf("%d held", n)
			}
		}
		if granted == 0 || granted == 2000 {
			t.Errorf("granted in %d rounds: nothing crossed", granted)
		}
		first.Release(t.Context())
		second.Release(t.Context())
	})
}

// A broker that answers with an invalid token: it is cancelled by its id.
func TestBR012InvalidTokenIsCancelled(t *testing.T) {
	for name, bad := range map[string]func(*lease.Token){
		"no lease":        func(t *lease.Token) { t.LeaseID = "" },
		"no slot":         func(t *lease.Token) { t.Slots = nil },
		"another request": func(t *lease.Token) { t.RequestID = "q" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, 30*sec)
				b.link = func(string, int) fault { return fault{bad: bad} }
				k, events := keeper(t, b)
				_, err := k.Acquire(t.Context(), one())
				code(t, err, lease.CodeReplyInvalid)
				err = k.With(t.Context(), one(), func(context.Context, *hold.Lease) error { t.Fatal("runs"); return nil })
				code(t, err, lease.CodeReplyInvalid)
				if b.count("cancel") != 2 || b.held() != 0 || b.count("renew") != 0 {
					t.Errorf("%d cancels, %d held, %d renewals", b.count("cancel"), b.held(), b.count("renew"))
				}
				if len(events.of(hold.Refused)) != 2 || len(events.of(hold.Acquired)) != 0 || len(events.of(hold.Released)) != 2 {
					t.Errorf("events %+v", events.events)
				}
			})
		})
	}
}

// A hook that panics between the grant and the hold: the lease goes back.
func TestBR012ObserverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b, func(c *hold.Config) {
			c.Observe = func(e hold.Event) {
				if e.Kind == hold.Acquired {
					panic("hook")
				}
			}
		})
		func() {
			defer func() {
				if p := recover(); p != "hook" {
					t.Errorf("recovered %v", p)
				}
			}()
			k.Acquire(t.Context(), one())
		}()
		if b.last().end != lease.CodeLeaseReleased {
			t.Errorf("ended as %q", b.last().end)
		}
	})
}

// A broker that panics takes nothing of the Keeper with it.
func TestBrokerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(string, int) fault { return fault{bad: func(*lease.Token) { panic("broker") }} }
		k, _ := keeper(t, b)
		func() {
			defer func() { recover() }()
			k.Acquire(t.Context(), one())
		}()
		b.end(b.last().id, lease.CodeLeaseReleased) // keeper's cleanup demands that Close returns
	})
}

func TestK1GrantedLate(t *testing.T) {
	for _, ttl := range []time.Duration{30 * sec, sec} {
		synctest.Test(t, func(t *testing.T) {
			b := newShaky(1, ttl)
			k, _ := keeper(t, b)
			first := acquire(t, k)
			time.AfterFunc(29*sec, func() { first.Release(t.Context()) })
			r := one()
			r.Wait = time.Minute
			l, err := k.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if left := l.Left(); left != ttl-ttl/5 {
				t.Errorf("%v left of %v", left, ttl)
			}
			l.Release(t.Context())
		})
	}
}

// An answer on its way for so long that it cannot be trusted: the lease is
// given back, and the error says so.
func TestI8LateGrantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(op string, n int) fault {
			if op == "acquire" {
				return fault{after: 23 * sec}
			}
			return fault{}
		}
		k, events := keeper(t, b)
		_, err := k.Acquire(t.Context(), one())
		code(t, err, lease.CodeLeaseLost)
		if b.last().end != lease.CodeLeaseReleased {
			t.Errorf("ended as %q", b.last().end)
		}
		err = k.With(t.Context(), one(), func(context.Context, *hold.Lease) error { t.Fatal("runs"); return nil })
		code(t, err, lease.CodeLeaseLost)
		if b.last().end != lease.CodeLeaseReleased || b.count("renew") != 0 {
			t.Errorf("ended as %q after %d renewals", b.last().end, b.count("renew"))
		}
		if len(events.of(hold.Refused)) != 2 {
			t.Errorf("events %+v", events.events)
		}
	})
}

// The same with a broker that does not answer the release: both are said.
func TestI8LateGrantThatCannotBeReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(op string, n int) fault {
			if op == "acquire" {
				return fault{after: 23 * sec}
			}
			return fault{lost: n < 4}
		}
		k, _ := keeper(t, b)
		_, err := k.Acquire(t.Context(), one())
		code(t, err, lease.CodeLeaseLost)
		if !errors.Is(err, lease.CodeOutcomeUnknown.Err()) {
			t.Errorf("%v does not say that it is not given back", err)
		}
	})
}

// BR-018: the limit of the acquire is none of the hold.
func TestBR018AcquireLimitIsNotTheHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		k, events := keeper(t, b)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "trace"), 500*ms)
		defer cancel()
		l, err := k.Acquire(ctx, one())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * sec)
		if l.Context().Err() != nil || l.Context().Value(valueKey{}) != "trace" || len(events.of(hold.Lost)) != 0 {
			t.Errorf("context %v, events %+v", context.Cause(l.Context()), events.events)
		}
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
		if b.last().values != "trace" {
			t.Errorf("the release had the value %v", b.last().values)
		}
	})
}

func TestRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(2, 30*sec)
		k, _ := keeper(t, b)
		l := acquire(t, k)
		first := b.last().request
		m := acquire(t, k)
		if second := b.last().request; first == second || len(second) != 32 {
			t.Errorf("ids of %d and %d characters", len(first), len(second))
		}
		m.Release(t.Context())
		r := one()
		r.ID = "mine"
		m, err := k.Acquire(t.Context(), r)
		if err != nil || b.last().request != "mine" {
			t.Errorf("id %#v: %v", b.last().request, err)
		}
		l.Release(t.Context())
		m.Release(t.Context())
	})
}

// A request that claims nothing is the broker's to refuse.
func TestRequestWithoutClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = func(string, int) fault { return fault{err: lease.CodeRequestInvalid.Err()} }
		k, _ := keeper(t, b)
		_, err := k.Acquire(t.Context(), lease.Request{})
		code(t, err, lease.CodeRequestInvalid)
	})
}

func TestNewRefuses(t *testing.T) {
	b := newShaky(1, sec)
	for field, cfg := range map[string]hold.Config{
		"Broker":       {},
		"Margin":       {Broker: b, Margin: -1},
		"RenewEvery":   {Broker: b, RenewEvery: -1},
		"ReleaseLimit": {Broker: b, ReleaseLimit: -1},
	} {
		if _, err := hold.New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	k, err := hold.New(hold.Config{Broker: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.With(t.Context(), one(), nil); err == nil {
		t.Error("no work was accepted")
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
