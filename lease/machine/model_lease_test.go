package machine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// byID finds the caller's lease or refuses the call.
func (m *model) byID(call uint64, id lease.LeaseID) *ask {
	for _, a := range m.asks {
		if a.held != nil && a.held.id == id {
			return a
		}
	}
	m.refuse(call, lease.CodeLeaseUnknown)
	return nil
}

func (m *model) renew(c Renew) {
	a := m.byID(c.Call, c.Lease)
	switch {
	case a == nil:
	case !a.held.live:
		m.refuse(c.Call, a.ended)
	default:
		m.extend(a.held)
		a.held.renewed, a.held.heardFrom = true, true
		m.say(c.Call, "%s", m.token(a, m.now))
	}
}

func (m *model) progress(c Progress) {
	a := m.byID(c.Call, c.Lease)
	switch {
	case a == nil:
	case !a.held.live:
		m.refuse(c.Call, a.ended)
	default:
		a.held.progress = m.now
		m.say(c.Call, "done")
	}
}

func (m *model) release(c Release) {
	a := m.byID(c.Call, c.Lease)
	switch {
	case a == nil:
		return
	case a.held.live:
		m.endLease(a, lease.CodeLeaseReleased)
	case a.ended != lease.CodeLeaseReleased:
		m.stopped(a)
		m.refuse(c.Call, a.ended)
		return
	}
	m.say(c.Call, "done")
}

func (m *model) abandon(c Abandon) {
	a := m.byID(c.Call, c.Lease)
	switch {
	case a == nil:
		return
	case a.held.live:
		m.endLease(a, lease.CodeLeaseAbandoned)
	case a.ended != lease.CodeLeaseAbandoned:
		m.refuse(c.Call, a.ended)
		return
	}
	m.say(c.Call, "done")
}

// endLease ends a live lease; what was not released waits.
func (m *model) endLease(a *ask, code lease.Code) {
	l := a.held
	l.live, a.ended = false, code
	if l.cleans != nil {
		m.endCleaning(a)
		return
	}
	for _, p := range l.parts {
		p.state, p.since = lease.PartQuarantined, m.now
		p.cleanable = l.expires + wait(p.terms)
		if code == lease.CodeLeaseReleased {
			p.cleanable = m.now
			if !p.terms.Clean {
				m.giveBack(p)
				continue
			}
		}
		if m.booted(l) {
			m.proved(p, lease.ProofBoot)
		}
	}
	m.settled(a)
}

// wait is how long after the promised end work may go on, as far as time
// tells.
func wait(t lease.Terms) time.Duration {
	if t.Handover.Proofs != 0 {
		return 0
	}
	return max(t.Handover.After, 0)
}

func (m *model) giveBack(p *modelPart) {
	p.state, p.slot.freed = lease.PartFree, m.now
	m.changed[p.slot.pool] = true
}

// settled notes that the last unit of a lease is free.
func (m *model) settled(a *ask) {
	busy := slices.ContainsFunc(a.held.parts, func(p *modelPart) bool { return p.state != lease.PartFree })
	if !busy && a.settled == 0 {
		a.settled = m.now
	}
}

// stopped takes in that the holder's work has surely stopped.
func (m *model) stopped(a *ask) bool {
	if a.held.cleans != nil {
		m.cleanerStopped(a)
		return true
	}
	any := false
	for _, p := range a.held.parts {
		any = m.stoppedPart(p) || any
	}
	m.settled(a)
	return any
}

func (m *model) stoppedPart(p *modelPart) bool {
	if p.state != lease.PartQuarantined || p.cleaner != nil {
		return false
	}
	if p.terms.Clean {
		p.cleanable = min(p.cleanable, m.now)
	} else {
		m.giveBack(p)
	}
	return true
}

// proved is the same by a proof that the pool may not take.
func (m *model) proved(p *modelPart, proof lease.Proofs) bool {
	list := p.terms.Handover.Proofs
	return (list == 0 || list&proof != 0) && m.stoppedPart(p)
}

// booted reports whether the holder's machine has booted since the grant.
func (m *model) booted(l *modelLease) bool {
	now, known := m.boots[l.holder.Machine]
	return known && l.boot != "" && l.boot == l.holder.Boot && now != l.boot
}

// endCleaning: released means clean, any other end returns the units.
func (m *model) endCleaning(a *ask) {
	p := a.held.cleans
	a.held.parts[0].state, a.settled = lease.PartFree, m.now
	p.state = lease.PartQuarantined
	if a.ended == lease.CodeLeaseReleased {
		m.giveBack(p)
		m.settled(p.of)
		return
	}
	p.cleanable = a.held.expires + wait(p.terms)
	if m.booted(a.held) {
		m.cleanerStopped(a)
	}
}

// cleanerStopped takes in that a cleaner which ended otherwise has stopped.
func (m *model) cleanerStopped(a *ask) {
	p := a.held.cleans
	if p.cleaner != a || p.state != lease.PartQuarantined {
		return
	}
	p.cleaner, p.cleanable = nil, min(p.cleanable, m.now)
	if m.booted(p.of.held) {
		m.proved(p, lease.ProofBoot)
	}
	m.settled(p.of)
}

func (m *model) clean(c Clean) {
	if a := m.find(c.ID); a != nil {
		m.acquire(Acquire{Call: c.Call, Request: lease.Request{ID: c.ID}, Digest: c.Digest})
		return
	}
	p := m.partOn(c.Call, c.Pool, c.Slot, c.Lease)
	if p == nil {
		return
	}
	if !p.terms.Clean && p.terms.Handover.Proofs&lease.ProofCleaned == 0 || p.state != lease.PartQuarantined || m.now < p.cleanable {
		m.refuse(c.Call, lease.CodeNotCleanable)
		return
	}
	a := m.newAsk(c.ID, c.Digest)
	l := &modelLease{id: c.LeaseID, ttl: m.pools[c.Pool].settings.TTL, holder: c.Holder, cleans: p}
	l.parts = []*modelPart{{share: p.share, of: a, state: lease.PartHeld, terms: lease.Terms{Handover: p.terms.Handover, Clean: p.terms.Clean}}}
	p.state, p.cleaner = lease.PartCleaning, a
	m.begin(a, l)
	m.say(c.Call, "%s", m.token(a, m.now))
}

// partOn finds what a lease has on a slot or refuses the call.
func (m *model) partOn(call uint64, pool, slot string, ref lease.Ref) *modelPart {
	s := m.slot(call, pool, slot)
	if s == nil {
		return nil
	}
	code := lease.CodeNotQuarantined
	for _, a := range m.asks {
		if a.held == nil {
			continue
		}
		for _, p := range a.held.parts {
			if p.slot != s || p.state == lease.PartFree {
				continue
			}
			if a.held.id.Ref() == ref {
				return p
			}
			code = lease.CodeLeaseStands
		}
	}
	m.refuse(call, code)
	return nil
}

func (m *model) slot(call uint64, pool, slot string) *modelSlot {
	if m.pools[pool] == nil {
		m.refuse(call, lease.CodePoolUnknown)
		return nil
	}
	for _, s := range m.slots {
		if s.pool == pool && s.id == slot {
			return s
		}
	}
	m.refuse(call, lease.CodeSlotUnknown)
	return nil
}
