package machine

import (
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// A view indexes those slots of a pool that a selector matches.
type view struct {
	sel map[string]string
	key string
	// fit orders slots with spare units by how well they fit: fewest spare
	// units, then longest unused, then id. most orders them the other way
	// round, for setting aside.
	fit, most *btree.BTreeG[*slot]
	// sizes counts the slots not marked for removal by capacity.
	sizes map[int64]int
	// waiting counts the shapes that use the view; used is the step that last
	// did.
	waiting int
	used    uint64
	from    slot
}

func newView(sel map[string]string, key string) *view {
	opts := btree.Options{NoLocks: true}
	return &view{
		sel: sel, key: key, sizes: map[int64]int{},
		fit:  btree.NewBTreeGOptions(fitsBetter, opts),
		most: btree.NewBTreeGOptions(hasMore, opts),
	}
}

func fitsBetter(a, b *slot) bool {
	switch {
	case a.key.free != b.key.free:
		return a.key.free < b.key.free
	case a.key.freed != b.key.freed:
		return a.key.freed < b.key.freed
	}
	return a.ID < b.ID
}

func hasMore(a, b *slot) bool {
	if a.key.free != b.key.free {
		return a.key.free > b.key.free
	}
	return a.ID < b.ID
}

// selectorKey is the same for equal selectors.
func selectorKey(sel map[string]string) string {
	if len(sel) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(sel)) {
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(sel[k])
		b.WriteByte(0)
	}
	return b.String()
}

func (v *view) matches(labels map[string]string) bool {
	for k, want := range v.sel {
		if got, ok := labels[k]; !ok || got != want {
			return false
		}
	}
	return true
}

// admit takes the slot in if the selector matches it.
func (v *view) admit(s *slot) {
	if !v.matches(s.Labels) {
		return
	}
	s.views = append(s.views, v)
	if !s.Removing {
		v.count(s.Capacity, 1)
	}
	v.insert(s)
}

// forget takes the slot out of the view's books on the slot's side.
func (s *slot) forget(v *view) {
	if i := slices.Index(s.views, v); i >= 0 {
		s.views = slices.Delete(s.views, i, i+1)
	}
}

func (v *view) insert(s *slot) {
	if s.key.free > 0 {
		v.fit.Set(s)
		v.most.Set(s)
	}
}

func (v *view) remove(s *slot) {
	if s.key.free > 0 {
		v.fit.Delete(s)
		v.most.Delete(s)
	}
}

func (v *view) count(capacity int64, by int) {
	if v.sizes[capacity] += by; v.sizes[capacity] == 0 {
		delete(v.sizes, capacity)
	}
}

// offers reports whether the view has count slots of at least units capacity.
func (v *view) offers(count int, units int64) bool {
	n := 0
	for capacity, slots := range v.sizes {
		if capacity >= units {
			n += slots
		}
	}
	return n >= count
}

// readmit is called around a change of a slot's labels, capacity or removal
// mark: it leaves all views, changes, and joins those that match now.
func (p *pool) readmit(s *slot, change func()) {
	for _, v := range s.views {
		v.remove(s)
		if !s.Removing {
			v.count(s.Capacity, -1)
		}
	}
	s.views = s.views[:0]
	change()
	s.key = slotKey{s.spare(), s.freed}
	for _, v := range p.views {
		v.admit(s)
	}
}
