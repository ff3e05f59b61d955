package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// forget drops the ended requests that were remembered for long enough, or
// that are too many.
func (m *Machine) forget() bool {
	for m.settled.len() > 0 {
		e := m.settled.first()
		if !m.outlived(e) {
			return true
		}
		if !m.room() {
			return false
		}
		m.settled.pop()
		m.forgetEntry(e)
	}
	return true
}

func (m *Machine) outlived(e *entry) bool {
	return e.forgotten || m.retained > m.cfg.Retained || e.Settled+m.cfg.Retention <= m.now
}

// forgetEntry drops one. A slot that it used last keeps the time in its own
// record.
func (m *Machine) forgetEntry(e *entry) {
	if e.forgotten {
		return
	}
	e.forgotten = true
	m.retained--
	if e.session != nil {
		e.session.ended.Delete(e.serial)
	}
	delete(m.requests, requestKey{e.Caller, e.ID})
	if e.Lease != nil {
		m.forgetLease(e)
	}
	m.del(&e.Entry)
	e.touched = m.step
}

func (m *Machine) forgetLease(e *entry) {
	delete(m.leases, e.Lease.ID)
	if e.Lease.Cleans == nil {
		m.keepFreed(e)
	} else if of, i := m.cleaned(e); of != nil {
		delete(of.cleaners, i)
	}
}

func (m *Machine) keepFreed(e *entry) {
	for _, s := range e.slots {
		if s != nil && s.last == e {
			s.last = nil
			s.Freed = s.freed
			m.put(&s.Slot)
		}
	}
}

// retainedFor is for how long the oldest ended request has been remembered.
func (m *Machine) retainedFor() time.Duration {
	if m.settled.len() == 0 {
		return 0
	}
	return m.now - m.settled.first().Settled
}

// heldLeases counts the leases that are live now.
func heldLeases(l lease.Ledger) uint64 {
	return l.Acquired - l.Released - l.Orphaned - l.Revoked
}
