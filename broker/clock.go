package broker

import "time"

// MaxLeap is the most that one observation adds to broker time: a longer
// silence is time in which nobody was served, and does not count.
const MaxLeap = time.Second

// A Clock makes broker time of a clock that may stop and jump. It never goes
// back and never catches up.
type Clock struct {
	now  time.Duration
	seen time.Duration
}

// NewClock goes on from a moment of broker time, at a reading of the clock
// underneath.
func NewClock(now, reading time.Duration) Clock { return Clock{now: now, seen: reading} }

// Observe returns broker time at a reading.
func (c *Clock) Observe(reading time.Duration) time.Duration {
	c.now += min(max(reading-c.seen, 0), MaxLeap)
	c.seen = reading
	return c.now
}
