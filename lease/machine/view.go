package machine

import (
	"maps"
	"math"
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
	fit, most *btree.BTreeG[spot]
	// sizes counts the slots not marked for removal by capacity.
	sizes []size
	// waiting counts the shapes that use the view; used is the step that last
	// did.
	waiting int
	used    uint64
}

// A spot is a slot with what orders it.
type spot struct {
	slotKey
	slot *slot
}

// A size is how many slots have a capacity.
type size struct {
	capacity int64
	slots    int
}

func newView(sel map[string]string, key string) *view {
	opts := btree.Options{NoLocks: true}
	v := &view{
		sel: sel, key: key,
		fit:  btree.NewBTreeGOptions(spot.fitsBetter, opts),
		most: btree.NewBTreeGOptions(spot.hasMore, opts),
	}
	// An end mark in each keeps an empty tree from giving up its memory, only
	// to take it again with the next slot.
	v.fit.Set(spot{slotKey{free: math.MaxInt64}, nil})
	v.most.Set(spot{slotKey{free: -1}, nil})
	return v
}

// end reports whether this is the mark at a tree's end.
func (a spot) end() bool { return a.slot == nil }

func (a spot) fitsBetter(b spot) bool {
	switch {
	case a.free != b.free:
		return a.free < b.free
	case a.freed != b.freed:
		return a.freed < b.freed
	}
	return a.slot.ID < b.slot.ID
}

func (a spot) hasMore(b spot) bool {
	if a.free != b.free {
		return a.free > b.free
	}
	return a.slot.ID < b.slot.ID
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
		v.fit.Set(spot{s.key, s})
		v.most.Set(spot{s.key, s})
	}
}

func (v *view) remove(s *slot) {
	if s.key.free > 0 {
		v.fit.Delete(spot{s.key, s})
		v.most.Delete(spot{s.key, s})
	}
}

func (v *view) count(capacity int64, by int) {
	i := slices.IndexFunc(v.sizes, func(s size) bool { return s.capacity == capacity })
	if i < 0 {
		i = len(v.sizes)
		v.sizes = append(v.sizes, size{capacity, 0})
	}
	if v.sizes[i].slots += by; v.sizes[i].slots == 0 {
		v.sizes = slices.Delete(v.sizes, i, i+1)
	}
}

// offers reports whether the view has count slots of at least units capacity.
func (v *view) offers(count int, units int64) bool {
	n := 0
	for _, s := range v.sizes {
		if s.capacity >= units {
			n += s.slots
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
