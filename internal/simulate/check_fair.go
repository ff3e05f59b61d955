package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A queue is who waits, as far as the commands and answers tell: a second,
// simple reading of the rules of invariant I7. It decides over every waiter
// and slot anew.
type queue struct {
	waiters []*waiter // by rank
	// sessions count the open connections.
	sessions map[key]int
}

// A waiter is one request that waits.
type waiter struct {
	number  uint64
	key     key
	rank    time.Duration
	claims  []lease.Claim
	calls   []uint64
	grace   time.Duration
	present bool
	session key
	// last is when its last call ended.
	last time.Duration
	page *page
	// back says that its client has just asked again: what was reserved for it
	// before becomes its lease.
	back bool
	// done and picks are scratch space of a decision.
	done  bool
	picks []choice
}

// A choice is units on a slot.
type choice struct {
	at    place
	units int64
}

func newModel() *queue { return &queue{sessions: map[key]int{}} }

func (q *queue) add(p *page) *waiter {
	w := &waiter{number: p.Number, key: p.key, claims: p.Request.Claims, page: p, rank: p.Arrived - time.Duration(p.Request.Priority)*machine.RankStep}
	if session, _ := p.key.inSession(); session != "" {
		w.session = key{caller: p.key.caller, session: session}
	}
	i, _ := slices.BinarySearchFunc(q.waiters, w, compareWaiters)
	q.waiters = slices.Insert(q.waiters, i, w)
	return w
}

func compareWaiters(a, b *waiter) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number))
}

func (q *queue) find(number uint64) *waiter {
	for _, w := range q.waiters {
		if w.number == number {
			return w
		}
	}
	return nil
}

func (q *queue) byKey(k key) *waiter {
	for _, w := range q.waiters {
		if w.key == k {
			return w
		}
	}
	return nil
}

func (q *queue) lastCall(number uint64) time.Duration {
	if w := q.find(number); w != nil {
		if q.listening(w) {
			return 1 << 62
		}
		return w.last
	}
	return 0
}

func (q *queue) listening(w *waiter) bool {
	return len(w.calls) > 0 || w.session.session != "" && q.sessions[w.session] > 0
}

func (q *queue) attend(w *waiter, now time.Duration) { w.present = q.listening(w) || now < w.grace }

// restart has everybody present for a while.
func (q *queue) restart(now time.Duration) {
	clear(q.sessions)
	for _, w := range q.waiters {
		w.calls, w.grace, w.last = nil, now+machine.AskWithin, now
		q.attend(w, now)
	}
}

// hears takes in what a command changes in who listens, before the decision.
func (q *queue) hears(b *books, cmd machine.Command, now time.Duration) {
	switch cmd := cmd.(type) {
	case machine.Acquire:
		if w := q.byKey(key{caller: cmd.Caller, id: cmd.Request.ID}); w != nil && w.page.Digest == cmd.Digest {
			w.back = len(w.calls) == 0 && w.last > 0
			w.calls = append(w.calls, cmd.Call)
			q.attend(w, now)
		}
	case machine.Leave:
		q.leaves(cmd, now)
	case machine.Arrive:
		k := key{caller: cmd.Caller, session: cmd.Session}
		if _, ok := b.marks[k]; ok {
			q.sessions[k]++
			q.attendSession(k, now)
		}
	case machine.Tick:
		for _, w := range q.waiters {
			q.attend(w, now)
		}
	}
}

func (q *queue) leaves(cmd machine.Leave, now time.Duration) {
	k := key{caller: cmd.Caller, session: cmd.Session}
	if cmd.Session == "" {
		if w := q.byKey(key{caller: cmd.Caller, id: cmd.ID}); w != nil {
			if i := slices.Index(w.calls, cmd.Call); i >= 0 {
				w.calls = slices.Delete(w.calls, i, i+1)
				q.left(w, now)
			}
		}
		return
	}
	if q.sessions[k] == 0 {
		return
	}
	q.sessions[k]--
	for _, w := range q.waiters {
		if w.session == k && q.sessions[k] == 0 {
			q.left(w, now)
		}
	}
}

func (q *queue) left(w *waiter, now time.Duration) {
	if !q.listening(w) {
		w.grace, w.last = 0, now
	}
	q.attend(w, now)
}

func (q *queue) attendSession(k key, now time.Duration) {
	for _, w := range q.waiters {
		if w.session == k {
			q.attend(w, now)
		}
	}
}

// answered takes in the calls that ended with queued.
func (q *queue) answered(fx *machine.Effects, now time.Duration) {
	for _, a := range fx.Answers {
		if a.Err == nil || a.Err.Code() != string(lease.CodeQueued) {
			continue
		}
		for _, w := range q.waiters {
			if i := slices.Index(w.calls, a.Call); i >= 0 {
				w.calls = slices.Delete(w.calls, i, i+1)
				w.grace, w.last = max(w.grace, now+machine.AskWithin), now
				q.attend(w, now)
			}
		}
	}
}

// sync brings the waiters in line with the books: new ones come, ended ones
// go. Those granted in this step stay until the decision is checked.
func (q *queue) sync(b *books, grants []*page) {
	for _, p := range b.live {
		if p.State == lease.Waiting && q.find(p.Number) == nil {
			q.add(p)
		}
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool {
		p := b.pages[w.number]
		waits := p != nil && p.State == lease.Waiting
		return !waits && !slices.ContainsFunc(grants, func(g *page) bool { return g.Number == w.number })
	})
}

// checkQueue checks who was granted in a step (I7): exactly those whom the
// rules give something, on the slots that they say.
func (c *checker) checkQueue(cmd machine.Command, now time.Duration, fx *machine.Effects) {
	q := c.queue
	if len(q.waiters)+len(c.grants)+len(c.refused) == 0 {
		q.sync(c.books, nil)
		q.hears(c.books, cmd, now)
		q.answered(fx, now)
		return
	}
	q.sync(c.books, c.grants)
	grants := c.queued(hasAnswer(fx, lease.CodeNoCapacity))
	asks := false
	switch cmd.(type) {
	case machine.Acquire:
		asks = true
	default:
		q.answered(fx, now)
	}
	q.hears(c.books, cmd, now)
	if !fx.More {
		c.compareGrants(grants, c.whole)
	}
	if asks {
		q.answered(fx, now)
	}
	q.sync(c.books, nil)
}

// queued returns the step's grants that went through the queue. heard says
// that somebody was told that nothing is free.
func (c *checker) queued(heard bool) []*page {
	var grants []*page
	for _, p := range c.grants {
		if p.Lease.Cleans != nil {
			continue
		}
		grants = append(grants, p)
		if c.queue.find(p.Number) == nil {
			c.addForNow(p)
		}
	}
	for _, p := range c.refused {
		if !heard {
			continue // its call broke before it was decided
		}
		if w := c.addForNow(p); w != nil {
			w.present, w.calls = true, []uint64{0}
		}
	}
	return grants
}

func hasAnswer(fx *machine.Effects, code lease.Code) bool {
	return slices.ContainsFunc(fx.Answers, func(a machine.Answer) bool { return a.Err != nil && a.Err.Code() == string(code) })
}

// addForNow puts a request that was granted or refused at its arrival in the
// queue, as it stood there for a moment.
func (c *checker) addForNow(p *page) *waiter {
	body, ok := c.w.bodies[p.key]
	if !ok {
		return nil
	}
	was := *p
	was.Request = &body
	return c.queue.add(&was)
}
