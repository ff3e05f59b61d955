package machine

import (
	"slices"
)

// work is what steps have left to do, in the order in which it is done.
type work struct {
	// applies are the applies under way; only the first is being worked on.
	applies []*applying
	// jobs are small changes, each of a few records.
	jobs []func()
	// doomed are shapes to be judged: can the pools ever satisfy them?
	doomed []*shape
	// dirty are the pools in which somebody may have become grantable.
	dirty []*pool
	// fresh are waiters whose newest call waits for the decision.
	fresh []*entry
	// late says that alarms are due for which there was no room.
	late bool
}

// idle reports whether nothing is left that could change who is granted what.
func (w *work) idle() bool { return len(w.jobs) == 0 && len(w.doomed) == 0 && len(w.dirty) == 0 }

// touchPool has the pool decided anew.
func (m *Machine) touchPool(p *pool) {
	if len(p.shapes) > 0 && !slices.Contains(m.work.dirty, p) {
		m.work.dirty = append(m.work.dirty, p)
	}
}

// carryOn does left work as far as there is room. What one kind of work
// leaves for another, as a request that does not wait for those behind it, is
// done in the next pass.
func (m *Machine) carryOn() {
	done := m.pass()
	for done && !m.work.idle() {
		done = m.pass()
	}
	done = done && m.forget()
	m.fx.More = !done || m.work.late
}

func (m *Machine) pass() bool {
	return m.doJobs() && m.doApplies() && m.judge() && m.decide() && m.answerFresh()
}

// doJobs runs the small changes.
func (m *Machine) doJobs() bool {
	for len(m.work.jobs) > 0 {
		if !m.room() {
			return false
		}
		job := m.work.jobs[0]
		m.work.jobs = m.work.jobs[1:]
		job()
	}
	m.work.jobs = nil
	return true
}

// judge ends the waiters whose claims the pools can no longer satisfy.
func (m *Machine) judge() bool {
	for len(m.work.doomed) > 0 {
		sh := m.work.doomed[0]
		if !sh.satisfiable() && !m.endShape(sh) {
			return false
		}
		m.work.doomed = m.work.doomed[1:]
	}
	return true
}

// decide grants what can be granted, in rank order, by the rules of
// invariant I7, until nobody more can be. Reservations are decided anew.
func (m *Machine) decide() bool {
	for len(m.work.dirty) > 0 {
		pools := m.component(m.work.dirty)
		for _, p := range pools {
			m.liftReservations(p)
		}
		if !m.decideIn(pools) {
			m.work.dirty = append(m.work.dirty[:0], pools...)
			return false
		}
		m.work.dirty = m.work.dirty[:0]
	}
	return true
}

// component returns the pools and all that shapes tie to them. The result is
// valid until the next call.
func (m *Machine) component(from []*pool) []*pool {
	pools := append(m.tied[:0], from...)
	for i := 0; i < len(pools); i++ {
		for _, sh := range pools[i].shapes {
			if len(sh.pools) == 1 {
				continue
			}
			for _, p := range sh.pools {
				if !slices.Contains(pools, p) {
					pools = append(pools, p)
				}
			}
		}
	}
	m.tied = pools
	return pools
}

func (m *Machine) liftReservations(p *pool) {
	for e := p.reserved.first(); e != nil; e = p.reserved.first() {
		m.unreserve(e)
		m.include(e)
	}
}

// decideIn grants or reserves for one waiter after the other and reports
// whether it came to the end.
func (m *Machine) decideIn(pools []*pool) bool {
	defer dismiss(pools)
	for {
		m.lineUp(pools)
		e, picks := m.nextGrant()
		if e == nil {
			return true
		}
		if !m.room() {
			return false
		}
		if e.called() {
			m.grant(e, picks)
		} else {
			m.reserve(e, picks)
		}
	}
}

// lineUp sorts the first waiters of all shapes by rank, and tells each pool
// which waiter is its first.
func (m *Machine) lineUp(pools []*pool) {
	dismiss(pools)
	heads := m.heads[:0]
	for _, p := range pools {
		for _, sh := range p.shapes {
			if e := sh.queue.first(); e != nil && sh.pools[0] == p {
				heads = append(heads, e.wait.ranked(e))
			}
		}
	}
	slices.SortFunc(heads, ranked.compare)
	for _, h := range heads {
		for _, p := range h.e.wait.shape.pools {
			if p.head == nil {
				p.head = h.e
			}
		}
	}
	m.heads = heads
}

func dismiss(pools []*pool) {
	for _, p := range pools {
		p.head = nil
	}
}

// nextGrant returns the waiter of earliest rank that can be granted.
func (m *Machine) nextGrant() (*entry, []pick) {
	for _, h := range m.heads {
		if picks := m.choose(h.e, h.e.wait.shape); picks != nil {
			return h.e, picks
		}
	}
	return nil, nil
}
