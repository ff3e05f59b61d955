package hold

import (
	"time"

	"github.com/berth-dev/berth/lease/attempt"
)

// A Clock tells the time on the two clocks that trust in a lease is counted
// on. It must be safe for use by several goroutines.
type Clock interface {
	Now() attempt.Instant
}

// A systemClock counts from its start on Go's monotonic clock, which stands
// still while the machine sleeps, and on one that does not.
type systemClock struct {
	start time.Time
	boot  time.Duration
}

func newSystemClock() systemClock {
	start := time.Now()
	return systemClock{start: start, boot: sinceBoot(start)}
}

func (c systemClock) Now() attempt.Instant {
	now := time.Now()
	return attempt.Instant{Mono: now.Sub(c.start), Boot: sinceBoot(now) - c.boot}
}
