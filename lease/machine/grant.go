package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// grant ends a waiter with a lease and tells whoever listens.
func (m *Machine) grant(e *entry, picks []pick) {
	w, r := e.wait, e.Request
	m.dequeue(e)
	m.makeLease(e, r, w.lastID, w.shape.pools, picks)
	for _, c := range w.calls {
		m.answer(Answer{Call: c.id, Token: m.token(e, c.arrived)})
	}
	m.reuse(w)
}

// A granting is all that a lease on one slot needs, in one piece of memory.
type granting struct {
	lease lease.Lease
	held  holding
	part  [1]lease.Part
	slot  [1]*slot
}

// makeLease makes the entry's lease over the picks.
func (m *Machine) makeLease(e *entry, r *lease.Request, id lease.LeaseID, pools []*pool, picks []pick) {
	bound, most := boundOf(pools)
	ttl := r.TTL
	if ttl == 0 {
		ttl = defaultTTL(pools)
	}
	g := &granting{lease: lease.Lease{ID: id, TTL: min(ttl, bound), Granted: m.now, Holder: r.Holder, Note: r.Note}}
	if hold := least(r.MaxHold, most); hold > 0 {
		g.lease.HoldUntil = m.now + hold
	}
	g.lease.Parts, e.slots = g.part[:0], g.slot[:0]
	for _, k := range picks {
		g.lease.Parts = append(g.lease.Parts, lease.Part{Pool: k.slot.Pool, Slot: k.slot.ID, Units: k.units, Terms: k.slot.pool.terms, State: lease.PartHeld})
		e.slots = append(e.slots, k.slot)
		k.slot.occupy(e, k.units)
	}
	m.hold(e, &g.lease, &g.held)
}

// hold makes the entry hold a lease whose units are its already.
func (m *Machine) hold(e *entry, l *lease.Lease, h *holding) {
	m.ledger.Fence++
	m.ledger.Acquired++
	l.Fence, l.Start = m.ledger.Fence, m.ledger.Start
	if host := m.hosts[l.Holder.Machine]; host != nil {
		l.HostBoot = host.Boot
	}
	e.State, e.Lease, e.Request = lease.Held, l, nil
	m.leases[l.ID] = e
	e.held = h
	e.held.progress = m.now
	e.extend(m.now)
	m.alarms.live++
	m.save(e)
	m.wake(e)
	m.tell(EventGranted, e, Event{Pool: l.Parts[0].Pool, Slot: l.Parts[0].Slot})
}

func defaultTTL(pools []*pool) time.Duration {
	ttl := pools[0].Settings.TTL
	for _, p := range pools[1:] {
		ttl = min(ttl, p.Settings.TTL)
	}
	return ttl
}

// token returns what a client may know of its lease at this moment.
func (m *Machine) token(e *entry, arrived time.Duration) lease.Token {
	l := e.Lease
	t := lease.Token{
		RequestID: e.ID, LeaseID: l.ID, Fence: l.Fence, TTL: l.TTL,
		Left: max(0, e.held.expires-m.now), Elapsed: m.now - arrived,
		Slots: make([]lease.GrantedSlot, len(l.Parts)),
	}
	for i, p := range l.Parts {
		s := e.slots[i]
		t.Slots[i] = lease.GrantedSlot{Pool: p.Pool, ID: p.Slot, Units: p.Units, Whole: s.whole(p.Units), Labels: s.Labels, Handover: p.Terms.Handover}
	}
	return t
}
