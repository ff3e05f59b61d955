package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// isGranted notes a new lease and checks its fence (I2).
func (c *checker) isGranted(now time.Duration, p *page) {
	if p.Lease.Fence <= c.fenceBefore {
		c.w.fail("I2", "%s got fence %d after fence %d", c.ref(p), p.Lease.Fence, c.fenceBefore)
	}
	c.fence = max(c.fence, p.Lease.Fence)
	c.grants = append(c.grants, p)
	c.promises[p.Lease.ID] = &promise{beat: now, beatStart: c.start, ttl: p.Lease.TTL, granted: now}
}

// checkGrants checks exclusion (I1) after the step: on each slot on which
// something was granted, what is held, quarantined or really still worked on
// does not exceed the capacity.
func (c *checker) checkGrants(now time.Duration) {
	for _, p := range c.grants {
		if p.Lease.Cleans != nil {
			continue
		}
		for _, part := range p.Lease.Parts {
			c.checkRoom(p, place{part.Pool, part.Slot})
		}
	}
}

func (c *checker) checkRoom(p *page, at place) {
	s := c.books.shelves[at]
	if s == nil {
		c.w.fail("I1", "%s was granted slot %v, which is not there", c.ref(p), at)
		return
	}
	capacity := max(s.Capacity, c.reshelf[at])
	c.caps[p.Lease.ID] = append(c.caps[p.Lease.ID], capacity)
	if s.used > capacity {
		c.w.fail("I1", "%s was granted slot %v: %d units of %d are held or quarantined", c.ref(p), at, s.used, capacity)
	}
	ghosts := int64(0)
	names := ""
	for _, k := range c.w.truth.on(at) {
		if c.onBooks(k, at) || k.frozen() && k.honest || k.lost && !k.honest {
			continue
		}
		i := placeOf(k, at)
		ghosts += k.units[i]
		names += " " + string(k.lease.Ref())
	}
	if ghosts > 0 && s.used+ghosts > capacity {
		c.w.fail("I1", "%s was granted slot %v of %d units while the work of%s still runs there", c.ref(p), at, capacity, names)
	}
}

func placeOf(k *work, at place) int {
	for i, p := range k.places {
		if p == at {
			return i
		}
	}
	return 0
}

// onBooks reports whether the broker counts the units under which the work
// runs as taken.
func (c *checker) onBooks(k *work, at place) bool {
	p := c.books.byLease[k.lease]
	if p == nil || p.Lease == nil {
		return false
	}
	if of := p.Lease.Cleans; of != nil {
		p = c.books.pages[of.Number]
		if p == nil || p.Lease == nil || p.Lease.Parts[of.Part].State == lease.PartFree {
			return false
		}
		return true
	}
	for _, part := range p.Lease.Parts {
		if part.Pool == at.pool && part.Slot == at.slot {
			return part.State != lease.PartFree
		}
	}
	return false
}

// begins checks, when work really begins on a slot, what else really runs.
func (c *checker) begins(k *work, i int) {
	at := k.places[i]
	s := c.books.shelves[at]
	if s == nil || c.w.cfg.Fault == ReleaseEarly {
		return
	}
	running, capacity := k.units[i], capacityOf(k, i)
	for _, o := range c.w.truth.on(at) {
		if o.frozen() || o.lost {
			continue
		}
		n := placeOf(o, at)
		switch {
		case k.cleans == "" && o.cleans == "":
			running, capacity = running+o.units[n], max(capacity, capacityOf(o, n))
		case k.cleans != "" && o.lease == k.cleans && !o.honest:
			// What the cleaner is there to end.
		case k.cleans != "" && o.cleans == k.cleans:
			c.w.fail("I1", "cleaner %s begins on %v while cleaner %s still works", k.lease.Ref(), at, o.lease.Ref())
		case k.cleans != "" && o.lease == k.cleans:
			c.w.fail("I1", "cleaner %s begins on %v while the work of %s still runs", k.lease.Ref(), at, o.lease.Ref())
		}
	}
	if running > capacity {
		c.w.fail("I1", "work of %s begins on %v: %d units are really in use, of %d", k.lease.Ref(), at, running, capacity)
	}
}

// capacityOf is what the slot had when the work's lease was granted.
func capacityOf(k *work, i int) int64 {
	if i < len(k.caps) {
		return k.caps[i]
	}
	return 1 << 40
}
