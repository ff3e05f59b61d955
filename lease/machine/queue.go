package machine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// enqueue makes the entry a waiter, absent until somebody listens.
func (m *Machine) enqueue(e *entry, r *lease.Request, sh *shape) {
	w := m.newWaiting()
	*w = waiting{request: *r, shape: sh, absent: e.Arrived, rank: e.Arrived - time.Duration(r.Priority)*RankStep}
	w.calls = w.first[:0]
	e.State, e.Request, e.wait = lease.Waiting, &w.request, w
	m.alarms.live++
	sh.join(e)
	for _, p := range sh.pools {
		p.queued.add(e)
	}
	if e.session != nil {
		e.session.waiting.Set(e.serial, e)
	}
}

// keptWaitings is how much memory of waiters is kept to be used again.
const keptWaitings = 64

func (m *Machine) newWaiting() *waiting {
	end := len(m.waitings) - 1
	if end < 0 {
		return new(waiting)
	}
	w := m.waitings[end]
	m.waitings = m.waitings[:end]
	return w
}

// reuse keeps the memory of a waiter that nothing points to any more.
func (m *Machine) reuse(w *waiting) {
	if len(m.waitings) < keptWaitings {
		*w = waiting{}
		m.waitings = append(m.waitings, w)
	}
}

// dequeue takes the waiter out of every queue; what was kept for it is free.
func (m *Machine) dequeue(e *entry) {
	sh := e.wait.shape
	m.unreserve(e)
	m.exclude(e)
	for _, p := range sh.pools {
		p.queued.remove(e)
	}
	sh.leave(e)
	for _, p := range sh.pools {
		m.dropEmpty(p)
	}
	if e.session != nil {
		e.session.waiting.Delete(e.serial)
	}
	m.alarms.live--
	e.wait = nil
}

// include makes the waiter one that is decided. Behind another of its shape it
// changes nothing for anybody.
func (m *Machine) include(e *entry) {
	w := e.wait
	w.eligible = true
	w.shape.queue.add(e)
	for _, p := range w.shape.pools {
		p.eligible++
	}
	if w.shape.queue.first() == e {
		m.touchAll(w.shape)
	}
}

// exclude makes the waiter one that is passed over.
func (m *Machine) exclude(e *entry) {
	w := e.wait
	if !w.eligible {
		return
	}
	if w.shape.queue.first() == e {
		m.touchAll(w.shape)
	}
	w.eligible = false
	w.shape.queue.remove(e)
	for _, p := range w.shape.pools {
		p.eligible--
	}
}

// touchAll has all pools of a shape decided anew.
func (m *Machine) touchAll(sh *shape) {
	for _, p := range sh.pools {
		m.touchPool(p)
	}
}

// reserve keeps units for a waiter that is present without a call.
func (m *Machine) reserve(e *entry, picks []pick) {
	m.exclude(e)
	e.wait.reserved = slices.Clone(picks)
	for _, k := range picks {
		k.slot.reserved += k.units
		k.slot.reindex()
	}
	for _, p := range e.wait.shape.pools {
		p.reserved.add(e)
	}
}

// unreserve gives the units kept for a waiter back, without making it one
// that is decided.
func (m *Machine) unreserve(e *entry) {
	if e.wait.reserved == nil {
		return
	}
	for _, k := range e.wait.reserved {
		k.slot.reserved -= k.units
		k.slot.reindex()
	}
	e.wait.reserved = nil
	for _, p := range e.wait.shape.pools {
		p.reserved.remove(e)
		m.touchPool(p)
	}
}
