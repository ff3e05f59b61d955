package hold_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
)

var errReset = errors.New("connection reset")

// onRenew is a link on which only renewals go wrong.
func onRenew(f func(n int) fault) func(string, int) fault {
	return func(op string, n int) fault {
		if op == "renew" {
			return f(n)
		}
		return fault{}
	}
}

func TestRenewsEveryThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b)
		l := acquire(t, k)
		time.Sleep(10*sec - 1)
		if n := b.count("renew"); n != 0 {
			t.Errorf("%d renewals before 10 s", n)
		}
		time.Sleep(91 * sec)
		if n := b.count("renew"); n != 10 {
			t.Errorf("%d renewals in 101 s", n)
		}
		l.Release(t.Context())
		time.Sleep(time.Minute)
		if n := b.count("renew"); n != 10 { // BR-026: not a beat more
			t.Errorf("%d renewals after the release", n)
		}
	})
}

func TestRenewEveryAndMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, _ := keeper(t, b, func(c *hold.Config) { c.RenewEvery, c.Margin = 3*sec, 10*sec })
		l := acquire(t, k)
		if l.Left() != 20*sec || l.Margin() != 10*sec {
			t.Errorf("left %v, margin %v", l.Left(), l.Margin())
		}
		time.Sleep(30*sec + ms)
		if n := b.count("renew"); n != 10 {
			t.Errorf("%d renewals in 30 s", n)
		}
		l.Release(t.Context())
	})
}

// A wish for rare renewals is no way to lose the lease.
func TestRenewsInTimeWhateverIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		k, events := keeper(t, b, func(c *hold.Config) { c.RenewEvery = time.Hour })
		l := acquire(t, k)
		time.Sleep(time.Minute)
		if len(events.of(hold.Lost)) > 0 {
			t.Error("lost")
		}
		l.Release(t.Context())
	})
}

func TestBR006RenewalWithoutItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		b.link = onRenew(func(n int) fault { return fault{unheard: n == 2} })
		k, events := keeper(t, b)
		l := acquire(t, k)
		expires := b.last().expires
		for range 20 {
			time.Sleep(500 * ms)
			if e := b.last(); e.expires.Before(expires) || e.end != "" {
				t.Fatalf("expires %v before %v: %q", e.expires, expires, e.end)
			}
			expires = b.last().expires
		}
		if len(events.of(hold.Lost)) != 0 || len(events.of(hold.Missed)) != 1 || b.last().renewed < 10 {
			t.Errorf("%d renewals, events %+v", b.last().renewed, events.events)
		}
		l.Release(t.Context())
	})
}

// 500 holders with slow answers, all of which release normally: that their
// renewals then fail is no loss.
func TestBR014ReleaseIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(500, 2*sec)
		b.link = func(op string, _ int) fault {
			return fault{before: time.Duration(rand.IntN(30)) * ms, after: time.Duration(rand.IntN(30)) * ms}
		}
		k, events := keeper(t, b, func(c *hold.Config) { c.RenewEvery = 30 * ms })
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				err := k.With(t.Context(), one(), func(ctx context.Context, _ *hold.Lease) error {
					time.Sleep(100 * ms)
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(events.of(hold.Lost)); n != 0 || len(events.of(hold.Released)) != 500 {
			t.Errorf("%d lost, %d released", n, len(events.of(hold.Released)))
		}
		if b.count("renew") < 500 {
			t.Errorf("%d renewals", b.count("renew"))
		}
	})
}

// A renewal that is answered "released" while the release is under way.
func TestBR014RenewalBehindTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 3*sec)
		b.link = func(op string, _ int) fault {
			if op == "release" {
				return fault{after: 2 * sec}
			}
			return fault{}
		}
		k, events := keeper(t, b)
		if err := k.With(t.Context(), one(), func(context.Context, *hold.Lease) error { return nil }); err != nil {
			t.Error(err)
		}
		if b.count("renew") == 0 || len(events.of(hold.Lost)) != 0 || len(events.of(hold.Missed)) != 0 {
			t.Errorf("%d renewals, events %+v", b.count("renew"), events.events)
		}
	})
}

func TestBR017OneMissedBeatIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		b.link = onRenew(func(n int) fault {
			return []fault{{err: errReset}, {err: lease.CodeUnavailable.Err()}, {lost: true}, {}, {err: lease.CodeLeaseRevoked.Err()}}[min(n, 4)]
		})
		k, events := keeper(t, b)
		l := acquire(t, k)
		for b.count("renew") < 4 {
			time.Sleep(10 * ms)
		}
		if err := context.Cause(l.Context()); err != nil {
			t.Fatalf("lost after three missed beats: %v", err)
		}
		if n := len(events.of(hold.Missed)); n != 3 {
			t.Errorf("%d missed", n)
		}
		for b.count("renew") < 5 {
			time.Sleep(ms)
		}
		synctest.Wait()
		err := context.Cause(l.Context())
		code(t, err, lease.CodeLeaseLost)
		if !errors.Is(err, lease.CodeLeaseRevoked.Err()) || l.Left() == 0 {
			t.Errorf("%v with %v of trust left", err, l.Left())
		}
		_, err = l.SlotID()
		code(t, err, lease.CodeLeaseLost)
		l.Release(t.Context())
	})
}

// I8: with no answer at all the work's context ends at the end of trust, one
// margin before the lease can be anybody else's.
func TestI8LostBeforeTheLeaseEnds(t *testing.T) {
	for name, f := range map[string]fault{"cut": {lost: true}, "reset": {err: errReset}, "slow": {before: 40 * sec}, "unheard": {unheard: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newShaky(1, 30*sec)
				b.link = onRenew(func(int) fault { return f })
				k, events := keeper(t, b)
				start := time.Now()
				l := acquire(t, k)
				<-l.Context().Done()
				if !f.unheard && time.Since(start) != 24*sec {
					t.Errorf("lost after %v", time.Since(start))
				}
				code(t, context.Cause(l.Context()), lease.CodeLeaseLost)
				if margin := time.Until(b.last().expires); margin < 6*sec || b.last().end != "" {
					t.Errorf("lost %v before the lease's end (%q)", margin, b.last().end)
				}
				if b.count("renew") < 4 {
					t.Errorf("only %d tries", b.count("renew"))
				}
				synctest.Wait()
				if n := len(events.of(hold.Lost)); n != 1 {
					t.Errorf("told %d times", n)
				}
				if err := l.Release(t.Context()); err != nil { // in time, after all
					t.Error(err)
				}
			})
		})
	}
}

// An answer that comes after the end of trust is a loss, and trust is looked
// at also where no goroutine has come to notice its end.
func TestI8LateRenewalIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRenew(func(int) fault {
			return fault{bad: func(*lease.Token) { time.Sleep(20 * sec) }} // whatever its context says
		})
		k, events := keeper(t, b)
		l := acquire(t, k)
		time.Sleep(24*sec - 1)
		if l.Left() != 1 || l.Context().Err() != nil {
			t.Errorf("%v left, %v", l.Left(), l.Context().Err())
		}
		time.Sleep(time.Nanosecond)
		if l.Left() != 0 {
			t.Errorf("%v left", l.Left())
		}
		code(t, context.Cause(l.Context()), lease.CodeLeaseLost)
		time.Sleep(10 * sec)
		_, err := l.SlotID()
		code(t, err, lease.CodeLeaseLost)
		if n := len(events.of(hold.Lost)); n != 1 || b.count("renew") != 1 {
			t.Errorf("lost %d times, %d renewals", n, b.count("renew"))
		}
		l.Release(t.Context())
	})
}

func TestBR021BrokerAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		away := time.Now().Add(3 * sec)
		b.link = onRenew(func(int) fault {
			if d := time.Since(away); d >= 0 && d < sec {
				return fault{err: lease.CodeUnavailable.Err()}
			}
			return fault{}
		})
		k, events := keeper(t, b)
		l := acquire(t, k)
		time.Sleep(20 * sec)
		if len(events.of(hold.Lost)) != 0 || len(events.of(hold.Missed)) == 0 || b.last().end != "" {
			t.Errorf("events %+v", events.events)
		}
		l.Release(t.Context())
	})
}

// K3: revoked while it was trusted, which the next renewal tells.
func TestK3RevokedWhileTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		k, events := keeper(t, b)
		start := time.Now()
		err := k.With(t.Context(), one(), func(ctx context.Context, l *hold.Lease) error {
			b.end(b.last().id, lease.CodeLeaseRevoked)
			<-ctx.Done()
			return ctx.Err()
		})
		code(t, err, lease.CodeLeaseLost)
		if errors.Is(err, context.Canceled) || !errors.Is(err, lease.CodeLeaseRevoked.Err()) {
			t.Errorf("%v", err)
		}
		if time.Since(start) != 10*sec || len(events.of(hold.Lost)) != 1 {
			t.Errorf("lost after %v, events %+v", time.Since(start), events.events)
		}
	})
}

// The machine sleeps an hour with 3 s of trust left: it has none on waking.
func TestK23SleepEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 30*sec)
		b.link = onRenew(func(int) fault { return fault{lost: true} })
		c := newClock()
		k, _ := keeper(t, b, func(cfg *hold.Config) { cfg.Clock = c })
		l := acquire(t, k)
		time.Sleep(21 * sec)
		if l.Left() != 3*sec {
			t.Fatalf("%v left", l.Left())
		}
		c.asleep(time.Hour)
		if _, err := l.SlotID(); lease.CodeOf(err) != lease.CodeLeaseLost || l.Left() != 0 {
			t.Errorf("on waking it has %v left: %v", l.Left(), err)
		}
		code(t, context.Cause(l.Context()), lease.CodeLeaseLost)
		l.Release(t.Context())
	})
}

// Also where nobody uses the lease its context ends soon after the sleep.
func TestK23SleepIsNoticed(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{30 * sec: 250 * ms, sec: 50 * ms} {
		synctest.Test(t, func(t *testing.T) {
			b := newShaky(1, ttl)
			c := newClock()
			k, _ := keeper(t, b, func(cfg *hold.Config) { cfg.Clock = c })
			l := acquire(t, k)
			time.Sleep(ttl / 5)
			c.asleep(time.Hour)
			start := time.Now()
			<-l.Context().Done()
			if took := time.Since(start); took > most {
				t.Errorf("ttl %v: noticed after %v", ttl, took)
			}
			l.Release(t.Context())
		})
	}
}

// BR-015, BR-028: after a loss the same Keeper holds the next lease as well as
// the first one, whatever ended the one before.
func TestBR028HoldsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		k, events := keeper(t, b)
		for round := range 20 {
			r := one()
			r.Wait = time.Minute
			l, err := k.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(8 * sec) // 4 TTL
			if err := context.Cause(l.Context()); err != nil || b.last().end != "" {
				t.Fatalf("round %d: lost: %v", round, err)
			}
			switch round % 3 {
			case 0: // a black hole, for 2 TTL
				b.setLink(onRenew(func(int) fault { return fault{lost: true} }))
				time.Sleep(4 * sec)
				b.setLink(nil)
			case 1:
				b.end(b.last().id, lease.CodeLeaseRevoked)
			case 2:
				b.end(b.last().id, lease.CodeLeaseExpired)
			}
			<-l.Context().Done()
			synctest.Wait()
			before := b.count("renew")
			time.Sleep(10 * sec)
			if n := b.count("renew"); n != before {
				t.Fatalf("round %d: %d renewals after the loss", round, n-before)
			}
			code(t, l.Release(t.Context()), lease.CodeLeaseLost)
			<-l.Done()
		}
		if n := len(events.of(hold.Lost)); n != 20 {
			t.Errorf("%d losses", n)
		}
	})
}

// A broker that answers a renewal with another lease is not believed.
func TestRenewalOfAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newShaky(1, 2*sec)
		b.link = onRenew(func(n int) fault {
			return fault{bad: func(t *lease.Token) { t.LeaseID = "other" }}
		})
		k, events := keeper(t, b)
		start := time.Now()
		l := acquire(t, k)
		<-l.Context().Done()
		if time.Since(start) != 1600*ms || len(events.of(hold.Missed)) == 0 {
			t.Errorf("lost after %v, events %+v", time.Since(start), events.events)
		}
		l.Release(t.Context())
	})
}
