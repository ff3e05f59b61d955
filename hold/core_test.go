package hold

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

var errReset = errors.New("connection reset")

func at(d time.Duration) attempt.Instant { return attempt.Instant{Mono: d, Boot: d} }

func granted(ttl, left time.Duration) lease.Token {
	return lease.Token{
		RequestID: "r", LeaseID: "l", Fence: 1, TTL: ttl, Left: left,
		Slots: []lease.GrantedSlot{{Pool: "g", ID: "g-0", Units: 1}},
	}
}

func held30(t *testing.T, cfg Config) *core {
	t.Helper()
	c, err := begin(cfg, at(0), at(0), granted(30*sec, 30*sec))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func wantPlan(t *testing.T, c *core, now time.Duration, want plan) {
	t.Helper()
	if p := c.plan(at(now)); p != want {
		t.Errorf("at %v: plan %+v, want %+v", now, p, want)
	}
}

func TestPlan(t *testing.T) {
	c := held30(t, Config{})
	wantPlan(t, c, 0, plan{wake: 250 * ms})
	wantPlan(t, c, 9900*ms, plan{wake: 100 * ms})
	wantPlan(t, c, 10*sec-1, plan{wake: 1})
	wantPlan(t, c, 10*sec, plan{renew: 14 * sec / 3, wake: 250 * ms})
	wantPlan(t, c, 11*sec, plan{wake: 250 * ms}) // one at a time
	if err := c.answered(at(11*sec), granted(30*sec, 30*sec), nil, 0); err != nil {
		t.Error(err)
	}
	wantPlan(t, c, 19900*ms, plan{wake: 100 * ms}) // counted from when it was sent
	wantPlan(t, c, 20*sec, plan{renew: 14 * sec / 3, wake: 250 * ms})
	wantPlan(t, c, 34*sec-100*ms, plan{wake: 100 * ms})
	wantPlan(t, c, 34*sec, plan{over: true})
	if lease.CodeOf(c.lost) != lease.CodeLeaseLost {
		t.Errorf("lost because of %v", c.lost)
	}
}

func TestPlanWatchesByTheMargin(t *testing.T) {
	c := held30(t, Config{Margin: 400 * ms})
	wantPlan(t, c, 0, plan{wake: 100 * ms})
	c = held30(t, Config{Margin: 4 * ms})
	wantPlan(t, c, 0, plan{wake: 10 * ms})
}

// Missed renewals are tried again within the trust that is left, ever sooner
// but not without end.
func TestRetries(t *testing.T) {
	least := 1251 * ms
	for _, c := range []struct {
		now, next, limit time.Duration
		jitter           float64
	}{
		{10 * sec, 13500 * ms, 3500 * ms, 0},
		{10 * sec, 11750 * ms, 12250 * ms / 3, 1},
		{16 * sec, 18 * sec, 2 * sec, 0},
		{20 * sec, 20*sec + least, (4*sec - least) / 3, 0},
		{22 * sec, 22*sec + least, least, 0},
	} {
		core := held30(t, Config{})
		core.plan(at(c.now))
		if err := core.answered(at(c.now), lease.Token{}, errReset, c.jitter); err != errReset {
			t.Errorf("missed because of %v", err)
		}
		if core.next != c.next {
			t.Errorf("at %v: tried again at %v, want %v", c.now, core.next, c.next)
		}
		p := core.plan(at(c.next))
		if want := max(c.limit, least); p.renew != want {
			t.Errorf("at %v: for %v, want %v", c.next, p.renew, want)
		}
	}
}

// A lease that its answers do not make longer (its longest hold is near) is
// renewed ever sooner, within bounds.
func TestRenewsWhatEndsSoon(t *testing.T) {
	c := held30(t, Config{})
	c.plan(at(10 * sec))
	c.answered(at(10*sec), granted(30*sec, 20*sec), nil, 0) // until 24, as before
	if c.next != 17*sec {
		t.Errorf("next at %v", c.next)
	}
	c.plan(at(17 * sec))
	c.answered(at(17*sec), granted(30*sec, 13*sec), nil, 0)
	c.plan(at(c.next))
	c.answered(at(23*sec), granted(30*sec, 7*sec), nil, 0)
	if c.next != 23*sec+1251*ms {
		t.Errorf("next at %v", c.next)
	}
	wantPlan(t, c, 24*sec, plan{over: true})
}

func TestRenewEveryIsBounded(t *testing.T) {
	for _, c := range []struct{ every, margin, want time.Duration }{
		{0, 0, 10 * sec},
		{5 * sec, 0, 5 * sec},
		{time.Hour, 0, 12 * sec},
		{0, 16 * sec, 7 * sec},
	} {
		core := held30(t, Config{RenewEvery: c.every, Margin: c.margin})
		if core.every != c.want {
			t.Errorf("every %v with a margin of %v: %v, want %v", c.every, c.margin, core.every, c.want)
		}
	}
	if c, err := begin(Config{Margin: time.Minute}, at(0), at(0), granted(30*sec, 30*sec)); err == nil || c.every != 0 {
		t.Errorf("every %v with no trust: %v", c.every, err)
	}
}

// Once the release has begun nothing is a loss any more.
func TestClosingIsNoLoss(t *testing.T) {
	for name, happens := range map[string]func(c *core){
		"released": func(c *core) { c.answered(at(10*sec), lease.Token{}, lease.CodeLeaseReleased.Err(), 0) },
		"expired":  func(c *core) { c.answered(at(10*sec), lease.Token{}, lease.CodeLeaseExpired.Err(), 0) },
		"too late": func(c *core) { c.answered(at(24*sec), granted(30*sec, 30*sec), nil, 0) },
		"stopped":  func(c *core) { c.stop() },
	} {
		c := held30(t, Config{})
		c.close()
		if p := c.plan(at(10 * sec)); p.renew == 0 {
			t.Errorf("%s: not renewed while the release is under way", name)
		}
		happens(c)
		if c.lost != nil {
			t.Errorf("%s: lost: %v", name, c.lost)
		}
		c.close()
		wantPlan(t, c, 11*sec, plan{over: true})
	}
}

// I8 over all orders of answers: the hold ends a margin before the lease
// could, whatever is lost, late or asleep; it does not end without a reason;
// and it is renewed no more after that.
func TestI8AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.IntRange(1, 60).Draw(t, "ttl")) * sec
		cfg := Config{
			Margin:     time.Duration(rapid.IntRange(0, int(ttl/2)).Draw(t, "margin")),
			RenewEvery: time.Duration(rapid.IntRange(0, int(ttl)).Draw(t, "every")),
		}
		now := at(time.Hour)
		c, err := begin(cfg, now, now, granted(ttl, ttl))
		if err != nil {
			t.Fatal(err)
		}
		expires := now.Boot + ttl // the broker's truth
		var answer, decided time.Duration
		healthy := true
		for range 200 {
			p := c.plan(now)
			if p.over {
				break
			}
			if now.Boot > expires-c.margin {
				t.Fatalf("held %v after the end of trust", now.Boot-expires+c.margin)
			}
			if p.wake <= 0 || p.wake > 250*ms || p.renew < 0 {
				t.Fatalf("plan %+v", p)
			}
			if p.renew > 0 {
				answer, decided = time.Duration(rapid.Int64Range(0, int64(p.renew)).Draw(t, "answer")), 0
				if arrives := rapid.IntRange(0, 2).Draw(t, "arrives"); arrives > 0 {
					decided = now.Boot + answer/2
				}
			}
			step := p.wake
			if c.open {
				step = min(step, answer)
				answer -= step
			}
			now = now.Add(step)
			if rapid.IntRange(0, 99).Draw(t, "sleep") == 0 {
				now.Boot += time.Duration(rapid.Int64Range(0, int64(2*ttl)).Draw(t, "slept"))
				healthy = false
			}
			if !c.open || answer > 0 {
				continue
			}
			switch {
			case decided == 0 || decided > now.Boot:
				healthy = false
				c.answered(now, lease.Token{}, errReset, rapid.Float64Range(0, 0.999).Draw(t, "jitter"))
			case decided >= expires:
				c.answered(now, lease.Token{}, lease.CodeLeaseExpired.Err(), 0)
			default:
				expires = max(expires, decided+ttl)
				token := granted(ttl, ttl)
				token.Elapsed = time.Duration(rapid.Int64Range(0, int64(decided-c.sent.Boot)).Draw(t, "elapsed"))
				c.answered(now, token, nil, 0)
			}
		}
		if c.phase == over && healthy {
			t.Fatalf("lost with every renewal answered in time: %v", c.lost)
		}
		if c.phase == over && c.lost == nil {
			t.Fatal("over for no reason")
		}
	})
}
