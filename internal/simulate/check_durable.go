package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// says takes in that an answer leaves the broker: from now on what it rests
// on has to be in the store (I3).
func (c *checker) says(o *opening, a machine.Answer) {
	if !o.decided {
		c.w.fail("I3", "an answer to %s was given that was never decided", o.c.name)
		return
	}
	c.said = max(c.said, o.rests)
	if a.Err == nil && a.Token.LeaseID != "" {
		c.promised(a.Token, o.at, o.start)
		c.granted[key{caller: o.c.about.caller, id: a.Token.RequestID}] = a.Token.LeaseID
	}
}

// told takes in that the next events are told.
func (c *checker) told(n int) {
	for range n {
		if len(c.events) == 0 {
			c.w.fail("I3", "an event was told that never happened")
			return
		}
		c.said = max(c.said, c.events[0])
		c.events = c.events[1:]
	}
}

// loaded compares what a new process finds in the store with what the old one
// had decided: it must be the state after one of its steps, no earlier than
// what was said (I3). After a restore it may be anything.
func (c *checker) loaded(restored bool) {
	found, ledger, err := readBooks(c.w.disk.store)
	if err != nil {
		c.w.fail("books", "the store cannot be read: %v", err)
		return
	}
	if !restored {
		c.compare(found)
	}
	c.books, c.queue = found, newModel()
	c.events, c.said, c.whole = nil, 0, false
	for _, p := range found.live {
		switch p.State {
		case lease.Waiting:
			c.queue.add(p)
		case lease.Held:
			// What was decided and is not durable never was.
			if pr := c.promises[p.Lease.ID]; pr != nil {
				pr.beat, pr.beatStart = 0, max(pr.saidStart, min(pr.beatStart, p.Lease.Start))
			}
		}
	}
	c.start = ledger.Start
}

func (c *checker) compare(found *books) {
	at := -1
	for i := len(c.books.digests) - 1; i >= 0; i-- {
		if c.books.digests[i] == found.digest() {
			at = i
			break
		}
	}
	switch {
	case at < 0:
		c.w.fail("I3", "the store holds a state that no step had left")
	case at < c.said:
		c.w.fail("I3", "the store holds the state after change %d of %d, but what was said rests on change %d", at, len(c.books.digests)-1, c.said)
	}
}

// orderly compares the state with the store after a clean stop: nothing may
// be missing.
func (c *checker) orderly() {
	found, _, err := readBooks(c.w.disk.store)
	switch {
	case err != nil:
		c.w.fail("books", "the store cannot be read: %v", err)
	case found.digest() != c.books.digest():
		c.w.fail("books", "after a clean stop the store does not hold the state")
	}
}

// started takes in a new start of the broker.
func (c *checker) started(now time.Duration, r machine.Restart) {
	c.start++
	c.began[c.start] = now
	for n := range c.began {
		if n > c.start {
			delete(c.began, n)
		}
	}
	c.queue.restart(now)
	for _, cl := range c.closed {
		cl.restarts++
	}
}

// restored takes in that all since a backup is forgotten: what was said of
// leases is void, and slots stay back for long enough.
func (c *checker) restored() {
	for _, p := range c.promises {
		p.forgotten = true
	}
	for _, k := range c.w.truth.all {
		k.lost = true
	}
	for _, j := range c.w.jobs {
		j.restored = true
	}
	for _, o := range c.w.clients {
		if o.job != nil {
			o.job.restored = true
		}
	}
	clear(c.closed)
	clear(c.granted)
	c.began = map[uint64]time.Duration{}
}

// checkClock checks a look at the clock: it adds at most a second (I5).
func (c *checker) checkClock(was, now time.Duration) {
	if now < was || now > was+time.Second {
		c.w.fail("I5", "broker time went from %v to %v in one look", was, now)
	}
}

// checkCommitted checks, while no commit is under way, that broker time is
// committed at least once a second while anything lives (I5).
func (c *checker) checkCommitted(now, sealed time.Duration) {
	if len(c.books.live) > 0 && now > sealed+time.Second {
		c.w.fail("I5", "broker time %v is not committed, the last commit has %v", now, sealed)
	}
}

// isTold reports whether somebody outside may know of the request's lease.
func (c *checker) isTold(p *page) bool {
	_, told := c.granted[p.key]
	return told || p.changed <= c.said
}
