package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// endLease ends a live lease. Where it was not released, its units wait in
// quarantine.
func (m *Machine) endLease(e *entry, end lease.End) {
	l := e.Lease
	e.State, e.End, e.Ended = lease.Ended, end, m.now
	l.Promised = e.held.expires
	e.held = nil
	m.alarms.live--
	m.count(end)
	m.save(e)
	m.tell(endEvents[end], e, Event{Pool: l.Parts[0].Pool, Slot: l.Parts[0].Slot, Why: string(e.Code), Reason: e.Reason})
	if l.Cleans != nil {
		m.endCleaning(e)
		return
	}
	for i := range l.Parts {
		m.endPart(e, i)
	}
	m.settleParts(e)
}

var endEvents = [...]EventKind{
	lease.EndReleased: EventReleased, lease.EndAbandoned: EventAbandoned,
	lease.EndExpired: EventExpired, lease.EndRevoked: EventRevoked,
}

func (m *Machine) count(end lease.End) {
	switch end {
	case lease.EndExpired:
		m.ledger.Orphaned++
	case lease.EndRevoked:
		m.ledger.Revoked++
	default:
		m.ledger.Released++
	}
}

// endPart frees a released lease's units on one slot, or quarantines them.
func (m *Machine) endPart(e *entry, i int) {
	p := &e.Lease.Parts[i]
	p.Since, p.State = m.now, lease.PartQuarantined
	p.Cleanable = e.Lease.Promised + delay(p.Terms)
	if e.End == lease.EndReleased {
		p.Cleanable = m.now
		if !p.Terms.Clean {
			m.freePart(e, i)
			return
		}
	}
	m.tell(EventQuarantined, e, Event{Pool: p.Pool, Slot: p.Slot})
	if e.rebooted(m) {
		m.prove(e, i, lease.ProofBoot)
	}
}

// delay is how long after the promised end the work may still run, as far as
// time tells.
func delay(t *lease.Terms) time.Duration {
	if t.Handover.Proofs != 0 {
		return 0
	}
	return t.Handover.Delay()
}

// freePart gives units back to their slot.
func (m *Machine) freePart(e *entry, i int) {
	p := &e.Lease.Parts[i]
	p.State, p.Freed = lease.PartFree, m.now
	m.vacate(e.slots[i], e, p.Units)
}

// settleParts settles the entry if no unit of it is left, else has it wait in
// the quarantine.
func (m *Machine) settleParts(e *entry) {
	for _, p := range e.Lease.Parts {
		if p.State != lease.PartFree {
			if _, known := m.quarantine.Set(e.Number, e); !known {
				m.alarms.live++
			}
			m.wake(e)
			return
		}
	}
	if _, known := m.quarantine.Delete(e.Number); known {
		m.alarms.live--
	}
	e.cleaners = nil
	m.settle(e)
}

// settle puts an entry whose last unit is free among those that may be
// forgotten.
func (m *Machine) settle(e *entry) {
	e.Settled = m.now
	m.save(e)
	m.hush(e)
	m.settled.push(e)
	m.retained++
	m.endInSession(e)
}
