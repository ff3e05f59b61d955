package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// Restart begins a broker's serving. Fence is unix time in microseconds. With
// Settle, after a restore, no unit is granted before every lease that the
// records may not show has surely ended.
type Restart struct {
	Fence  uint64
	Settle bool
}

func (c Restart) run(m *Machine) {
	m.ledger.Start++
	m.ledger.Fence = max(m.ledger.Fence+1, lease.Fence(c.Fence))
	began := &lease.Start{Number: m.ledger.Start, Began: m.now, Settle: c.Settle}
	m.starts = append(m.starts, began)
	m.put(began)
	m.tellPlace(EventStarted, "", "", "", "")
	m.resumePools()
	for _, e := range m.entriesInOrder() {
		m.resume(e)
	}
	m.pruneStarts()
	for _, s := range m.sessionsInOrder() {
		s.idle = m.now
		m.finish(s)
		m.wake(s)
	}
}

// resumePools takes up what the process before may have left undone. Slots
// settle since the last start that followed a restore, and until their records
// say so that is begun again.
func (m *Machine) resumePools() {
	settle := m.lastSettle()
	keep := settle != nil && !settle.Kept
	if settle != nil {
		m.settleFrom = settle.Began
	}
	m.pools.Scan(func(_ string, p *pool) bool {
		m.resumePool(p, keep)
		return true
	})
	if keep {
		m.work.jobs = append(m.work.jobs, func() {
			settle.Kept = true
			m.put(settle)
		})
	}
}

// resumePool takes up a pool: slots to drop, waiters to judge after an apply,
// slots that settle.
func (m *Machine) resumePool(p *pool, keep bool) {
	p.slots.Scan(func(_ string, s *slot) bool {
		if keep {
			m.keepBack(s)
			m.work.jobs = append(m.work.jobs, func() { m.put(&s.Slot) })
		}
		m.dropIdle(s)
		m.wake(s)
		return true
	})
	m.work.jobs = append(m.work.jobs, func() { m.dropEmpty(p) })
	m.doom(p)
	m.touchPool(p)
}

// resume gives a live lease one full TTL, unless an earlier start gave it one
// and it has not renewed since; a waiter is present for a while.
func (m *Machine) resume(e *entry) {
	switch {
	case e.wait != nil:
		e.wait.grace = m.now + AskWithin
		m.attend(e)
	case e.held != nil:
		e.held.progress, e.held.extended = m.now, true
		e.extend(m.began(e.Lease.Start + 1))
	}
	m.wake(e)
}

// began is when a start began; one that is not recorded counts as now, which
// can only be too late.
func (m *Machine) began(start uint64) time.Duration {
	for _, s := range m.starts {
		if s.Number == start {
			return s.Began
		}
	}
	return m.now
}

// lastSettle is the last start that followed a restore, or nil.
func (m *Machine) lastSettle() *lease.Start {
	for _, s := range slices.Backward(m.starts) {
		if s.Settle {
			return s
		}
	}
	return nil
}

// pruneStarts drops the records of starts that no live lease and no settling
// slot needs.
func (m *Machine) pruneStarts() {
	oldest, settle := m.ledger.Start, m.lastSettle()
	for _, e := range m.leases {
		if e.held != nil {
			oldest = min(oldest, e.Lease.Start+1)
		}
	}
	m.starts = slices.DeleteFunc(m.starts, func(s *lease.Start) bool {
		if s.Number >= oldest || s == settle {
			return false
		}
		m.work.jobs = append(m.work.jobs, func() { m.del(s) })
		return true
	})
}

func (m *Machine) entriesInOrder() []*entry {
	all := make([]*entry, 0, len(m.requests))
	for _, e := range m.requests {
		if e.Settled == 0 {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

func (m *Machine) sessionsInOrder() []*session {
	all := make([]*session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.ID, b.ID))
	})
	return all
}
