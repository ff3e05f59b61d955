package hold

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// A core decides for one lease: when to renew it, what an answer means, and
// when it is lost. It reads no clock and starts nothing; the lease's lock
// guards it.
type core struct {
	token  lease.Token
	limits attempt.Limits
	margin time.Duration
	every  time.Duration
	trust  attempt.Trust
	phase  phase
	lost   error // why the lease was lost while it was held

	open bool            // a renewal is under way
	sent attempt.Instant // when it was sent
	next time.Duration   // when to send the next, on the monotonic clock
}

type phase uint8

const (
	holding phase = iota
	closing       // its release began: it is renewed until that has ended
	over          // it is renewed no more
)

// begin returns the core of a lease that was asked for at sent and granted
// with the token at now, or an error that says why the answer is useless.
func begin(cfg Config, now, sent attempt.Instant, token lease.Token) (core, error) {
	c := core{token: token, limits: attempt.Limits{Margin: cfg.Margin}}
	c.margin = orElse(cfg.Margin, attempt.DefaultMargin(token.TTL))
	c.every = min(orElse(cfg.RenewEvery, token.TTL/3), max(token.TTL-c.margin, 0)/2)
	var err error
	c.trust, err = c.limits.Trust(now, sent, token)
	c.next = c.nextBeat(now, sent)
	return c, err
}

// A plan is what a core wants done now.
type plan struct {
	renew time.Duration // send a renewal that takes no longer; 0 is none
	wake  time.Duration // ask again after that time
	over  bool          // no more: the lease is lost, or its release has ended
}

func (c *core) plan(now attempt.Instant) plan {
	left := c.left(now)
	if c.phase == over {
		return plan{over: true}
	}
	p := plan{wake: min(left, c.watch())}
	if c.open {
		return p
	}
	if now.Mono < c.next {
		p.wake = min(p.wake, c.next-now.Mono)
		return p
	}
	c.open, c.sent = true, now
	p.renew = min(c.every, max(left/3, c.least()))
	return p
}

// watch is how often the clocks are looked at, four times in a margin, within
// bounds: one that counts sleep wakes nobody.
func (c *core) watch() time.Duration {
	return min(max(c.margin/4, 10*time.Millisecond), 250*time.Millisecond)
}

// left returns the trust that is left, and ends the hold when there is none.
func (c *core) left(now attempt.Instant) time.Duration {
	left := c.trust.Left(now)
	if left == 0 {
		c.lose(attempt.Ended(c.token))
	}
	return left
}

// answered takes in the answer to the renewal under way and returns why it
// was missed, where it was.
func (c *core) answered(now attempt.Instant, answer lease.Token, err error, jitter float64) error {
	c.open = false
	beat, why := attempt.Renewed(&c.trust, c.limits, now, c.sent, c.token, answer, err)
	switch beat {
	case attempt.Kept:
		c.next = c.nextBeat(now, c.sent)
		return nil
	case attempt.Missed:
		c.next = now.Mono + c.retry(now, jitter)
		return why
	default:
		c.lose(why)
		return nil
	}
}

// nextBeat returns when to renew after an answer: in time for another try,
// also where the lease ends sooner than it would by its TTL.
func (c *core) nextBeat(now, sent attempt.Instant) time.Duration {
	due := min(sent.Mono+c.every, now.Mono+c.trust.Left(now)/2)
	return max(due, now.Mono+c.least())
}

// retry returns how long to wait after a missed renewal: several tries fit in
// the trust that is left. Jitter spreads the holders of one broker.
func (c *core) retry(now attempt.Instant, jitter float64) time.Duration {
	d := max(min(c.every, c.trust.Left(now)/4), c.least())
	return d - time.Duration(jitter*float64(d/2))
}

// least is the shortest time between two renewals.
func (c *core) least() time.Duration { return c.every/8 + time.Millisecond }

// close says that the release begins: the answers to renewals that it makes
// fail are no loss any more.
func (c *core) close() { c.phase = max(c.phase, closing) }

// lose ends the hold because of why.
func (c *core) lose(why error) {
	if c.phase == holding {
		c.lost = lostError(c.token, why)
	}
	c.phase = over
}

// stop ends the renewals.
func (c *core) stop() { c.phase = over }
