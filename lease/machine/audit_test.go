package machine

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// mostChanges is how many changes one step may make on a store that takes 100
// a commit: the ledger is in every commit too.
const mostChanges = 99

// An audit looks at every step from outside: what the machine said, what it
// wrote, and what a new process would make of that. It keeps its own books of
// what was promised, and holds the machine to the invariants by number.
type audit struct {
	fence    lease.Fence
	leaseOf  map[uint64]lease.LeaseID        // by request number (I4)
	promised map[lease.LeaseID]time.Duration // the latest end said so far (I6)
	parts    map[uint64][]lease.PartState    // as they stood after the step before
	granted  map[string]grant                // the last grant of a slot (I1)
	touched  map[uint64]uint64               // the step that last wrote an entry (I3)
	// wrote is the last step that wrote anything, rests the last one that the
	// step's answers rest on: forgetting and work left from before come after
	// them, and a tick changes this and that.
	wrote, rests uint64
	more         bool
}

func newAudit() audit {
	return audit{
		leaseOf: map[uint64]lease.LeaseID{}, promised: map[lease.LeaseID]time.Duration{},
		parts: map[uint64][]lease.PartState{}, granted: map[string]grant{}, touched: map[uint64]uint64{},
	}
}

// restarted takes in that a new process goes on: steps count from 1 again,
// and every lease keeps what it was promised.
func (a *audit) restarted(*Machine) {
	a.touched, a.wrote, a.rests, a.more = map[uint64]uint64{}, 0, 0, false
}

// step checks one step.
func (a *audit) step(w *world, cmd Command, fx *Effects) error {
	a.note(cmd, fx)
	for _, check := range []func() error{
		func() error { return a.size(fx) },
		func() error { return a.answers(w.m, cmd, fx) },
		func() error { return a.leases(w.m, fx) },
		func() error { return a.units(w.m) },
		func() error { return a.counts(w.m) },
		func() error { return a.alarms(w.m) },
		func() error { return a.books(w) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if fx.More {
		return nil
	}
	if err := a.sessions(w.m); err != nil {
		return err
	}
	return a.reload(w)
}

// sessions checks I4's marks: below one nothing waits and nothing is kept.
func (a *audit) sessions(m *Machine) error {
	live := map[*session]int{}
	for _, e := range m.requests {
		if e.session != nil && e.Settled == 0 {
			live[e.session]++
		}
	}
	for _, s := range m.sessions {
		switch {
		case s.below(&s.waiting) != nil || s.below(&s.ended) != nil:
			return fmt.Errorf("I4: session %s has requests below its mark %d", lease.RequestID(s.ID).Ref(), s.Mark)
		case s.live != live[s]:
			return fmt.Errorf("session %s counts %d live requests, there are %d", lease.RequestID(s.ID).Ref(), s.live, live[s])
		}
	}
	return nil
}

// note takes in which step wrote what.
func (a *audit) note(cmd Command, fx *Effects) {
	a.rests = a.wrote
	_, tick := cmd.(Tick)
	forgets := slices.ContainsFunc(fx.Changes, func(c Change) bool { return c.Delete })
	for _, c := range fx.Changes {
		a.wrote = fx.Step
		if !forgets && !tick && !a.more {
			a.rests = fx.Step
		}
		if e, ok := c.Record.(*lease.Entry); ok {
			a.touched[e.Number] = fx.Step
		}
	}
	a.more = fx.More
}

func (a *audit) size(fx *Effects) error {
	if n := len(fx.Changes); n > mostChanges {
		return fmt.Errorf("%d changes in one step", n)
	}
	return nil
}

// answers checks I3: an answer waits for the changes that it rests on.
func (a *audit) answers(m *Machine, cmd Command, fx *Effects) error {
	for _, ans := range fx.Answers {
		needs := a.rests
		switch c := cmd.(type) {
		case Renew:
			needs = a.needs(m, c.Lease, ans)
		case Progress:
			needs = a.needs(m, c.Lease, ans)
		}
		if ans.After < needs {
			return fmt.Errorf("I3: an answer waits for step %d only, but rests on step %d", ans.After, needs)
		}
		if t := ans.Token; t.Left > 0 {
			a.promised[t.LeaseID] = max(a.promised[t.LeaseID], m.now+t.Left)
		}
	}
	return nil
}

// needs is what the answer to a renewal or progress rests on: its lease's own
// changes if it went through, else everything.
func (a *audit) needs(m *Machine, id lease.LeaseID, ans Answer) uint64 {
	if e := m.leases[id]; e != nil && ans.Err == nil {
		return a.touched[e.Number]
	}
	return a.rests
}

// leases checks I2, I4 and I6 on every lease there is.
func (a *audit) leases(m *Machine, fx *Effects) error {
	fence := a.fence
	for _, e := range m.requests {
		if e.Lease == nil {
			continue
		}
		if err := a.identity(e); err != nil {
			return err
		}
		if err := a.handedOn(m, e, fx); err != nil {
			return err
		}
		fence = max(fence, e.Lease.Fence)
	}
	a.fence = fence
	return nil
}

func (a *audit) identity(e *entry) error {
	l := e.Lease
	known, ok := a.leaseOf[e.Number]
	switch {
	case l.ID == "":
		return fmt.Errorf("request %s holds a lease without an id", e.ID.Ref())
	case ok && known != l.ID:
		return fmt.Errorf("I4: request %s had another lease before", e.ID.Ref())
	case !ok && l.Fence <= a.fence:
		return fmt.Errorf("I2: fence %d after %d", l.Fence, a.fence)
	}
	a.leaseOf[e.Number] = l.ID
	return nil
}

// handedOn checks I6 on the units that became free in this step.
func (a *audit) handedOn(m *Machine, e *entry, fx *Effects) error {
	l := e.Lease
	before := a.parts[e.Number]
	now := make([]lease.PartState, len(l.Parts))
	for i, p := range l.Parts {
		now[i] = p.State
		if p.State != lease.PartFree || before == nil || before[i] == lease.PartFree || l.Cleans != nil {
			continue
		}
		if why := a.early(m, e, &l.Parts[i], fx); why != "" {
			return fmt.Errorf("I6: units of request %s on %s are free: %s", e.ID.Ref(), place(p.Pool, p.Slot), why)
		}
	}
	a.parts[e.Number] = now
	if e.State == lease.Ended && l.Promised < a.promised[l.ID] {
		return fmt.Errorf("I6: request %s was promised %v, its end says %v", e.ID.Ref(), a.promised[l.ID], l.Promised)
	}
	return nil
}

// early says why units may not be free yet, or "".
func (a *audit) early(m *Machine, e *entry, p *lease.Part, fx *Effects) string {
	if e.End == lease.EndReleased && !p.Terms.Clean {
		return ""
	}
	i := slices.IndexFunc(fx.Events, func(ev Event) bool {
		return ev.Kind == EventFreed && ev.Lease == e.Lease.ID && ev.Pool == p.Pool && ev.Slot == p.Slot
	})
	switch {
	case i < 0:
		return "nobody was told why"
	case fx.Events[i].Why != "handover":
		return ""
	case p.Terms.Clean || p.Terms.Handover.Proofs != 0:
		return "time alone must not free them"
	case m.now < max(e.Lease.Promised, a.promised[e.Lease.ID])+p.Terms.Handover.Delay():
		return "their handover has not passed since the promised end"
	}
	return ""
}

// A grant is the highest fence that was given on a slot, and the slot's
// capacity then.
type grant struct {
	fence    lease.Fence
	capacity int64
}

// units checks I1, and that slots know what the leases' records say.
func (a *audit) units(m *Machine) error {
	used, reserved := a.usage(m)
	for s := range slotsOf(m) {
		at := place(s.Pool, s.ID)
		switch {
		case s.used != used[at]:
			return fmt.Errorf("slot %s counts %d units in use, its leases %d", at, s.used, used[at])
		case s.reserved != reserved[at]:
			return fmt.Errorf("slot %s counts %d units reserved, its waiters %d", at, s.reserved, reserved[at])
		case s.used > a.granted[at].capacity:
			return fmt.Errorf("I1: %d units in use on slot %s, which had %d when it was last granted", s.used, at, a.granted[at].capacity)
		case m.work.idle() && s.reserved > 0 && s.used+s.reserved > s.Capacity:
			return fmt.Errorf("slot %s has %d units reserved and %d in use of %d", at, s.reserved, s.used, s.Capacity)
		}
	}
	return nil
}

func slotsOf(m *Machine) func(func(*slot) bool) {
	return func(yield func(*slot) bool) {
		m.pools.Scan(func(_ string, p *pool) bool {
			more := true
			p.slots.Scan(func(_ string, s *slot) bool {
				more = yield(s)
				return more
			})
			return more
		})
	}
}

// usage adds up what every slot's leases and waiters have of it, by their
// records, and takes in new grants.
func (a *audit) usage(m *Machine) (used, reserved map[string]int64) {
	used, reserved = map[string]int64{}, map[string]int64{}
	for _, e := range m.requests {
		if e.wait != nil {
			for _, k := range e.wait.reserved {
				reserved[place(k.slot.Pool, k.slot.ID)] += k.units
			}
		}
		if e.Lease == nil {
			continue
		}
		for _, p := range e.Lease.Parts {
			if p.State != lease.PartHeld && p.State != lease.PartQuarantined {
				continue
			}
			at := place(p.Pool, p.Slot)
			used[at] += p.Units
			if s := m.slotOf(p); s != nil && e.Lease.Cleans == nil && e.Lease.Fence > a.granted[at].fence {
				a.granted[at] = grant{e.Lease.Fence, s.Capacity}
			}
		}
	}
	return used, reserved
}

// counts checks I5.
func (a *audit) counts(m *Machine) error {
	held := uint64(0)
	live := 0
	for _, e := range m.requests {
		switch {
		case e.State == lease.Held:
			held++
			live++
		case e.State == lease.Waiting, e.Settled == 0:
			live++
		}
	}
	l := m.ledger
	if l.Acquired != l.Released+l.Orphaned+l.Revoked+held {
		return fmt.Errorf("I5: acquired %d, released %d, orphaned %d, revoked %d, but %d held", l.Acquired, l.Released, l.Orphaned, l.Revoked, held)
	}
	for s := range slotsOf(m) {
		if s.SettleUntil != 0 {
			live++
		}
	}
	if m.alarms.live != live {
		return fmt.Errorf("%d leases, waiters, quarantines and settling slots counted as live, there are %d", m.alarms.live, live)
	}
	return nil
}

// alarms checks that nothing rings later than it is due, and that the alarms
// are in order.
func (a *audit) alarms(m *Machine) error {
	heap := m.alarms.heap
	for i, set := range heap {
		switch {
		case set.s.alarm().pos != i+1:
			return fmt.Errorf("alarm %d has place %d", i+1, set.s.alarm().pos)
		case i > 0 && set.before(heap[(i-1)/4]):
			return fmt.Errorf("alarm %d rings before the one above it", i+1)
		case set.at == never:
			return fmt.Errorf("alarm %d never rings", i+1)
		}
	}
	for _, e := range m.requests {
		due := e.due(m)
		if due < never && (e.clock.pos == 0 || heap[e.clock.pos-1].at > due) {
			return fmt.Errorf("request %s is due at %v and has no alarm by then", e.ID.Ref(), due)
		}
	}
	return nil
}

// books checks that every record in memory is in the store as it is.
func (a *audit) books(w *world) error {
	n := 1 // the ledger
	for _, r := range w.m.recordsInMemory() {
		key, err := record.AppendKey(nil, r)
		if err != nil {
			return err
		}
		value, ok := w.records[string(key)]
		if w.m.fx.More && !w.m.written(r) {
			continue // work that is left will write or delete it
		}
		if !ok {
			return fmt.Errorf("a %T in memory is not in the store: %+v", r, r)
		}
		if !bytes.Equal(value, w.encode(r)) {
			return fmt.Errorf("a %T in memory is not as in the store: %+v", r, r)
		}
		n++
	}
	if !w.m.fx.More && n != len(w.records) {
		return fmt.Errorf("the store has %d records, memory %d", len(w.records), n)
	}
	return nil
}

// written reports whether a record must be in the store even while work is
// left.
func (m *Machine) written(r any) bool {
	_, ok := r.(*lease.Entry)
	return ok
}

// recordsInMemory returns all records but the ledger.
func (m *Machine) recordsInMemory() []any {
	var all []any
	for _, s := range m.starts {
		all = append(all, s)
	}
	m.pools.Scan(func(_ string, p *pool) bool {
		all = append(all, &p.Pool)
		p.slots.Scan(func(_ string, s *slot) bool {
			all = append(all, &s.Slot)
			return true
		})
		return true
	})
	for _, s := range m.sessions {
		all = append(all, &s.Session)
	}
	for _, h := range m.hosts {
		all = append(all, h)
	}
	for _, e := range m.requests {
		all = append(all, &e.Entry)
	}
	return all
}

// reload checks that a new process would know all but what only memory does.
func (a *audit) reload(w *world) error {
	fresh := w.load()
	if got, want := durable(fresh), durable(w.m); got != want {
		return fmt.Errorf("a new process would know something else: %s", firstDifference(got, want))
	}
	got, want := forgetful(fresh.status(false)), forgetful(w.m.status(false))
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("a new process would show\n%+v\nbut the machine shows\n%+v", got, want)
	}
	return nil
}

// forgetful takes out of a status what only memory knows.
func forgetful(s *lease.Status) *lease.Status {
	for _, p := range s.Pools {
		for i := range p.Waiters {
			p.Waiters[i].State = ""
		}
		for _, slot := range p.Slots {
			for i := range slot.Leases {
				l := &slot.Leases[i]
				l.Left, l.Progress, l.Doing, l.Stalled = 0, 0, "", false
			}
		}
	}
	return s
}
