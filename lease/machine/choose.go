package machine

import "github.com/berth-dev/berth/lease"

// A pick is units chosen on a slot.
type pick struct {
	slot  *slot
	units int64
}

// choose returns slots for all claims of a waiter, or nil if there are not
// enough: best fit in units, then longest unused, then id. Where another
// waiter is the pool's first, only what its set-aside leaves may be taken.
// The result is valid until the next call.
func (m *Machine) choose(w *entry, sh *shape) []pick {
	m.picks = m.picks[:0]
	for i, c := range sh.claims {
		p := sh.pools[i]
		if p.closed() {
			return nil
		}
		var aside []pick
		if first := p.first(); first != nil && first != w {
			aside = p.setAside(first)
		}
		before := len(m.picks)
		m.picks = sh.views[i].pick(m.picks, c, aside)
		if len(m.picks)-before < c.Count {
			return nil
		}
	}
	return m.picks
}

// pick appends slots for one claim.
func (v *view) pick(picks []pick, c lease.Claim, aside []pick) []pick {
	left := c.Count
	v.from.key = slotKey{c.Units, -1}
	v.fit.Ascend(&v.from, func(s *slot) bool {
		if s.key.free-unitsOn(aside, s) >= c.Units {
			picks = append(picks, pick{s, c.Units})
			left--
		}
		return left > 0
	})
	return picks
}

// setAside returns what is kept for the pool's first waiter: the units of its
// claim on the matching slots with the most spare units. A slot that is too
// small for the claim does not match it.
func (p *pool) setAside(first *entry) []pick {
	i := first.wait.shape.place(p)
	c := first.wait.shape.claims[i]
	aside := make([]pick, 0, c.Count)
	first.wait.shape.views[i].most.Scan(func(s *slot) bool {
		if s.Capacity >= c.Units {
			aside = append(aside, pick{s, min(c.Units, s.key.free)})
		}
		return len(aside) < c.Count
	})
	return aside
}

func unitsOn(picks []pick, s *slot) int64 {
	for _, p := range picks {
		if p.slot == s {
			return p.units
		}
	}
	return 0
}
