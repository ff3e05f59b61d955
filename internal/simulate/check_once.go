package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// checkOnce checks that a request has one lease, one end, and none of either
// after its client heard of an error (I4, I5, I9).
func (c *checker) checkOnce(now time.Duration, was, is *page) {
	if was != nil && was.State == lease.Ended && (is.State != lease.Ended || is.End != was.End) {
		c.w.fail("I5", "%s had ended as %s and is now %s %s", c.ref(is), was.End, is.State, is.End)
	}
	if was != nil && was.Lease != nil && (is.Lease == nil || is.Lease.ID != was.Lease.ID) {
		c.w.fail("I4", "%s had lease %s before", c.ref(is), was.Lease.ID.Ref())
	}
	if was == nil && is.State != lease.Ended && c.books.marked(is.key) {
		c.w.fail("I4", "%s is %s, though its session had finished with it", c.ref(is), is.State)
	}
	if cl := c.closed[is.key]; cl != nil && cl.code != lease.CodeOutcomeUnknown && is.State != lease.Ended {
		c.w.fail("I9", "%s is %s, though its acquire had ended with %s", c.ref(is), is.State, cl.code)
	}
	if is.Lease != nil && (was == nil || was.Lease == nil) {
		if id, ok := c.granted[is.key]; ok && id != is.Lease.ID {
			c.w.fail("I4", "%s was granted again: it had lease %s", c.ref(is), id.Ref())
		}
	}
}

// retention is how long an ended request has to be remembered.
const retention = 10 * time.Minute

// dropped checks that a request was remembered for long enough (I4), and
// forgets it too.
func (c *checker) dropped(now time.Duration, p *page) {
	if p == nil {
		return
	}
	marked := c.books.marked(p.key)
	if p.State == lease.Ended && !marked && c.w.plan.machine.Retained == 0 && now < p.Ended+retention {
		c.w.fail("I4", "%s was forgotten at %v, %v after its end", c.ref(p), now, now-p.Ended)
	}
	if p.State != lease.Ended || p.Settled == 0 {
		c.w.fail("I4", "%s was forgotten while it was %s", c.ref(p), p.State)
	}
	if !marked {
		delete(c.granted, p.key)
	}
}

// acquireFailed notes that an acquire ended with an error at its client: from
// now on nothing may be held or queued under the id (I9).
func (c *checker) acquireFailed(j *job, err error) {
	if j.restored {
		return // it may be about what the restore made void
	}
	code := lease.CodeOf(err)
	c.closed[j.key] = &closing{code: code, at: c.w.server.engine.Now()}
	p := c.books.byKey[j.key]
	if p != nil && p.State != lease.Ended && code != lease.CodeOutcomeUnknown {
		c.w.fail("I9", "%s is %s, though its acquire has just ended with %s", c.ref(p), p.State, code)
	}
}

// checkLeft checks how long what nobody asks for, and what an unknown outcome
// left behind, may stay.
func (c *checker) checkLeft(now time.Duration, p *page) {
	switch {
	case p.State == lease.Waiting:
		if last := c.queue.lastCall(p.Number); now > max(last, c.began[c.start])+65*time.Second {
			c.w.fail("I9", "%s waits at %v, though its last call ended at %v", c.ref(p), now, last)
		}
	case p.State == lease.Held && c.closed[p.key] != nil:
		pr := c.promises[p.Lease.ID]
		if pr == nil || pr.forgotten {
			return
		}
		most := max(pr.granted, pr.beat) + pr.ttl
		if began, ok := c.began[pr.beatStart+1]; ok {
			most = max(most, began+pr.ttl)
		}
		if now > most {
			c.w.fail("I9", "%s is held at %v, granted at %v for %v", c.ref(p), now, pr.granted, pr.ttl)
		}
	}
}

// checkLedger checks the totals against the books (I5).
func (c *checker) checkLedger() {
	l := c.w.server.engine.Ledger()
	held := uint64(0)
	for _, p := range c.books.live {
		if p.State == lease.Held {
			held++
		}
	}
	if l.Acquired != l.Released+l.Orphaned+l.Revoked+held {
		c.w.fail("I5", "acquired %d is not released %d + orphaned %d + revoked %d + held %d", l.Acquired, l.Released, l.Orphaned, l.Revoked, held)
	}
}

// checkStatus checks what a listing says against the books.
func (c *checker) checkStatus(s *lease.Status) {
	held, queued := uint64(0), 0
	for _, p := range c.books.live {
		switch p.State {
		case lease.Held:
			held++
		case lease.Waiting:
			queued++
		}
	}
	if s.Held != held || s.Queued != queued || s.Slots != len(c.books.inOrder) {
		c.w.fail("books", "a listing shows %d held, %d queued, %d slots; there are %d, %d, %d", s.Held, s.Queued, s.Slots, held, queued, len(c.books.inOrder))
	}
}

// answers notes what the answers of a step will say, and checks those with a
// lease against the books (I4).
func (c *checker) answers(cmd machine.Command, about key, now time.Duration, fx *machine.Effects) {
	for _, a := range fx.Answers {
		if a.Status != nil && len(fx.Changes) == 0 {
			c.checkStatus(a.Status)
		}
		if a.Err == nil && a.Token.LeaseID != "" {
			c.checkToken(a.Token, now)
		}
		o := c.w.server.open[a.Call]
		if o == nil {
			continue
		}
		o.decided, o.at, o.rests = true, now, c.restsOn(cmd, o.c.about, a.After == fx.Step, len(fx.Changes) > 0)
		if p := c.promises[a.Token.LeaseID]; p != nil {
			o.start = p.beatStart
		}
	}
}

// restsOn returns the change up to which all has to be durable before an
// answer: those of the steps before, those of its own step where the machine
// says so, and in any case the last of the request that it is about. A
// renewal rests on that alone.
func (c *checker) restsOn(cmd machine.Command, about key, own, changes bool) int {
	of := 0
	if p := c.books.byKey[about]; p != nil {
		of = p.changed
	}
	switch cmd.(type) {
	case machine.Renew, machine.Progress:
		if p := c.books.byKey[about]; p != nil && p.State == lease.Held {
			return of
		}
	}
	all := len(c.books.digests) - 1
	if changes && !own {
		all--
	}
	return max(all, of)
}

func (c *checker) checkToken(t lease.Token, now time.Duration) {
	p := c.books.byLease[t.LeaseID]
	switch {
	case p == nil || p.State != lease.Held:
		c.w.fail("I4", "an answer hands out lease %s, which is not held", t.LeaseID.Ref())
	case p.key.id != t.RequestID || p.Lease.Fence != t.Fence:
		c.w.fail("I4", "%s is answered with request %s, fence %d", c.ref(p), t.RequestID.Ref(), t.Fence)
	case t.Left > p.Lease.TTL || t.Elapsed < 0:
		c.w.fail("I8", "%s is answered with %v left of %v, elapsed %v", c.ref(p), t.Left, p.Lease.TTL, t.Elapsed)
	}
}
