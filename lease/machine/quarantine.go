package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// quarantineDue is when time frees units of an ended lease, or calls them
// stuck.
func (e *entry) quarantineDue() time.Duration {
	at := never
	for i := range e.Lease.Parts {
		at = min(at, e.freesAt(i), e.stuckAt(i))
	}
	return at
}

// freesAt is when time alone frees a part, or never.
func (e *entry) freesAt(i int) time.Duration {
	p := &e.Lease.Parts[i]
	if p.State != lease.PartQuarantined || p.Terms.Clean || p.Terms.Handover.Proofs != 0 {
		return never
	}
	return e.Lease.Promised + p.Terms.Handover.Delay()
}

// stuckAt is when a part is called stuck, or never.
func (e *entry) stuckAt(i int) time.Duration {
	p := &e.Lease.Parts[i]
	if p.State != lease.PartQuarantined || e.stuck&(1<<i) != 0 || !p.Terms.Clean && p.Terms.Handover.Proofs == 0 {
		return never
	}
	return p.Since + p.Terms.Handover.Max
}

// isStuck reports whether a part's quarantine is past its bound.
func (e *entry) isStuck(i int, now time.Duration) bool {
	p := &e.Lease.Parts[i]
	bounded := p.Terms.Clean || p.Terms.Handover.Proofs != 0
	return p.State == lease.PartQuarantined && bounded && now >= p.Since+p.Terms.Handover.Max
}

// ringQuarantine frees what is due and tells what is stuck.
func (m *Machine) ringQuarantine(e *entry) {
	for i := range e.Lease.Parts {
		if m.now >= e.freesAt(i) {
			m.freeProved(e, i, "handover")
		}
		if m.now >= e.stuckAt(i) {
			e.stuck |= 1 << i
			p := e.Lease.Parts[i]
			m.tell(EventStuck, e, Event{Pool: p.Pool, Slot: p.Slot})
		}
	}
	m.settleParts(e)
}

// freeProved frees units whose quarantine has ended, and says why.
func (m *Machine) freeProved(e *entry, i int, why string) {
	p := e.Lease.Parts[i]
	m.freePart(e, i)
	m.save(e)
	m.tell(EventFreed, e, Event{Pool: p.Pool, Slot: p.Slot, Why: why})
}

// stopped takes in that the work of an ended lease has surely stopped: its
// units are free, or may be cleaned.
func (m *Machine) stopped(e *entry, why string) {
	if e.Lease.Cleans != nil {
		m.cleanerStopped(e)
		return
	}
	if !e.lingers() {
		return
	}
	for i := range e.Lease.Parts {
		m.stoppedPart(e, i, why)
	}
	m.settleParts(e)
}

// stoppedPart reports whether that changed anything for one part. Once a
// cleaner has had the units, only what is known of that cleaner counts.
func (m *Machine) stoppedPart(e *entry, i int, why string) bool {
	p := &e.Lease.Parts[i]
	switch {
	case p.State != lease.PartQuarantined || p.Cleaner != 0:
		return false
	case !p.Terms.Clean:
		m.freeProved(e, i, why)
	case p.Cleanable > m.now:
		p.Cleanable = m.now
		m.save(e)
	}
	return true
}

// prove takes in a proof that a pool may or may not accept. In a pool with a
// cleaning step it only lets cleaning begin.
func (m *Machine) prove(e *entry, i int, proof lease.Proofs) bool {
	t := e.Lease.Parts[i].Terms
	if t.Handover.Proofs != 0 && t.Handover.Proofs&proof == 0 {
		return false
	}
	return m.stoppedPart(e, i, proof.String())
}

// rebooted reports whether the holder's machine has booted anew since the
// grant, by the word of its agent then and now.
func (e *entry) rebooted(m *Machine) bool {
	l := e.Lease
	h := m.hosts[l.Holder.Machine]
	return h != nil && l.HostBoot != "" && l.HostBoot == l.Holder.Boot && h.Boot != l.HostBoot
}
