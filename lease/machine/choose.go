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
		if p.head != nil && p.head != w {
			aside = m.setAside(p, p.head)
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
	v.fit.Ascend(spot{slotKey{c.Units, -1}, nil}, func(at spot) bool {
		if at.end() {
			return false
		}
		if at.free-unitsOn(aside, at.slot) >= c.Units {
			picks = append(picks, pick{at.slot, c.Units})
			left--
		}
		return left > 0
	})
	return picks
}

// setAside returns what is kept for the pool's first waiter: the units of its
// claim on the matching slots with the most spare units. A slot that is too
// small for the claim does not match it. The result is valid until the next
// call.
func (m *Machine) setAside(p *pool, first *entry) []pick {
	sh := first.wait.shape
	i := sh.place(p)
	c := sh.claims[i]
	m.aside = m.aside[:0]
	sh.views[i].most.Scan(func(at spot) bool {
		if at.end() {
			return false
		}
		if at.slot.Capacity >= c.Units {
			m.aside = append(m.aside, pick{at.slot, min(c.Units, at.free)})
		}
		return len(m.aside) < c.Count
	})
	return m.aside
}

func unitsOn(picks []pick, s *slot) int64 {
	for _, p := range picks {
		if p.slot == s {
			return p.units
		}
	}
	return 0
}
