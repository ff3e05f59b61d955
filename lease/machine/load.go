package machine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/lease"
)

// Load makes a machine of a store's records: pointers to lease.Ledger, Start,
// Pool, Slot, Session, Host and Entry, in any order, which it keeps. The
// first command must be [Restart].
func Load(cfg Config, records []any) (*Machine, error) {
	m := &Machine{
		cfg: cfg.withDefaults(), hosts: map[string]*lease.Host{}, sessions: map[sessionKey]*session{},
		requests: make(map[requestKey]*entry, len(records)), leases: make(map[lease.LeaseID]*entry, len(records)),
	}
	l := loader{m: m}
	for _, pass := range []func(any) error{l.pools, l.slots, l.entries} {
		for _, r := range records {
			if err := pass(r); err != nil {
				return nil, err
			}
		}
	}
	// Broker time begins at 1, so that 0 can mean "not".
	m.now = max(1, m.ledger.Now)
	return m, l.tie()
}

// A loader builds the machine in passes: what is referred to comes first.
type loader struct {
	m     *Machine
	held  uint64
	ended []*entry
}

func (l *loader) pools(record any) error {
	switch r := record.(type) {
	case *lease.Ledger:
		l.m.ledger = *r
	case *lease.Start:
		l.m.starts = append(l.m.starts, r)
	case *lease.Pool:
		l.m.pools.Set(r.Name, newPool(*r))
	case *lease.Host:
		l.m.hosts[r.Machine] = r
	case *lease.Session:
		l.m.sessions[sessionKey{r.Caller, r.ID}] = &session{Session: *r}
	case *lease.Slot, *lease.Entry:
	default:
		return lease.Errorf(lease.CodeStoreCorrupt, "cannot load the store: it holds a record of an unknown kind %T", record)
	}
	return nil
}

func (l *loader) slots(record any) error {
	r, ok := record.(*lease.Slot)
	if !ok {
		return nil
	}
	p, ok := l.m.pools.Get(r.Pool)
	if !ok {
		return corrupt("slot %s/%s has no pool", r.Pool, r.ID)
	}
	s := &slot{Slot: *r, pool: p, freed: r.Freed}
	p.slots.Set(r.ID, s)
	if s.SettleUntil != 0 {
		l.m.alarms.live++
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return lease.Errorf(lease.CodeStoreCorrupt, "cannot load the store: %s; restore a backup", fmt.Sprintf(format, args...))
}

func (l *loader) entries(record any) error {
	r, ok := record.(*lease.Entry)
	if !ok {
		return nil
	}
	m := l.m
	e := &entry{Entry: *r}
	e.clock.order = e.Number
	m.requests[requestKey{e.Caller, e.ID}] = e
	m.joinSession(e)
	if e.Lease != nil {
		m.leases[e.Lease.ID] = e
	}
	switch {
	case e.State == lease.Waiting && e.Request != nil:
		l.waiter(e)
		return nil
	case e.State == lease.Held && e.Lease != nil:
		e.held = &holding{}
		l.held++
		m.alarms.live++
		return l.parts(e)
	case e.State == lease.Ended && e.Settled == 0 && e.Lease != nil:
		m.quarantine.Set(e.Number, e)
		m.alarms.live++
		return l.parts(e)
	case e.State == lease.Ended:
		l.ended = append(l.ended, e)
		return nil
	}
	return corrupt("request %s is %s without what belongs to that", e.ID.Ref(), e.State)
}

// waiter puts the entry into its queues. One that claims a pool which is not
// there holds nothing: it ends, and need not keep the broker from starting.
func (l *loader) waiter(e *entry) {
	pools := make([]*pool, len(e.Request.Claims))
	for i, c := range e.Request.Claims {
		p, ok := l.m.pools.Get(c.Pool)
		if !ok {
			l.m.work.jobs = append(l.m.work.jobs, func() { l.m.endRequest(e, lease.EndUnsatisfiable) })
			return
		}
		pools[i] = p
	}
	l.m.enqueue(e, e.Request, l.m.shapeOf(e.Request.Claims, pools))
}

// parts puts the entry's units on their slots.
func (l *loader) parts(e *entry) error {
	e.slots = make([]*slot, len(e.Lease.Parts))
	for i, part := range e.Lease.Parts {
		s := l.m.slotOf(part)
		if s == nil && part.State == lease.PartFree {
			continue
		}
		if s == nil {
			return corrupt("lease %s has units on slot %s/%s, which is not there", e.Lease.ID.Ref(), part.Pool, part.Slot)
		}
		if part.Units < 1 {
			return corrupt("lease %s has %d units on slot %s/%s", e.Lease.ID.Ref(), part.Units, part.Pool, part.Slot)
		}
		e.slots[i] = s
		if part.State != lease.PartFree {
			s.guests = append(s.guests, e)
		}
		if part.State == lease.PartHeld || part.State == lease.PartQuarantined {
			s.used += part.Units
		}
	}
	return nil
}

func (m *Machine) slotOf(part lease.Part) *slot {
	p, ok := m.pools.Get(part.Pool)
	if !ok {
		return nil
	}
	s, _ := p.slots.Get(part.Slot)
	return s
}

// tie finishes what needs all entries at once. A lease whose record is lost
// is missing in the sum: its units are not handed on as if they were free.
func (l *loader) tie() error {
	m := l.m
	if counted := heldLeases(m.ledger); counted != l.held {
		return corrupt("%d leases are held by its records and %d by its totals", l.held, counted)
	}
	slices.SortFunc(m.starts, func(a, b *lease.Start) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.ended, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Settled, b.Settled), cmp.Compare(a.Number, b.Number))
	})
	for _, e := range l.ended {
		m.settled.push(e)
		m.retained++
		if e.session != nil {
			e.session.live--
			e.session.ended.Set(e.serial, e)
		}
		l.freed(e)
	}
	m.quarantine.Scan(func(_ uint64, e *entry) bool {
		l.freed(e)
		return true
	})
	for _, e := range m.requests {
		l.cleaner(e)
	}
	m.pools.Scan(func(_ string, p *pool) bool {
		p.slots.Scan(func(_ string, s *slot) bool {
			p.readmit(s, func() {})
			return true
		})
		return true
	})
	return nil
}

// freed tells the slots when they were last given back.
func (l *loader) freed(e *entry) {
	if e.Lease == nil || e.Lease.Cleans != nil {
		return
	}
	for i, part := range e.Lease.Parts {
		if s := l.m.slotOf(part); s != nil && part.State == lease.PartFree && part.Freed >= s.freed {
			s.freed, s.last = part.Freed, e
			if e.slots == nil {
				e.slots = make([]*slot, len(e.Lease.Parts))
			}
			e.slots[i] = s
		}
	}
}

func (l *loader) cleaner(e *entry) {
	if e.Lease == nil || e.Lease.Cleans == nil {
		return
	}
	if of, i := l.m.cleaned(e); of != nil {
		of.setCleaner(i, e)
	}
}
