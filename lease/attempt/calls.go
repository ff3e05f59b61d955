package attempt

import (
	"errors"
	"time"
)

var errNoAnswer = errors.New("no answer came")

// calls are the calls of one attempt: one after the other, with pauses that
// grow while they fail.
type calls struct {
	try    int           // of the last call
	open   bool          // it is under way
	due    time.Duration // when it counts as lost, else when to send the next
	failed int           // calls that failed in a row
	last   error         // of the last one, when it failed
}

// restart forgets the calls before: the next is due at now.
func (c *calls) restart(now Instant) {
	c.open, c.failed, c.due, c.last = false, 0, now.Mono, errNoAnswer
}

// overdue reports whether the call under way counts as lost.
func (c *calls) overdue(now Instant) bool { return c.open && now.Mono >= c.due }

// fail ends the call and sets the time of the next.
func (c *calls) fail(e Event, err error) {
	c.open, c.last, c.failed = false, err, c.failed+1
	c.due = e.At.Mono + pause(c.failed, e.Jitter)
}

// next returns the action that is due: to wait, or to send the next call,
// which then has that long.
func (c *calls) next(now Instant, do Do, patience, ends time.Duration) Action {
	if c.open || now.Mono < c.due {
		do = Wait
	} else {
		c.try, c.open, c.due = c.try+1, true, now.Mono+patience
	}
	return Action{Do: do, Try: c.try, Until: min(c.due, ends)}
}
