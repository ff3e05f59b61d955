package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// Show reads the state. Like every answer it is true only once the changes
// before it are durable.
type Show struct {
	Call uint64
	// Brief leaves the pools out.
	Brief bool
}

func (c Show) run(m *Machine) {
	s := m.status(c.Brief)
	m.answer(Answer{Call: c.Call, Status: s})
}

func (m *Machine) status(brief bool) *lease.Status {
	l := m.ledger
	s := &lease.Status{
		Now: m.now, Acquired: l.Acquired, Released: l.Released, Orphaned: l.Orphaned, Revoked: l.Revoked,
		Held: heldLeases(l), Retained: m.retained, RetainedFor: m.retainedFor(),
		Boots: map[string]string{},
	}
	for machine, h := range m.hosts {
		s.Boots[machine] = h.Boot
	}
	m.pools.Scan(func(_ string, p *pool) bool {
		m.countPool(p, s)
		if !brief {
			s.Pools = append(s.Pools, m.poolStatus(p))
		}
		return true
	})
	return s
}

// countPool adds a pool to the sums. A waiter on several pools counts in the
// first of them.
func (m *Machine) countPool(p *pool, sum *lease.Status) {
	for _, sh := range p.shapes {
		if sh.pools[0] == p {
			sum.Queued += len(sh.waiters)
		}
	}
	p.slots.Scan(func(_ string, s *slot) bool {
		sum.Slots++
		if s.open() && !p.closed() && s.used == 0 {
			sum.Free++
		}
		quarantined, stuck := s.waits(m.now)
		if quarantined {
			sum.Quarantined++
		}
		if stuck {
			sum.Stuck++
		}
		return true
	})
}

// waits reports whether units of the slot are in quarantine, and past its
// bound.
func (s *slot) waits(now time.Duration) (quarantined, stuck bool) {
	for _, e := range s.guests {
		for i, own := range e.slots {
			if own == s && e.Lease.Parts[i].State == lease.PartQuarantined {
				quarantined = true
				stuck = stuck || e.isStuck(i, now)
			}
		}
	}
	return quarantined, stuck
}

func (m *Machine) poolStatus(p *pool) lease.PoolStatus {
	ps := lease.PoolStatus{Name: p.Name, Source: p.Source, Settings: p.Settings, Drained: p.Drained, Removing: p.Removing, Queued: p.queued.len()}
	p.slots.Scan(func(_ string, s *slot) bool {
		ps.Slots = append(ps.Slots, m.slotStatus(s, &ps))
		return true
	})
	p.queued.each(func(e *entry) bool {
		ps.LongestWait = max(ps.LongestWait, m.now-e.Arrived)
		ps.Waiters = append(ps.Waiters, m.waiterStatus(e))
		return true
	})
	return ps
}

// slotStatus describes a slot and adds it to its pool's sums.
func (m *Machine) slotStatus(s *slot, ps *lease.PoolStatus) lease.SlotStatus {
	st := lease.SlotStatus{ID: s.ID, State: s.state(), Labels: s.Labels, Source: s.Source, Capacity: s.Capacity, Why: s.Unhealthy}
	ps.Units += s.Capacity
	for _, e := range slices.SortedFunc(slices.Values(s.guests), byNumber) {
		for i, own := range e.slots {
			if own != s {
				continue
			}
			ls := m.leaseStatus(e, i)
			st.Leases = append(st.Leases, ls)
			switch e.Lease.Parts[i].State {
			case lease.PartHeld:
				ps.UnitsHeld += ls.Units
			case lease.PartQuarantined:
				ps.UnitsQuarantined += ls.Units
			}
		}
	}
	return st
}

func byNumber(a, b *entry) int { return cmp.Compare(a.Number, b.Number) }

func (m *Machine) leaseStatus(e *entry, i int) lease.LeaseStatus {
	l, p := e.Lease, &e.Lease.Parts[i]
	st := lease.LeaseStatus{
		Ref: l.ID.Ref(), Fence: l.Fence, Caller: e.Caller, Holder: l.Holder, Note: l.Note, Units: p.Units,
		State: p.State.String(), Since: m.now - l.Granted, Handover: p.Terms.Handover,
	}
	if e.held != nil {
		st.Left = max(0, e.held.expires-m.now)
		st.Progress, st.Doing, st.Stalled = m.now-e.held.progress, e.held.note, e.held.stalled
		return st
	}
	st.End, st.Why, st.Reason, st.Since = e.End.String(), string(e.Code), e.Reason, m.now-p.Since
	if at := e.freesAt(i); at < never {
		st.Left = max(0, at-m.now)
	}
	if e.isStuck(i, m.now) {
		st.State = "stuck"
	}
	return st
}

func (m *Machine) waiterStatus(e *entry) lease.WaiterStatus {
	r := e.Request
	st := lease.WaiterStatus{
		Ref: e.ID.Ref(), Caller: e.Caller, Holder: r.Holder, Note: r.Note, Claims: r.Claims,
		Priority: r.Priority, Waited: m.now - e.Arrived, State: "present",
	}
	switch {
	case e.wait.reserved != nil:
		st.State = "reserved"
	case e.wait.absent < never:
		st.State = "absent"
	}
	return st
}
