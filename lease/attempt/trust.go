package attempt

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// An Instant is one moment on the two clocks of a holder: Mono stands still
// while the machine sleeps, Boot goes on. Both count from an origin of the
// shell's choice and never go back.
type Instant struct {
	Mono, Boot time.Duration
}

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Mono: i.Mono + d, Boot: i.Boot + d}
}

// Until returns how long it is from i to end, on whichever clock says less.
func (i Instant) Until(end Instant) time.Duration {
	return min(end.Mono-i.Mono, end.Boot-i.Boot)
}

// DefaultMargin returns the margin of a lease with that TTL: a fifth of it.
func DefaultMargin(ttl time.Duration) time.Duration { return ttl / 5 }

// A Trust is until when a holder may act on a lease (I8): the latest end that
// any answer gave, on whichever of the two clocks comes there first. Once it
// has ended no answer revives it. The zero Trust has ended.
type Trust struct {
	end  Instant
	held bool
}

// Trust returns the trust that the answer t to an acquire gives, which was sent
// at sent and answered at now. An answer that leaves less than a quarter of
// the margin comes too late to do anything with: it is refused with
// [lease.CodeLeaseLost], and has to be given back.
func (l Limits) Trust(now, sent Instant, t lease.Token) (Trust, error) {
	margin := l.margin(t.TTL)
	trust := Trust{end: trustEnd(now, sent, t, margin), held: true}
	if left := trust.Left(now); left == 0 || left < margin/4 {
		return Trust{}, lease.Errorf(lease.CodeLeaseLost, "cannot use lease %s: the answer came too late to trust it (ttl %v, left %v, margin %v); it is given back, ask again with a new request", t.LeaseID, t.TTL, t.Left, margin)
	}
	return trust, nil
}

// Left returns how much trust is left at now, 0 once it has ended. It
// remembers the end: a clock that jumps back does not undo it.
func (t *Trust) Left(now Instant) time.Duration {
	left := now.Until(t.end)
	if !t.held || left <= 0 {
		t.held = false
		return 0
	}
	return left
}

// Extend takes one more answer into account and reports whether there is
// trust at now. It never shortens the trust.
func (t *Trust) Extend(now, sent Instant, answer lease.Token, margin time.Duration) bool {
	left := t.Left(now)
	if left == 0 {
		return false
	}
	if end := trustEnd(now, sent, answer, margin); now.Until(end) > left {
		t.end = end
	}
	return true
}

// trustEnd returns sent + elapsed + left − margin. The broker cannot have
// worked on the call for longer than the call took, so elapsed counts for no
// more than that, and left for no more than any lease lasts.
func trustEnd(now, sent Instant, t lease.Token, margin time.Duration) Instant {
	elapsed := min(t.Elapsed, max(now.Mono-sent.Mono, 0))
	return sent.Add(elapsed + min(t.Left, lease.LongestTTL) - margin)
}
