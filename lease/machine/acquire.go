package machine

import (
	"slices"
	"strconv"
	"time"

	"github.com/berth-dev/berth/lease"
)

// Acquire asks for a lease, for the first time or again.
type Acquire struct {
	// Call is how the answer is known; it must be unlike every open call.
	Call   uint64
	Caller lease.Caller
	// Request is as [lease.Request.Checked] returned it; Digest is its body's.
	Request lease.Request
	Digest  lease.Digest
	// Poll is how long the call may be left without an answer.
	Poll time.Duration
	// LeaseID is fresh; it is used if the request is granted while this is
	// its newest call.
	LeaseID lease.LeaseID
	// Session and Serial are set where the request belongs to a session: its
	// id is then session:serial. The client asks no more below Mark.
	Session string
	Serial  uint64
	Mark    uint64
	// StoreFull says that the store has no room to take more.
	StoreFull bool
}

func (c Acquire) run(m *Machine) {
	if e := m.requests[requestKey{c.Caller, c.Request.ID}]; e != nil {
		m.repeat(e, &c)
		return
	}
	if !m.acquireSession(&c) {
		return
	}
	if c.StoreFull {
		m.refuse(c.Call, lease.CodeStoreFull, "cannot queue request %s: the broker's store is nearly full; free space on its disk and ask again", c.Request.ID.Ref())
		return
	}
	m.acquire(&c)
}

// acquireSession checks the request against its session, if it has one.
func (m *Machine) acquireSession(c *Acquire) bool {
	s, serial := m.sessionOf(c.Caller, c.Request.ID)
	switch {
	case s == nil && c.Session == "":
		return true
	case c.Session != "" && c.Request.ID != sessionID(c.Session, c.Serial):
		m.refuse(c.Call, lease.CodeRequestInvalid, "cannot accept request %s: its id must be the session's id, a colon and its number", c.Request.ID.Ref())
		return false
	case s == nil:
		m.refuse(c.Call, lease.CodeSessionUnknown, "cannot accept request %s: the broker does not know its session; open a new session and ask with a new id", c.Request.ID.Ref())
		return false
	}
	m.raiseMark(s, c.Mark)
	if serial < s.Mark {
		m.refuse(c.Call, lease.CodeFinished, "cannot grant request %s: its session has finished with every number below %d", c.Request.ID.Ref(), s.Mark)
		return false
	}
	return true
}

// acquire takes in a request that is new.
func (m *Machine) acquire(c *Acquire) {
	pools, refusal := m.admit(&c.Request)
	e := m.newEntry(c.Caller, c.Request.ID, c.Digest)
	switch {
	case refusal != nil:
		m.endRefused(e, refusal)
		m.answer(Answer{Call: c.Call, Err: e.endError()})
	case !m.grantAtOnce(e, c, pools):
		m.queue(e, c, pools)
	}
}

// admit finds the claimed pools and says why the request can never be
// granted, where that is so. The pools are valid until the next call.
func (m *Machine) admit(r *lease.Request) ([]*pool, *refusal) {
	m.claimed = m.claimed[:0]
	for _, c := range r.Claims {
		p, ok := m.pools.Get(c.Pool)
		if !ok || p.Removing {
			return nil, &refusal{lease.CodePoolUnknown, "there is no pool " + c.Pool + "; list the pools and ask for one of them"}
		}
		m.claimed = append(m.claimed, p)
	}
	if r := checkTimes(r, m.claimed); r != nil {
		return nil, r
	}
	for i, c := range r.Claims {
		if !m.view(m.claimed[i], c.Select).offers(c.Count, c.Units) {
			return nil, &refusal{lease.CodeUnsatisfiable, "pool " + c.Pool + " does not have " + describe(c) + ", even when all are free; ask for less"}
		}
	}
	return m.claimed, nil
}

// A refusal is why a request can never be granted.
type refusal struct {
	code lease.Code
	text string
}

func checkTimes(r *lease.Request, pools []*pool) *refusal {
	bound, hold := boundOf(pools)
	if r.TTL > bound {
		return &refusal{lease.CodeTTLOutOfRange, "its ttl of " + r.TTL.String() + " is above the pools' max_ttl of " + bound.String()}
	}
	if hold > 0 && r.MaxHold > hold {
		return &refusal{lease.CodeTTLOutOfRange, "its max_hold of " + r.MaxHold.String() + " is above the pools' of " + hold.String()}
	}
	return nil
}

// boundOf returns the smallest max_ttl and max_hold of the pools.
func boundOf(pools []*pool) (ttl, hold time.Duration) {
	ttl = lease.LongestTTL
	for _, p := range pools {
		ttl = min(ttl, p.Settings.MaxTTL)
		hold = least(hold, p.Settings.MaxHold)
	}
	return ttl, hold
}

// least returns the smaller of two bounds of which 0 is none.
func least(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func describe(c lease.Claim) string {
	s := strconv.Itoa(c.Count) + " slots of " + strconv.FormatInt(c.Units, 10) + " units"
	if len(c.Select) > 0 {
		s += " with the labels asked for"
	}
	return s
}

func (m *Machine) endRefused(e *entry, r *refusal) {
	e.Code, e.Reason = r.code, r.text
	m.endRequest(e, lease.EndRefused)
}

// grantAtOnce grants a request that comes to pools in which nobody is before
// it.
func (m *Machine) grantAtOnce(e *entry, c *Acquire, pools []*pool) bool {
	if !m.work.idle() {
		return false
	}
	for _, p := range pools {
		if p.contested() {
			return false
		}
	}
	m.once.claims, m.once.pools = c.Request.Claims, pools
	m.once.views = m.once.views[:0]
	for i, claim := range c.Request.Claims {
		m.once.views = append(m.once.views, m.view(pools[i], claim.Select))
	}
	picks := m.choose(e, &m.once)
	if picks == nil {
		return false
	}
	m.makeLease(e, &c.Request, c.LeaseID, pools, picks)
	m.answer(Answer{Call: c.Call, Token: m.token(e, m.now)})
	return true
}

// queue makes a new request a waiter.
func (m *Machine) queue(e *entry, c *Acquire, pools []*pool) {
	sh := m.shapeOf(c.Request.Claims, pools)
	if r := m.checkQueue(sh); r != nil {
		m.endRefused(e, r)
		m.answer(Answer{Call: c.Call, Err: e.endError()})
		return
	}
	m.enqueue(e, &c.Request, sh)
	m.save(e)
	m.tell(EventQueued, e, Event{Pool: pools[0].Name})
	m.listen(e, c)
}

func (m *Machine) checkQueue(sh *shape) *refusal {
	for _, p := range sh.pools {
		if p.queued.len() >= m.cfg.Waiters {
			return &refusal{lease.CodeTooManyWaiters, "pool " + p.Name + " has " + strconv.Itoa(m.cfg.Waiters) + " waiters already; ask later with a new id"}
		}
		if len(sh.waiters) == 0 && len(p.shapes) >= m.cfg.Shapes {
			return &refusal{lease.CodeTooManyShapes, "pool " + p.Name + " has waiters with " + strconv.Itoa(m.cfg.Shapes) + " different claims already; ask with claims like theirs, or later with a new id"}
		}
	}
	return nil
}

// listen adds a call to a waiter. One that may not wait is answered once all
// is decided.
func (m *Machine) listen(e *entry, c *Acquire) {
	poll := min(max(c.Poll, 0), lease.MaxPoll)
	e.wait.calls = append(e.wait.calls, call{c.Call, m.now, m.now + poll})
	e.wait.lastID = c.LeaseID
	if poll == 0 || e.Request.Wait == 0 {
		e.wait.undecided = true
		m.work.fresh = append(m.work.fresh, e)
	}
	m.attend(e)
}

// answerFresh ends the newest calls that may not wait: of requests that do
// not, and those with no poll.
func (m *Machine) answerFresh() bool {
	n := 0
	for ; n < len(m.work.fresh) && m.room(); n++ {
		if e := m.work.fresh[n]; e.wait != nil {
			m.answerDecided(e)
		}
	}
	m.work.fresh = slices.Delete(m.work.fresh, 0, n)
	return len(m.work.fresh) == 0
}

func (m *Machine) answerDecided(e *entry) {
	e.wait.undecided = false
	if e.Request.Wait == 0 {
		m.endNoCapacity(e)
	} else {
		m.ringWaiting(e)
	}
}

func (m *Machine) endNoCapacity(e *entry) {
	e.Code, e.Reason = lease.CodeNoCapacity, "nothing is free and it does not wait; ask with a new id and a wait"
	m.endWaiting(e, lease.EndRefused)
}

// repeat answers a request that is known.
func (m *Machine) repeat(e *entry, c *Acquire) {
	if e.session != nil {
		m.raiseMark(e.session, c.Mark)
	}
	none := lease.Digest{}
	switch {
	case e.Digest != none && e.Digest != c.Digest:
		m.refuse(c.Call, lease.CodeRequestMismatch, "cannot grant request %s: the id was used with other claims, times, priority or holder; ask with a new id", e.ID.Ref())
	case e.State == lease.Ended:
		m.answer(Answer{Call: c.Call, Err: e.endError()})
	case e.State == lease.Held:
		m.answer(Answer{Call: c.Call, Token: m.token(e, m.now)})
	default:
		m.arriveAgain(e, c)
	}
}

// arriveAgain takes in another call for a waiter. What is reserved for it
// becomes its lease: for all others that changes nothing.
func (m *Machine) arriveAgain(e *entry, c *Acquire) {
	idle := m.work.idle()
	m.listen(e, c)
	switch {
	case e.wait.reserved == nil:
	case idle:
		m.grant(e, e.wait.reserved)
		m.work.dirty = m.work.dirty[:0]
	default:
		m.touchPool(e.wait.shape.pools[0])
	}
}
