package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/lease"
)

// fair runs a command and holds every grant in it to the two sentences of
// invariant I7, on the machine's own state, whatever the model has decided.
func (p *pairing) fair(cmd Command) said {
	p.t.Helper()
	p.noteClaims(cmd)
	all := p.oneFairStep(cmd)
	for all.more {
		all.add(p.oneFairStep(Tick{}))
	}
	b := p.board()
	for _, a := range b.ranked() {
		if a.kept == nil && b.fits(a) != nil {
			p.t.Fatalf("I7: %T left request %s waiting, which could be granted", cmd, a.id.Ref())
		}
	}
	return all
}

// noteClaims notes what a request claims that the machine does not know yet.
func (p *pairing) noteClaims(cmd Command) {
	if a, ok := cmd.(Acquire); ok && p.world.m.requests[requestKey{a.Caller, a.Request.ID}] == nil {
		p.claims[a.Request.ID] = a.Request
	}
}

func (p *pairing) oneFairStep(cmd Command) said {
	p.t.Helper()
	kept := keptNow(p.world.m)
	d := p.step(cmd)
	if err := p.fairStep(d, kept); err != nil {
		p.t.Fatalf("I7: %T: %v", cmd, err)
	}
	return d
}

// keptNow are the requests that something is reserved for.
func keptNow(m *Machine) map[lease.RequestID]bool {
	kept := map[lease.RequestID]bool{}
	for _, e := range m.requests {
		if e.wait != nil && e.wait.reserved != nil {
			kept[e.ID] = true
		}
	}
	return kept
}

// fairStep takes the step's grants back, the last first, and looks at each in
// the state before it. What was reserved already was looked at in its time.
func (p *pairing) fairStep(d said, kept map[lease.RequestID]bool) error {
	b := p.board()
	for _, ev := range slices.Backward(d.events) {
		if ev.Kind != EventGranted || kept[ev.Request] || b.find(ev.Request).held.cleans != nil {
			continue
		}
		if err := b.fairGrant(b.find(ev.Request)); err != nil {
			return fmt.Errorf("request %s: %w", ev.Request.Ref(), err)
		}
	}
	return nil
}

// fairGrant takes a grant back and checks that it was right.
func (m *model) fairGrant(w *ask) error {
	parts := w.held.parts
	w.held, w.waiting, w.present = nil, true, true
	for _, a := range m.ranked() {
		if a != w && before(w, a) {
			a.kept = nil // decided after it
		}
	}
	for _, a := range m.ranked() {
		if a != w && a.kept == nil && before(a, w) && m.fits(a) != nil {
			return fmt.Errorf("it was granted, but %s before it could have been", a.id.Ref())
		}
	}
	for _, part := range parts {
		first := m.first(part.slot.pool)
		if first != w && m.free(part.slot)-m.setAside(first, part.slot.pool)[part.slot] < part.units {
			return fmt.Errorf("it was granted what is set aside for %s on %s/%s", first.id.Ref(), part.slot.pool, part.slot.id)
		}
	}
	return nil
}

func before(a, b *ask) bool {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.number, b.number)) < 0
}

// board is the machine's state in the model's words: enough of it to choose
// slots.
func (p *pairing) board() *model {
	b := newModel(0)
	slots := map[string]*modelSlot{}
	p.world.m.pools.Scan(func(name string, pool *pool) bool {
		b.pools[name] = &modelPool{name: name, drained: pool.Drained, removing: pool.Removing}
		return true
	})
	for s := range slotsOf(p.world.m) {
		at := &modelSlot{
			pool: s.Pool, id: s.ID, labels: s.Labels, capacity: s.Capacity, drained: s.Drained,
			removing: s.Removing, sick: s.Unhealthy, settles: s.SettleUntil, freed: s.freed,
		}
		slots[place(s.Pool, s.ID)] = at
		b.slots = append(b.slots, at)
	}
	for _, e := range slices.SortedFunc(maps.Values(p.world.m.requests), byNumber) {
		b.asks = append(b.asks, p.askOf(e, slots))
	}
	return b
}

func (p *pairing) askOf(e *entry, slots map[string]*modelSlot) *ask {
	a := &ask{number: e.Number, id: e.ID, request: p.claims[e.ID], arrived: e.Arrived, waiting: e.wait != nil}
	if e.wait != nil {
		a.present = e.wait.absent == never
		for _, k := range e.wait.reserved {
			a.kept = append(a.kept, share{slots[place(k.slot.Pool, k.slot.ID)], k.units})
		}
	}
	if e.Lease == nil {
		return a
	}
	a.held = &modelLease{id: e.Lease.ID}
	if e.Lease.Cleans != nil {
		a.held.cleans = &modelPart{}
	}
	for _, part := range e.Lease.Parts {
		a.held.parts = append(a.held.parts, &modelPart{share: share{slots[place(part.Pool, part.Slot)], part.Units}, of: a, state: part.State})
	}
	return a
}
