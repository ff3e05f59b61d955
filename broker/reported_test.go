package broker_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/lease"
)

// What is refused, with which code, and what is granted is granted to the
// nanosecond: nothing is rounded to 0 or to no end, and neither a repeat nor a
// renewal changes the unit.
func TestBR024_TimesAreExactOrRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{MaxTTL: time.Minute}, "g-0"))
		for _, c := range []struct {
			asked     time.Duration
			ttl, hold lease.Code
			got       time.Duration
		}{
			{asked: 0, got: lease.DefaultTTL},
			{asked: 1, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: time.Millisecond, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: 500 * time.Millisecond, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: time.Second, got: time.Second},
			{asked: 1500 * time.Millisecond, got: 1500 * time.Millisecond},
			{asked: time.Minute, got: time.Minute},
			{asked: time.Minute + 1, ttl: lease.CodeTTLOutOfRange, got: lease.DefaultTTL},
			{asked: -1, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: -time.Hour, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: math.MinInt64, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
			{asked: math.MaxInt64, ttl: lease.CodeTTLOutOfRange, hold: lease.CodeRequestInvalid},
		} {
			r := wish(0)
			r.TTL = c.asked
			granted(t, f, r, c.ttl, c.got)
			r = wish(0)
			r.MaxHold = c.asked
			granted(t, f, r, c.hold, min(c.got, lease.DefaultTTL))
		}
		if s := f.audit(t); s.Held != 0 || s.Queued != 0 || s.Orphaned != 0 {
			t.Errorf("in the end %+v", s)
		}
	})
}

// granted demands that a request is refused with the code, or that its lease
// has exactly so much left at its grant, its repeat and its renewal.
func granted(t *testing.T, f farm, r lease.Request, code lease.Code, left time.Duration) {
	t.Helper()
	before := f.audit(t).Acquired
	token, err := f.Acquire(t.Context(), r)
	if code != "" {
		wantCode(t, err, code)
		if after := f.audit(t).Acquired; after != before {
			t.Errorf("ttl %v, max_hold %v: refused and counted as acquired", r.TTL, r.MaxHold)
		}
		return
	}
	mustDo(t, err)
	again, err := f.Acquire(t.Context(), r)
	mustDo(t, err)
	renewed, err := f.Renew(t.Context(), token)
	mustDo(t, err)
	for _, l := range []lease.Token{token, again, renewed} {
		if l.Left != left {
			t.Errorf("ttl %v, max_hold %v: %v is left, want %v", r.TTL, r.MaxHold, l.Left, left)
		}
	}
	mustDo(t, f.Release(t.Context(), token))
}

// A wait is as long as it was asked, however short, and ends.
func TestBR024_WaitsAreExactOrRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{TTL: time.Hour}, "g-0"))
		f.take(t)
		for wait, code := range map[time.Duration]lease.Code{
			0: lease.CodeNoCapacity, 1: lease.CodeTimedOut, time.Millisecond: lease.CodeTimedOut,
			500 * time.Millisecond: lease.CodeTimedOut, 1500 * time.Millisecond: lease.CodeTimedOut,
			-1: lease.CodeRequestInvalid, math.MinInt64: lease.CodeRequestInvalid,
			math.MaxInt64: lease.CodeRequestInvalid, lease.MaxWait + 1: lease.CodeRequestInvalid,
		} {
			began := time.Now()
			_, err := f.Acquire(t.Context(), wish(wait))
			wantCode(t, err, code)
			took, least := time.Since(began), wait
			if code == lease.CodeRequestInvalid {
				least = 0
			}
			if took < least || took > least+time.Second {
				t.Errorf("a wait of %v took %v", wait, took)
			}
		}
	})
}

// A pool's times are checked like a request's; only the named [lease.AtOnce]
// is below zero and has a meaning.
func TestBR024_PoolsTimesAreExactOrRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		for name, set := range map[string]func(s *lease.Settings, d time.Duration){
			"ttl":            func(s *lease.Settings, d time.Duration) { s.TTL = d },
			"max_ttl":        func(s *lease.Settings, d time.Duration) { s.MaxTTL = d },
			"max_hold":       func(s *lease.Settings, d time.Duration) { s.MaxHold = d },
			"stall.after":    func(s *lease.Settings, d time.Duration) { s.StallAfter = d },
			"handover.after": func(s *lease.Settings, d time.Duration) { s.Handover.After = d },
			"handover.max":   func(s *lease.Settings, d time.Duration) { s.Handover.Proofs, s.Handover.Max = lease.ProofBoot, d },
		} {
			for _, d := range []time.Duration{math.MinInt64, -time.Second, -2, -1, math.MaxInt64} {
				if name == "handover.after" && d == lease.AtOnce {
					continue
				}
				var s lease.Settings
				set(&s, d)
				_, err := f.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{poolWith("g", s, "g-0")}, false)
				if lease.CodeOf(err) != lease.CodePoolsInvalid {
					t.Errorf("%s: %v is answered with %v", name, d, err)
				}
			}
		}
		if s := f.audit(t); s.Pools[0].Settings.TTL != lease.DefaultTTL || s.Free != 1 {
			t.Errorf("after refused applies %+v", s.Pools[0])
		}
	})
}

// The renewals go on and the work is dead: the listing names the holder and
// how long ago it made progress, max_hold ends the lease, and says why.
func TestBR026_TheListingNamesWhoseWorkIsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{TTL: 5 * time.Second, MaxHold: 10 * time.Second}, "g-0"))
		r := wish(0)
		r.Holder.Name = "worker-7"
		token, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		time.Sleep(2 * time.Second)
		mustDo(t, f.Progress(t.Context(), token, "frame 7"))
		for range 3 {
			time.Sleep(2 * time.Second)
			_, err := f.Renew(t.Context(), token)
			mustDo(t, err)
		}
		shown := f.audit(t).Pools[0].Slots[0].Leases[0]
		if shown.Holder.Name != "worker-7" || shown.Progress != 6*time.Second || shown.Doing != "frame 7" || shown.Since != 8*time.Second {
			t.Errorf("while it is renewed the listing says %+v", shown)
		}
		time.Sleep(2500 * time.Millisecond)
		_, err = f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseRevoked)
		shown = f.audit(t).Pools[0].Slots[0].Leases[0]
		if shown.Holder.Name != "worker-7" || shown.End != "revoked" || shown.Why != "max_hold" || shown.Reason == "" {
			t.Errorf("after its longest hold the listing says %+v", shown)
		}
	})
}

// A cancel falls at every moment of an acquire that waits, and each time the
// acquire returns without help from a slot or a timer.
func TestBR037_CancelIsNeverSleptThrough(t *testing.T) {
	f := open(t, uneven{memory()}, pool("g", "g-0"))
	f.take(t)
	for round := range 3000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		waiter := begin(ctx, f, wish(time.Hour))
		dawdle(40)
		cancel(errMind)
		select {
		case got := <-waiter:
			if !errors.Is(got.err, errMind) {
				t.Fatalf("round %d: the cancelled acquire returned %v", round, got.err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("round %d: the cancelled acquire sleeps on", round)
		}
	}
	if s := f.audit(t); s.Queued != 0 || s.Held != 1 || s.Acquired != 1 {
		t.Errorf("left behind: %+v", s)
	}
}

// The same by the clock: no time passes between the cancel and the return,
// also where the cancel falls on the end of a poll or of the wait.
func TestBR037_CancelReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{TTL: time.Hour}, "g-0"))
		f.take(t)
		for _, after := range []time.Duration{0, 1, time.Second, lease.MaxPoll - 1, lease.MaxPoll, lease.MaxPoll + 1, 2 * lease.MaxPoll, time.Minute + 30*time.Second} {
			ctx, cancel := context.WithCancelCause(t.Context())
			waiter := begin(ctx, f, wish(10*time.Minute))
			time.Sleep(after)
			began := time.Now()
			cancel(errMind)
			if got := <-waiter; !errors.Is(got.err, errMind) || time.Since(began) != 0 {
				t.Errorf("cancelled after %v it returned %v later: %v", after, time.Since(began), got.err)
			}
			if s := f.audit(t); s.Queued != 0 {
				t.Fatalf("cancelled after %v: %d are queued", after, s.Queued)
			}
		}
	})
}

// Two slots and 20 waiters of 50 ms work: whoever is next begins at the very
// moment at which the one before gives back.
func TestBR042_NoSlotIsIdleWhileSomebodyWaits(t *testing.T) {
	const work = 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", names(2)...))
		began := time.Now()
		ended := make(chan error)
		for range 20 {
			go func() {
				token, err := f.Acquire(t.Context(), wish(time.Hour))
				time.Sleep(work)
				ended <- errors.Join(err, f.Release(t.Context(), token))
			}()
			synctest.Wait()
		}
		for range 20 {
			mustDo(t, <-ended)
		}
		if took := time.Since(began); took != 10*work {
			t.Errorf("20 times %v on 2 slots took %v", work, took)
		}
		if s := f.audit(t); s.Acquired != 20 || s.Released != 20 {
			t.Errorf("in the end %+v", s)
		}
	})
}
