package machine

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/berth-dev/berth/lease"
)

// A waiting is what only memory knows of a waiter.
type waiting struct {
	shape *shape
	// rank is arrival less priority; earlier is served first.
	rank  time.Duration
	calls []call
	// grace keeps the waiter present without a call until then.
	grace time.Duration
	// absent is when the waiter stopped being present; never while it is.
	absent time.Duration
	// eligible says that the waiter stands in its queues to be decided.
	eligible bool
	// reserved are the units that wait for its client to ask again.
	reserved []pick
	// lastID is the lease id that came with the newest call.
	lastID lease.LeaseID
}

// A call is an open wish to hear of a request.
type call struct {
	id      uint64
	arrived time.Duration
	// ends is when the call is answered with queued.
	ends time.Duration
}

// A shape is a set of claims that at least one waiter has.
type shape struct {
	key    string
	claims []lease.Claim
	pools  []*pool
	views  []*view
	// queue holds the eligible waiters by rank: if the first does not fit,
	// none does.
	queue *btree.BTreeG[*entry]
	// waiters holds them all by rank, absent and reserved ones too.
	waiters *btree.BTreeG[*entry]
}

// before orders waiters by rank, then by arrival.
func (e *entry) before(o *entry) bool {
	if e.wait.rank != o.wait.rank {
		return e.wait.rank < o.wait.rank
	}
	return e.Number < o.Number
}

func (s *shape) place(p *pool) int { return slices.Index(s.pools, p) }

func shapeKey(claims []lease.Claim) string {
	b := make([]byte, 0, 64)
	for _, c := range claims {
		b = append(append(b, c.Pool...), 0)
		b = binary.AppendUvarint(b, uint64(c.Count))
		b = binary.AppendUvarint(b, uint64(c.Units))
		b = append(append(b, selectorKey(c.Select)...), 0)
	}
	return string(b)
}

// shapeOf returns the shape of the claims on their pools, not yet counted as
// waiting.
func (m *Machine) shapeOf(claims []lease.Claim, pools []*pool) *shape {
	key := shapeKey(claims)
	for _, sh := range pools[0].shapes {
		if sh.key == key {
			return sh
		}
	}
	sh := &shape{key: key, claims: claims, pools: pools, queue: newQueue(), waiters: newQueue()}
	for i, c := range claims {
		sh.views = append(sh.views, m.view(pools[i], c.Select))
	}
	return sh
}

// enqueue makes the entry a waiter, absent until somebody listens.
func (m *Machine) enqueue(e *entry, sh *shape) {
	e.State = lease.Waiting
	e.wait = &waiting{shape: sh, absent: e.Arrived, rank: e.Arrived - time.Duration(e.Request.Priority)*RankStep}
	m.alarms.live++
	if sh.waiters.Len() == 0 {
		for i, p := range sh.pools {
			p.shapes = append(p.shapes, sh)
			sh.views[i].waiting++
		}
	}
	sh.waiters.Set(e)
	for _, p := range sh.pools {
		p.queued.Set(e)
	}
	if e.session != nil {
		e.session.waiting.Set(e.serial, e)
	}
}

// dequeue takes the waiter out of every queue; what was kept for it is free.
func (m *Machine) dequeue(e *entry) {
	sh := e.wait.shape
	m.unreserve(e)
	m.exclude(e)
	for _, p := range sh.pools {
		p.queued.Delete(e)
	}
	sh.waiters.Delete(e)
	if sh.waiters.Len() == 0 {
		m.dropShape(sh)
	}
	for _, p := range sh.pools {
		m.dropEmpty(p)
	}
	if e.session != nil {
		e.session.waiting.Delete(e.serial)
	}
	m.alarms.live--
	e.wait = nil
}

func (m *Machine) dropShape(sh *shape) {
	for i, p := range sh.pools {
		p.shapes = slices.DeleteFunc(p.shapes, func(o *shape) bool { return o == sh })
		sh.views[i].waiting--
	}
}

// include makes the waiter one that is decided.
func (m *Machine) include(e *entry) {
	if e.wait.eligible {
		return
	}
	e.wait.eligible = true
	e.wait.shape.queue.Set(e)
	for _, p := range e.wait.shape.pools {
		p.eligible.Set(e)
		m.touchPool(p)
	}
}

// exclude makes the waiter one that is passed over.
func (m *Machine) exclude(e *entry) {
	if !e.wait.eligible {
		return
	}
	e.wait.eligible = false
	e.wait.shape.queue.Delete(e)
	for _, p := range e.wait.shape.pools {
		p.eligible.Delete(e)
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
		p.reserved.Set(e)
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
		p.reserved.Delete(e)
		m.touchPool(p)
	}
}

// listening reports whether somebody listens for the waiter: by a call, or by
// a connection of its session.
func (e *entry) listening() bool {
	return e.called() || e.session != nil && e.session.open > 0
}

// called reports whether a call is open that a grant would answer.
func (e *entry) called() bool { return len(e.wait.calls) > 0 }

// attend brings the waiter's presence up to date.
func (m *Machine) attend(e *entry) {
	w := e.wait
	switch present := e.listening() || m.now < w.grace; {
	case !present && w.absent == never:
		w.absent = m.now
		if w.grace > 0 {
			w.absent = w.grace
		}
		m.unreserve(e)
		m.exclude(e)
	case present && w.absent < never:
		w.absent = never
		m.include(e)
	}
	m.wake(e)
}

// position counts the waiters up to and with e in the pool where it is
// furthest behind, exact to 1,000.
func (e *entry) position() int {
	furthest := 1
	for _, p := range e.wait.shape.pools {
		n := 0
		p.queued.Scan(func(o *entry) bool {
			n++
			return o != e && n <= exactTo
		})
		furthest = max(furthest, n)
	}
	return furthest
}

const exactTo = 1000

// due is when the waiter's wait, a call, its presence or its absence ends.
func (w *waiting) due(e *entry) time.Duration {
	at := never
	if e.Request.Wait > 0 {
		at = e.Arrived + e.Request.Wait
	}
	for _, c := range w.calls {
		at = min(at, c.ends)
	}
	if w.absent < never {
		return min(at, w.absent+AbsentFor)
	}
	if !e.listening() {
		at = min(at, w.grace)
	}
	return at
}

// ringWaiting ends what is over: the wait, the calls, the presence.
func (m *Machine) ringWaiting(e *entry) {
	w := e.wait
	if e.Request.Wait > 0 && m.now >= e.Arrived+e.Request.Wait {
		m.endWaiting(e, lease.EndTimedOut)
		return
	}
	for len(w.calls) > 0 {
		i := slices.IndexFunc(w.calls, func(c call) bool { return c.ends <= m.now })
		if i < 0 {
			break
		}
		m.answerQueued(e, i)
	}
	m.attend(e)
	if w.absent < never && m.now >= w.absent+AbsentFor {
		m.endWaiting(e, lease.EndAbsent)
	}
}

// answerQueued ends the waiter's call i: it stays present a while.
func (m *Machine) answerQueued(e *entry, i int) {
	c := e.wait.calls[i]
	e.wait.calls = slices.Delete(e.wait.calls, i, i+1)
	e.wait.grace = max(e.wait.grace, m.now+AskWithin)
	q := Queued{Position: e.position(), AskWithin: AskWithin}
	m.answer(Answer{Call: c.id, Queued: q, Err: lease.Errorf(lease.CodeQueued,
		"request %s waits at position %d; ask again with the same id within %v", e.ID.Ref(), q.Position, AskWithin)})
}

// endWaiting ends a waiter without a lease and tells whoever listens.
func (m *Machine) endWaiting(e *entry, end lease.End) {
	calls := e.wait.calls
	m.dequeue(e)
	m.endRequest(e, end)
	for _, c := range calls {
		m.answer(Answer{Call: c.id, Err: e.endError()})
	}
}

// endRequest ends a request that has no lease.
func (m *Machine) endRequest(e *entry, end lease.End) {
	e.State, e.End, e.Ended, e.Request = lease.Ended, end, m.now, nil
	m.save(e)
	m.tell(EventEnded, e, Event{End: end, Why: string(e.Code)})
	m.settle(e)
}
