package simulate

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/lease"
)

// compareGrants decides anew, over the state before the step's grants, and
// compares. Where work was left over from earlier steps only one thing is
// sure: nobody who listens may be left that could be granted now.
func (c *checker) compareGrants(grants []*page, exact bool) {
	c.lay(grants, exact)
	wanted := c.decide(grants, exact)
	if !exact {
		if len(wanted) > 0 {
			c.w.fail("I7", "request %s (%s) waits, though it could be granted %v", wanted[0].key.id.Ref(), wanted[0].page.Note(), wanted[0].picks)
		}
		return
	}
	got := slices.Clone(grants)
	slices.SortFunc(got, func(a, b *page) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(wanted, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
	for i := range max(len(got), len(wanted)) {
		switch {
		case i >= len(got) || i < len(wanted) && wanted[i].number < got[i].Number:
			c.w.fail("I7", "request %s (%s) was not granted, though it could have been: %v", wanted[i].key.id.Ref(), wanted[i].page.Note(), wanted[i].picks)
			return
		case i >= len(wanted) || got[i].Number < wanted[i].number:
			c.w.fail("I7", "%s was granted, though the rules give it nothing: %v", c.ref(got[i]), choicesOf(got[i]))
			return
		}
		c.compareSlots(got[i], wanted[i])
	}
}

// compareSlots compares which slots were granted. What had been reserved was
// chosen before.
func (c *checker) compareSlots(got *page, wanted *waiter) {
	if wanted.back {
		return
	}
	for _, part := range got.Lease.Parts {
		if !slices.Contains(wanted.picks, choice{place{part.Pool, part.Slot}, part.Units}) {
			c.w.fail("I7", "%s was granted %v, the rules say %v", c.ref(got), choicesOf(got), wanted.picks)
			return
		}
	}
}

func choicesOf(p *page) []choice {
	var all []choice
	for _, part := range p.Lease.Parts {
		all = append(all, choice{place{part.Pool, part.Slot}, part.Units})
	}
	return all
}

// lay sets the units that were free before the step's grants.
func (c *checker) lay(grants []*page, before bool) {
	for _, s := range c.books.inOrder {
		s.free, s.aside = 0, 0
		if s.open() {
			s.free = s.Capacity - s.used
		}
	}
	if !before {
		return
	}
	for _, p := range grants {
		for _, part := range p.Lease.Parts {
			if s := c.books.shelves[place{part.Pool, part.Slot}]; s != nil && s.open() {
				s.free += part.Units
			}
		}
	}
}

// decide returns the waiters who listen and are granted, in the order of the
// grants; what is reserved for others is taken too.
func (c *checker) decide(grants []*page, exact bool) []*waiter {
	for _, s := range c.books.inOrder {
		s.free = max(s.free, 0)
	}
	var granted []*waiter
	for _, w := range c.queue.waiters {
		w.done = !w.present
		isGrant := slices.ContainsFunc(grants, func(p *page) bool { return p.Number == w.number })
		if isGrant {
			w.done = !exact
		}
	}
	for {
		w := c.nextGrant()
		if w == nil {
			return granted
		}
		w.done = true
		for _, k := range w.picks {
			c.books.shelves[k.at].free -= k.units
		}
		isGrant := slices.ContainsFunc(grants, func(p *page) bool { return p.Number == w.number })
		if len(w.calls) > 0 || isGrant {
			granted = append(granted, w)
		}
	}
}

// nextGrant returns the waiter of earliest rank who can be granted.
func (c *checker) nextGrant() *waiter {
	for _, w := range c.queue.waiters {
		if !w.done && c.choose(w) {
			return w
		}
	}
	return nil
}

// choose finds slots for all claims, beside what is set aside for others.
func (c *checker) choose(w *waiter) bool {
	w.picks = w.picks[:0]
	for _, claim := range w.claims {
		pool, ok := c.books.pools[claim.Pool]
		if !ok || pool.Drained || pool.Removing {
			return false
		}
		if !c.pickSlots(w, claim) {
			return false
		}
	}
	return true
}

func (c *checker) pickSlots(w *waiter, claim lease.Claim) bool {
	slots := c.matching(claim)
	for _, s := range c.books.inOrder {
		s.aside = 0
	}
	if first := c.first(claim.Pool); first != nil && first != w {
		c.setAside(first, claim.Pool)
	}
	slices.SortStableFunc(slots, func(a, b *shelf) int {
		return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.freed, b.freed), cmp.Compare(a.ID, b.ID))
	})
	left := claim.Count
	for _, s := range slots {
		if left > 0 && s.free > 0 && s.free-s.aside >= claim.Units {
			w.picks = append(w.picks, choice{s.at, claim.Units})
			left--
		}
	}
	return left == 0
}

// first returns the first present waiter of the pool who has nothing yet.
func (c *checker) first(pool string) *waiter {
	for _, w := range c.queue.waiters {
		if !w.done && slices.ContainsFunc(w.claims, func(cl lease.Claim) bool { return cl.Pool == pool }) {
			return w
		}
	}
	return nil
}

// setAside keeps the units of the first waiter's claim on the matching slots
// with the most free units.
func (c *checker) setAside(first *waiter, pool string) {
	for _, claim := range first.claims {
		if claim.Pool != pool {
			continue
		}
		slots := c.matching(claim)
		slices.SortStableFunc(slots, func(a, b *shelf) int {
			return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.ID, b.ID))
		})
		left := claim.Count
		for _, s := range slots {
			if left > 0 && s.free > 0 && s.Capacity >= claim.Units {
				s.aside = min(claim.Units, s.free)
				left--
			}
		}
	}
}

func (c *checker) matching(claim lease.Claim) []*shelf {
	var slots []*shelf
	for _, s := range c.books.inOrder {
		if s.at.pool == claim.Pool && matches(claim.Select, s.Labels) {
			slots = append(slots, s)
		}
	}
	return slots
}

func matches(sel, labels map[string]string) bool {
	for k, v := range sel {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
