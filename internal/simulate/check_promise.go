package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A promise is what is known of a lease's time, from outside.
type promise struct {
	ttl     time.Duration
	granted time.Duration
	// said is the latest end by any answer that was given out in the start
	// saidIn; saidStart is the start that had given the lease that time. Broker
	// time goes on from its last commit, so that ends said before a restart
	// are moments of another count: what counts then is the restart's own.
	said              time.Duration
	saidIn, saidStart uint64
	// beat is the last decision that gave the lease its time, beatStart the
	// start that made it.
	beat      time.Duration
	beatStart uint64
	// final is least at the lease's end: later restarts change nothing.
	final time.Duration
	// forgotten says that a restore made what was said void.
	forgotten bool
}

// least is the earliest moment at which the lease may expire, by what was
// said and by the restart that follows.
func (c *checker) least(p *promise, l *lease.Lease) time.Duration {
	if p.forgotten {
		return 0
	}
	at := time.Duration(0)
	if p.saidIn == c.start {
		at = p.said
	}
	if began, ok := c.began[p.saidStart+1]; ok && p.saidStart > 0 {
		at = max(at, began+p.ttl)
	}
	if l.HoldUntil > 0 {
		at = min(at, l.HoldUntil)
	}
	return at
}

// most is the moment at which a lease that was not renewed since has surely
// expired.
func (c *checker) most(p *promise) time.Duration {
	at := p.beat + p.ttl
	if began, ok := c.began[p.beatStart+1]; ok {
		at = max(at, began+p.ttl)
	}
	return at
}

// ended checks the end of a lease: no promise is broken by it (I5, I6), and
// an honest holder has stopped trusting before it expires (I8).
func (c *checker) ended(now time.Duration, p *page) {
	pr := c.promises[p.Lease.ID]
	if pr == nil {
		return
	}
	least := c.least(pr, p.Lease)
	pr.final = least
	if p.End == lease.EndExpired && now < least {
		c.w.fail("I5", "%s expired at %v, promised until %v", c.ref(p), now, least)
	}
	if p.Lease.Promised < least {
		c.w.fail("I6", "%s ended with its promised end at %v, but %v was promised", c.ref(p), p.Lease.Promised, least)
	}
	if j := c.w.jobs[p.Lease.ID]; p.End == lease.EndExpired && j != nil && j.alive() && j.phase == holding && !j.lostIt && !j.restored {
		if left := j.trustLeft(); left > 0 {
			c.w.fail("I8", "%s expired while its holder trusts it for %v more", c.ref(p), left)
		}
	}
}

// parts checks each slot of a lease whose units became free (I6).
func (c *checker) parts(cmd machine.Command, now time.Duration, was, is *page) {
	for i := range is.Lease.Parts {
		a, b := was.Lease.Parts[i], is.Lease.Parts[i]
		if b.State != lease.PartFree || a.State == lease.PartFree {
			continue
		}
		if is.Lease.Cleans == nil {
			c.freed(cmd, now, is, i)
		}
		if s := c.books.shelves[place{b.Pool, b.Slot}]; s != nil && is.Lease.Cleans == nil {
			s.freed = now
		}
	}
}

// freed checks why units became free.
func (c *checker) freed(cmd machine.Command, now time.Duration, p *page, i int) {
	part := p.Lease.Parts[i]
	at := place{part.Pool, part.Slot}
	if p.End == lease.EndReleased && !part.Terms.Clean {
		return
	}
	switch cmd := cmd.(type) {
	case machine.Clear:
		return
	case machine.Release:
		cleaner := c.books.byLease[cmd.Lease]
		if cmd.Lease == p.Lease.ID && !part.Terms.Clean || cleaner != nil && cleaner.Lease.Cleans != nil && cleaner.Lease.Cleans.Number == p.Number {
			return
		}
	case machine.ProveTree:
		if cmd.Lease == p.Lease.ID.Ref() && !part.Terms.Clean && accepts(part.Terms, lease.ProofTree) {
			return
		}
	case machine.ProveBoot:
		if c.rebooted(p) && !part.Terms.Clean && accepts(part.Terms, lease.ProofBoot) {
			return
		}
	}
	pr := c.promises[p.Lease.ID]
	if c.rebooted(p) && !part.Terms.Clean && accepts(part.Terms, lease.ProofBoot) {
		return
	}
	if part.Terms.Clean || part.Terms.Handover.Proofs != 0 {
		c.w.fail("I6", "%s: slot %v became free by %T, which proves nothing", c.ref(p), at, cmd)
		return
	}
	if pr == nil {
		return
	}
	if due := pr.final + part.Terms.Handover.Delay(); now < due {
		c.w.fail("I6", "%s: slot %v became free at %v by %T, due at %v", c.ref(p), at, now, cmd, due)
	}
}

func accepts(t *lease.Terms, proof lease.Proofs) bool {
	return t.Handover.Proofs == 0 || t.Handover.Proofs&proof != 0
}

// rebooted reports whether the agent's word is that the holder's machine has
// booted anew.
func (c *checker) rebooted(p *page) bool {
	l := p.Lease
	return l.HostBoot != "" && l.HostBoot == l.Holder.Boot && c.books.hosts[l.Holder.Machine] != l.HostBoot
}

// renewing notes the decisions that give a lease its time anew.
func (c *checker) renewing(cmd machine.Command, now time.Duration, fx *machine.Effects) {
	r, ok := cmd.(machine.Renew)
	if !ok || c.deaf || len(fx.Answers) == 0 || fx.Answers[0].Err != nil {
		return
	}
	if p := c.promises[r.Lease]; p != nil {
		p.beat, p.beatStart = now, c.start
	}
}

// promised notes an answer with a lease that is given out, decided at that
// moment. A repeat prolongs nothing, so start is that of the lease's last beat.
func (c *checker) promised(t lease.Token, at time.Duration, start uint64) {
	p := c.promises[t.LeaseID]
	if p == nil {
		c.w.fail("I4", "an answer tells of lease %s, which was never granted", t.LeaseID.Ref())
		return
	}
	// An answer with nothing left promises nothing.
	if end := at + t.Left; t.Left > 0 && (p.saidIn != c.start || end > p.said) {
		p.said, p.saidIn = end, c.start
	}
	p.saidStart = max(p.saidStart, start)
	if id, ok := c.tokens[t.Fence]; ok && id != t.LeaseID {
		c.w.fail("I2", "leases %s and %s were told with the same fence %d", id.Ref(), t.LeaseID.Ref(), t.Fence)
	}
	c.tokens[t.Fence] = t.LeaseID
}

// checkOverdue checks, when all that time does has been done, that no lease
// outlives its promises (I5) and nothing is left behind (I9).
func (c *checker) checkOverdue(now time.Duration) {
	for _, p := range c.books.live {
		if p.State == lease.Held {
			if pr := c.promises[p.Lease.ID]; pr != nil && !pr.forgotten && now > c.most(pr) {
				c.w.fail("I5", "%s is held at %v, though it was to end at %v", c.ref(p), now, c.most(pr))
			}
		}
		c.checkLeft(now, p)
	}
}
