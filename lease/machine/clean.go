package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// Clean takes quarantined units over under a lease of the cleaner's own. Its
// release means that the slot is clean; any other end returns the units.
type Clean struct {
	Call   uint64
	Caller lease.Caller
	ID     lease.RequestID
	Digest lease.Digest
	// Pool, Slot and Lease name the units and the lease that had them last.
	Pool, Slot string
	Lease      lease.Ref
	// TTL is the cleaner's; 0 is the pool's default.
	TTL       time.Duration
	Holder    lease.Holder
	Note      string
	LeaseID   lease.LeaseID
	StoreFull bool
}

func (c Clean) run(m *Machine) {
	if e := m.requests[requestKey{c.Caller, c.ID}]; e != nil {
		m.repeat(e, &Acquire{Call: c.Call, Caller: c.Caller, Digest: c.Digest})
		return
	}
	if c.StoreFull {
		m.refuse(c.Call, lease.CodeStoreFull, "cannot clean slot %s/%s: the broker's store is nearly full; free space on its disk and ask again", c.Pool, c.Slot)
		return
	}
	of, i := m.partOn(c.Call, c.Pool, c.Slot, c.Lease)
	if of == nil || !m.cleanerTTL(c, of.slots[i].pool) {
		return
	}
	if why := m.uncleanable(of, i); why != "" {
		m.refuse(c.Call, lease.CodeNotCleanable, "cannot clean slot %s/%s after lease %s: %s", c.Pool, c.Slot, c.Lease, why)
		return
	}
	m.takeOver(of, i, c)
}

// uncleanable says why cleaning may not begin, or "".
func (m *Machine) uncleanable(of *entry, i int) string {
	p := &of.Lease.Parts[i]
	switch {
	case !p.Terms.Clean && p.Terms.Handover.Proofs&lease.ProofCleaned == 0:
		return "its pool does not take cleaning as a proof"
	case p.State != lease.PartQuarantined:
		return "its units are " + p.State.String()
	case m.now < p.Cleanable:
		return "the work before may still run for " + (p.Cleanable - m.now).String()
	}
	return ""
}

// cleanerTTL refuses a cleaner's ttl that is outside the pool's bounds.
func (m *Machine) cleanerTTL(c Clean, p *pool) bool {
	if c.TTL == 0 || c.TTL >= lease.MinTTL && c.TTL <= p.Settings.MaxTTL {
		return true
	}
	m.refuse(c.Call, lease.CodeTTLOutOfRange, "cannot clean slot %s/%s: ttl: give %v to %v, not %v", c.Pool, c.Slot, lease.MinTTL, p.Settings.MaxTTL, c.TTL)
	return false
}

// takeOver gives quarantined units to a cleaner.
func (m *Machine) takeOver(of *entry, i int, c Clean) {
	p, s := &of.Lease.Parts[i], of.slots[i]
	e := m.newEntry(c.Caller, c.ID, c.Digest)
	p.State, p.Cleaner = lease.PartCleaning, e.Number
	of.setCleaner(i, e)
	m.save(of)
	ttl := c.TTL
	if ttl == 0 {
		ttl = s.pool.Settings.TTL
	}
	s.guests = append(s.guests, e)
	g := &granting{slot: [1]*slot{s}, lease: lease.Lease{
		ID: c.LeaseID, TTL: ttl, Granted: m.now, Holder: c.Holder, Note: c.Note,
		Cleans: &lease.CleanOf{Number: of.Number, Part: i},
	}}
	g.part[0] = lease.Part{Pool: p.Pool, Slot: p.Slot, Units: p.Units, Terms: cleanerTerms(p.Terms), State: lease.PartHeld}
	g.lease.Parts, e.slots = g.part[:], g.slot[:]
	m.hold(e, &g.lease, &g.held)
	m.tell(EventCleaning, of, Event{Pool: p.Pool, Slot: p.Slot})
	m.answer(Answer{Call: c.Call, Token: m.token(e, m.now)})
}

// cleanerTerms are the terms without what only holders' leases know.
func cleanerTerms(t *lease.Terms) *lease.Terms {
	return &lease.Terms{Handover: t.Handover, Clean: t.Clean}
}

func (e *entry) setCleaner(i int, cleaner *entry) {
	if e.cleaners == nil {
		e.cleaners = map[int]*entry{}
	}
	e.cleaners[i] = cleaner
}

// withCleaners returns the entry after the last cleaners of its parts: what is
// known of it counts again once they have stopped.
func (e *entry) withCleaners() []*entry {
	return append(slices.SortedFunc(maps.Values(e.cleaners), byNumber), e)
}

// endCleaning frees the units if the cleaner released them, else returns them
// to their quarantine. The next cleaner may not begin while this one may
// still work.
func (m *Machine) endCleaning(e *entry) {
	own := &e.Lease.Parts[0]
	own.State, own.Freed = lease.PartFree, m.now
	e.slots[0].leave(e)
	e.slots = nil
	m.settle(e)
	of, i := m.cleaned(e)
	p := &of.Lease.Parts[i]
	p.State = lease.PartQuarantined
	m.save(of)
	if e.End == lease.EndReleased {
		m.freeProved(of, i, lease.ProofCleaned.String())
		m.settleParts(of)
		return
	}
	p.Cleanable = e.Lease.Promised + delay(p.Terms)
	m.settleParts(of)
	if e.rebooted(m) {
		m.cleanerStopped(e)
	}
}

// cleaned returns the entry and part that a cleaner took over, or nil where
// they have gone on.
func (m *Machine) cleaned(e *entry) (*entry, int) {
	of, ok := m.quarantine.Get(e.Lease.Cleans.Number)
	if !ok || of.Lease.Parts[e.Lease.Cleans.Part].Cleaner != e.Number {
		return nil, 0
	}
	return of, e.Lease.Cleans.Part
}

// cleanerStopped takes in that an ended cleaner has surely stopped: the next
// may begin, and what is known of the holder before it counts again.
func (m *Machine) cleanerStopped(e *entry) {
	of, i := m.cleaned(e)
	if of == nil || of.Lease.Parts[i].State != lease.PartQuarantined {
		return
	}
	p := &of.Lease.Parts[i]
	p.Cleaner, p.Cleanable = 0, min(p.Cleanable, m.now)
	delete(of.cleaners, i)
	m.save(of)
	if of.rebooted(m) {
		m.prove(of, i, lease.ProofBoot)
	}
	m.settleParts(of)
}
