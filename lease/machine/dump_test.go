package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// durable tells everything that a machine must know again after a restart
// beside its records, in a fixed order.
func durable(m *Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "now %v ledger %+v live %d retained %d quarantine %v settled %v\n",
		m.now, m.ledger, m.alarms.live, m.retained, m.quarantine.Keys(), settledNumbers(m))
	m.pools.Scan(func(_ string, p *pool) bool {
		dumpPool(&b, p)
		return true
	})
	for _, k := range slices.SortedFunc(maps.Keys(m.requests), compareKeys) {
		dumpEntry(&b, m.requests[k])
	}
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		fmt.Fprintf(&b, "lease %q is %d\n", string(id), m.leases[id].Number)
	}
	for _, s := range m.sessionsInOrder() {
		fmt.Fprintf(&b, "session %+v live %d waiting %v ended %v\n", s.Session, s.live, s.waiting.Keys(), s.ended.Keys())
	}
	return b.String()
}

func compareKeys(a, b requestKey) int {
	return strings.Compare(fmt.Sprint(a.caller, "\x00", string(a.id)), fmt.Sprint(b.caller, "\x00", string(b.id)))
}

func settledNumbers(m *Machine) []uint64 {
	var n []uint64
	for _, e := range m.settled.items[m.settled.head:] {
		if !e.forgotten {
			n = append(n, e.Number)
		}
	}
	// Requests that settled at the same moment are forgotten in any order.
	slices.Sort(n)
	return n
}

func dumpPool(b *strings.Builder, p *pool) {
	fmt.Fprintf(b, "pool %s terms %+v queued %v shapes %d\n", p.Name, *p.terms, numbers(slices.Collect(p.queued.each)), len(p.shapes))
	p.slots.Scan(func(_ string, s *slot) bool {
		guests := numbers(s.guests)
		slices.Sort(guests)
		fmt.Fprintf(b, "  slot %s used %d freed %v guests %v\n", s.ID, s.used, s.freed, guests)
		return true
	})
	sizes := slices.SortedFunc(slices.Values(p.views[0].sizes), func(a, b size) int { return cmp.Compare(a.capacity, b.capacity) })
	fmt.Fprintf(b, "  sizes %v\n", sizes)
}

func dumpEntry(b *strings.Builder, e *entry) {
	fmt.Fprintf(b, "request %d %q", e.Number, string(e.ID))
	if e.session != nil {
		fmt.Fprintf(b, " session %q/%d", e.session.ID, e.serial)
	}
	for _, i := range slices.Sorted(maps.Keys(e.cleaners)) {
		fmt.Fprintf(b, " part %d cleaned by %d", i, e.cleaners[i].Number)
	}
	b.WriteByte('\n')
}

func numbers(entries []*entry) []uint64 {
	n := make([]uint64, len(entries))
	for i, e := range entries {
		n[i] = e.Number
	}
	return n
}
