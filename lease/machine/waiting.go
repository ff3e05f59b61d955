package machine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A waiting is what only memory knows of a waiter, and its request and first
// call, all in one piece of memory.
type waiting struct {
	request lease.Request
	first   [1]call
	shape   *shape
	// rank is arrival less priority; earlier is served first.
	rank  time.Duration
	calls []call
	// grace keeps the waiter present without a call until then.
	grace time.Duration
	// absent is when the waiter stopped being present; never while it is.
	absent time.Duration
	// place is where the shape's list of waiters has it.
	place int
	// reserved are the units that wait for its client to ask again.
	reserved []pick
	// lastID is the lease id that came with the newest call.
	lastID lease.LeaseID
	// eligible says that the waiter stands in its shape's queue to be decided.
	eligible bool
	// undecided says that the newest call waits for the decision: until then
	// time ends nothing.
	undecided bool
}

// A call is an open wish to hear of a request.
type call struct {
	id      uint64
	arrived time.Duration
	// ends is when the call is answered with queued.
	ends time.Duration
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
		p.queued.each(func(o *entry) bool {
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
	if w.undecided {
		return never
	}
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
	w := e.wait
	m.dequeue(e)
	m.endRequest(e, end)
	for _, c := range w.calls {
		m.answer(Answer{Call: c.id, Err: e.endError()})
	}
	m.reuse(w)
}

// endRequest ends a request that has no lease.
func (m *Machine) endRequest(e *entry, end lease.End) {
	e.State, e.End, e.Ended, e.Request = lease.Ended, end, m.now, nil
	m.save(e)
	m.tell(EventEnded, e, Event{End: end, Why: string(e.Code)})
	m.settle(e)
}
