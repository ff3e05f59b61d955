package attempt

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// Limits bound an attempt. A zero field means its default.
type Limits struct {
	// Poll is how long the shell lets the broker hold one acquire call; 0
	// means [lease.MaxPoll].
	Poll time.Duration
	// Reply is how long an answer may take beyond that before the call counts
	// as lost; 0 means 3 s.
	Reply time.Duration
	// Slack is how much longer than the request's own wait an acquire goes
	// on; 0 means 10 s. The broker counts the wait: this ends only what no
	// broker answers.
	Slack time.Duration
	// Cancel is how long a cancel is repeated; 0 means 10 s.
	Cancel time.Duration
	// GiveBack is how long a release or abandon is repeated; 0 means 10 s, a
	// negative value for ever.
	GiveBack time.Duration
	// Margin is what trust ends before the lease does; 0 means
	// [DefaultMargin] of the lease's TTL.
	Margin time.Duration
	// Duplicates says that the link may deliver one call twice, so that even
	// an answered one may still be under way.
	Duplicates bool
}

func (l Limits) withDefaults() Limits {
	l.Poll = orElse(l.Poll, lease.MaxPoll)
	l.Reply = orElse(l.Reply, 3*time.Second)
	l.Slack = orElse(l.Slack, 10*time.Second)
	l.Cancel = orElse(l.Cancel, 10*time.Second)
	l.GiveBack = orElse(l.GiveBack, 10*time.Second)
	return l
}

func (l Limits) margin(ttl time.Duration) time.Duration {
	return orElse(l.Margin, DefaultMargin(ttl))
}

func orElse(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}

// firstPause is the wait before the first repeat, and the least between two.
const firstPause = 50 * time.Millisecond

// pause returns how long to wait after that many failed tries in a row, from
// [firstPause], doubled each time, up to 2 s: the upper half of it is left to
// chance.
func pause(failed int, jitter float64) time.Duration {
	d := min(firstPause<<min(failed-1, 6), 2*time.Second)
	return d/2 + time.Duration(jitter*float64(d/2))
}
