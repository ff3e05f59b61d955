package machine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A slot is one scarce thing and who has units of it.
type slot struct {
	lease.Slot
	pool *pool
	// used are the units held or quarantined; reserved those that a waiter
	// will get when its client asks again.
	used, reserved int64
	// guests are the entries whose leases have units here that are not free.
	guests []*entry
	// freed is when units last came back, last the entry that gave them.
	freed time.Duration
	last  *entry
	// key is how the views know the slot.
	key   slotKey
	views []*view
	clock alarm
}

// A slotKey is a slot's place in the order of a view.
type slotKey struct {
	free  int64
	freed time.Duration
}

// open reports whether the slot may be granted at all.
func (s *slot) open() bool {
	return !s.Drained && !s.Removing && s.Unhealthy == "" && s.SettleUntil == 0
}

// spare returns the units that may be granted now.
func (s *slot) spare() int64 {
	if !s.open() {
		return 0
	}
	return max(0, s.Capacity-s.used-s.reserved)
}

// whole reports whether these units, which a lease has, are all there is to
// have: then nobody else's fence is about, also after a change of capacity.
func (s *slot) whole(units int64) bool { return units >= s.Capacity && units == s.used }

// reindex brings the views up to date with the slot.
func (s *slot) reindex() {
	key := slotKey{s.spare(), s.freed}
	if key == s.key {
		return
	}
	for _, v := range s.views {
		v.remove(s)
	}
	s.key = key
	for _, v := range s.views {
		v.insert(s)
	}
}

// occupy gives units to a lease.
func (s *slot) occupy(e *entry, units int64) {
	s.used += units
	s.guests = append(s.guests, e)
	s.reindex()
}

// vacate takes units back from a lease. The pool must be decided anew.
func (m *Machine) vacate(s *slot, e *entry, units int64) {
	s.used -= units
	s.leave(e)
	s.freed, s.last = m.now, e
	s.reindex()
	m.touchPool(s.pool)
	m.dropIdle(s)
}

// dropIdle removes a slot that is marked for removal, once nothing of it is in
// use: as a job of its own, for one lease may empty many slots.
func (m *Machine) dropIdle(s *slot) {
	if !s.Removing || s.used > 0 {
		return
	}
	m.work.jobs = append(m.work.jobs, func() {
		if at, _ := s.pool.slots.Get(s.ID); at == s && s.Removing && s.used == 0 {
			m.dropSlot(s)
		}
	})
}

// leave forgets that the entry has units here.
func (s *slot) leave(e *entry) {
	if i := slices.Index(s.guests, e); i >= 0 {
		s.guests = slices.Delete(s.guests, i, i+1)
	}
}

// dropSlot removes an empty slot, which is marked for that, for good, and its pool with the last one if
// that is to go.
func (m *Machine) dropSlot(s *slot) {
	for _, v := range s.views {
		v.remove(s)
	}
	s.views, s.last = nil, nil
	m.unsettle(s)
	s.pool.slots.Delete(s.ID)
	m.del(&s.Slot)
	m.tellPlace(EventSlot, s.Pool, s.ID, "removed", "")
	m.dropEmpty(s.pool)
}

// reopened is called when what keeps a slot from being granted has changed.
func (m *Machine) reopened(s *slot, why string) {
	s.reindex()
	m.touchPool(s.pool)
	m.tellPlace(EventSlot, s.Pool, s.ID, why, "")
}

// state names where the slot stands, for people.
func (s *slot) state() string {
	switch {
	case s.Removing:
		return "removing"
	case s.Unhealthy != "":
		return "unhealthy"
	case s.SettleUntil != 0:
		return "settling"
	case s.Drained || s.pool.Drained:
		return "drained"
	case s.used == 0:
		return "free"
	}
	return "used"
}
