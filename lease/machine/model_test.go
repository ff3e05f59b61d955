package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A model says what a machine should do, by the words of the rules. It keeps
// plain lists, has no index, no alarm and no store, and decides everything
// from scratch. It knows no sessions and bounds nothing but time.
type model struct {
	now    time.Duration
	fence  lease.Fence
	number uint64
	pools  map[string]*modelPool
	slots  []*modelSlot
	asks   []*ask
	boots  map[string]string
	// changed are the pools in which something changed since the last
	// decision: only they, and what waiting claims tie to them, are decided
	// anew.
	changed map[string]bool
	// said are the answers of the last command, by call.
	said      map[uint64]string
	retention time.Duration
	// settlesFrom is the last start after a restore.
	settlesFrom time.Duration
}

type modelPool struct {
	name              string
	settings          lease.Settings
	drained, removing bool
}

type modelSlot struct {
	pool, id          string
	labels            map[string]string
	capacity          int64
	drained, removing bool
	sick              string
	settles, freed    time.Duration
}

// An ask is one request, for as long as it is remembered.
type ask struct {
	number  uint64
	id      lease.RequestID
	digest  lease.Digest
	request lease.Request
	arrived time.Duration
	// A waiter's presence and calls.
	waiting, present bool
	fresh            bool
	calls            []call
	grace, absent    time.Duration
	kept             []share
	nextID           lease.LeaseID
	held             *modelLease
	// ended is the code that a repeat hears, and settled when all was free.
	ended   lease.Code
	settled time.Duration
}

// A share is units on a slot.
type share struct {
	slot  *modelSlot
	units int64
}

type modelLease struct {
	id                 lease.LeaseID
	fence              lease.Fence
	ttl                time.Duration
	expires, until     time.Duration
	progress           time.Duration
	live               bool
	renewed, heardFrom bool
	holder             lease.Holder
	boot               string
	parts              []*modelPart
	cleans             *modelPart
}

type modelPart struct {
	share
	of    *ask
	state lease.PartState
	terms lease.Terms
	// since is when the quarantine began, cleanable when cleaning may.
	since, cleanable time.Duration
	cleaner          *ask
}

func newModel(retention time.Duration) *model {
	return &model{now: 1, pools: map[string]*modelPool{}, boots: map[string]string{}, retention: retention}
}

// do runs a command.
func (m *model) do(cmd Command) {
	m.said, m.changed = map[uint64]string{}, map[string]bool{}
	switch c := cmd.(type) {
	case Acquire:
		m.acquire(c)
	case Leave:
		m.leave(c)
	case Cancel:
		m.cancel(c)
	case Renew:
		m.renew(c)
	case Release:
		m.release(c)
	case Abandon:
		m.abandon(c)
	case Progress:
		m.progress(c)
	case Revoke:
		m.revoke(c)
	case Clear:
		m.clear(c)
	case ProveBoot:
		m.proveBoot(c)
	case ProveTree:
		m.proveTree(c)
	case Clean:
		m.clean(c)
	case Health:
		m.health(c)
	case Drain:
		m.drain(c.Call, c.Pool, c.Slot, true)
	case Undrain:
		m.drain(c.Call, c.Pool, c.Slot, false)
	case Apply:
		m.apply(c)
	case Restart:
		m.restart(c)
	case Tick:
		m.tick()
	}
	m.settle()
	m.forget()
}

func (m *model) say(call uint64, format string, args ...any) {
	m.said[call] = fmt.Sprintf(format, args...)
}

func (m *model) refuse(call uint64, code lease.Code) { m.say(call, "%s", code) }

// settle goes on until nothing changes any more.
func (m *model) settle() {
	for {
		m.dropIdle()
		if len(m.changed) > 0 {
			m.decide()
		}
		if !m.answerImpatient() {
			return
		}
	}
}

// acquire takes a request in, or answers one that is known.
func (m *model) acquire(c Acquire) {
	a := m.find(c.Request.ID)
	switch {
	case a == nil:
		a = m.newAsk(c.Request.ID, c.Digest)
		a.request = c.Request
		if code := m.impossible(c.Request); code != "" {
			m.end(a, code)
			m.refuse(c.Call, code)
			return
		}
		a.waiting = true
		m.listen(a, c)
	case a.digest != (lease.Digest{}) && a.digest != c.Digest:
		m.refuse(c.Call, lease.CodeRequestMismatch)
	case a.ended != "":
		m.refuse(c.Call, a.ended)
	case a.held != nil:
		m.say(c.Call, "%s", m.token(a, m.now))
	default:
		m.listen(a, c)
		if a.kept != nil {
			m.grant(a, a.kept) // for all others nothing changes
		}
	}
}

func (m *model) find(id lease.RequestID) *ask {
	i := slices.IndexFunc(m.asks, func(a *ask) bool { return a.id == id })
	if i < 0 {
		return nil
	}
	return m.asks[i]
}

func (m *model) newAsk(id lease.RequestID, digest lease.Digest) *ask {
	m.number++
	a := &ask{number: m.number, id: id, digest: digest, arrived: m.now}
	m.asks = append(m.asks, a)
	return a
}

// impossible says why the pools can never grant the request, or "".
func (m *model) impossible(r lease.Request) lease.Code {
	for _, c := range r.Claims {
		if p := m.pools[c.Pool]; p == nil || p.removing {
			return lease.CodePoolUnknown
		}
	}
	for _, c := range r.Claims {
		s := m.pools[c.Pool].settings
		if r.TTL > s.MaxTTL || s.MaxHold > 0 && r.MaxHold > s.MaxHold {
			return lease.CodeTTLOutOfRange
		}
	}
	if !m.satisfiable(r) {
		return lease.CodeUnsatisfiable
	}
	return ""
}

// satisfiable judges against all slots that are not marked for removal.
func (m *model) satisfiable(r lease.Request) bool {
	for _, c := range r.Claims {
		n := 0
		for _, s := range m.slots {
			if s.pool == c.Pool && !s.removing && matches(s, c) && s.capacity >= c.Units {
				n++
			}
		}
		if p := m.pools[c.Pool]; p == nil || p.removing || n < c.Count {
			return false
		}
	}
	return true
}

func matches(s *modelSlot, c lease.Claim) bool {
	for k, v := range c.Select {
		if s.labels[k] != v {
			return false
		}
	}
	return true
}

func (m *model) listen(a *ask, c Acquire) {
	a.calls = append(a.calls, call{c.Call, m.now, m.now + min(c.Poll, lease.MaxPoll)})
	a.nextID, a.fresh = c.LeaseID, a.fresh || c.Poll == 0 || a.request.Wait == 0
	m.attend(a)
}

// attend brings a waiter's presence up to date.
func (m *model) attend(a *ask) {
	present := len(a.calls) > 0 || m.now < a.grace
	if present == a.present {
		return
	}
	if !present {
		m.touch(a)
		a.absent = m.now
		if a.grace > 0 {
			a.absent = a.grace
		}
	}
	a.present, a.kept = present, nil
	m.touch(a)
}

// touch has the pools decided anew that a present waiter claims. Behind
// another that claims the same it makes no difference.
func (m *model) touch(a *ask) {
	if !a.present || a.kept == nil && m.behindItsLike(a) {
		return
	}
	for _, c := range a.request.Claims {
		m.changed[c.Pool] = true
	}
}

func (m *model) behindItsLike(a *ask) bool {
	return slices.ContainsFunc(m.ranked(), func(o *ask) bool {
		return o != a && o.kept == nil && before(o, a) && fmt.Sprint(o.request.Claims) == fmt.Sprint(a.request.Claims)
	})
}

func (m *model) leave(c Leave) {
	a := m.find(c.ID)
	if a == nil || !a.waiting {
		return
	}
	i := slices.IndexFunc(a.calls, func(o call) bool { return o.id == c.Call })
	if i < 0 {
		return
	}
	if a.calls = slices.Delete(a.calls, i, i+1); len(a.calls) == 0 {
		a.grace = 0
	}
	m.attend(a)
}

func (m *model) cancel(c Cancel) {
	a := m.find(c.ID)
	switch {
	case a == nil:
		m.end(m.newAsk(c.ID, lease.Digest{}), lease.CodeCancelled)
	case a.waiting:
		m.endWaiting(a, lease.CodeCancelled)
	case a.held != nil && a.held.live:
		unused := c.Unused && !a.held.renewed && a.held.heardFrom
		if unused && a.held.cleans == nil {
			m.endLease(a, lease.CodeLeaseReleased)
			break
		}
		m.endLease(a, lease.CodeLeaseAbandoned)
		if unused {
			m.cleanerStopped(a)
		}
	}
	m.say(c.Call, "done")
}

// end ends a request that has no lease.
func (m *model) end(a *ask, code lease.Code) {
	a.waiting, a.ended, a.settled = false, code, m.now
}

func (m *model) endWaiting(a *ask, code lease.Code) {
	m.touch(a)
	m.end(a, code)
	for _, c := range a.calls {
		m.refuse(c.id, code)
	}
	a.calls, a.kept, a.present = nil, nil, false
}

// answerImpatient ends, once all is decided, what may not wait of those who
// called just now: a request that does not wait, a call that is over.
func (m *model) answerImpatient() bool {
	for _, a := range m.asks {
		if !a.fresh || !a.waiting {
			a.fresh = false
			continue
		}
		a.fresh = false
		if a.request.Wait == 0 {
			m.endWaiting(a, lease.CodeNoCapacity)
		} else {
			m.tickWaiting(a)
		}
	}
	return len(m.changed) > 0
}

// endPolls answers calls with queued: the waiter stays present for 5 s.
func (m *model) endPolls(a *ask, over func(call) bool) {
	for _, c := range a.calls {
		if over(c) {
			m.refuse(c.id, lease.CodeQueued)
			a.grace = max(a.grace, m.now+AskWithin)
		}
	}
	a.calls = slices.DeleteFunc(a.calls, over)
}

// forget drops what ended long enough ago.
func (m *model) forget() {
	m.asks = slices.DeleteFunc(m.asks, func(a *ask) bool { return a.settled > 0 && a.settled+m.retention <= m.now })
}

func (m *model) token(a *ask, arrived time.Duration) string {
	l := a.held
	var at []string
	for _, p := range l.parts {
		at = append(at, fmt.Sprintf("%s:%d", place(p.slot.pool, p.slot.id), p.units))
	}
	return fmt.Sprintf("%s %d left %v elapsed %v on %s", string(l.id), l.fence, max(0, l.expires-m.now), m.now-arrived, strings.Join(at, " "))
}

// view shows all there is, one line a request and a slot.
func (m *model) view() string {
	var b strings.Builder
	for _, s := range m.sortedSlots() {
		fmt.Fprintf(&b, "%s %d units, removing %t, settles %v\n", place(s.pool, s.id), s.capacity, s.removing, s.settles)
	}
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		fmt.Fprintf(&b, "pool %s removing %t\n", name, m.pools[name].removing)
	}
	for _, a := range m.asks {
		fmt.Fprintf(&b, "%d %s %s\n", a.number, string(a.id), a.view())
	}
	return b.String()
}

func (a *ask) view() string {
	var at []string
	for _, k := range a.kept {
		at = append(at, fmt.Sprintf("%s:%d reserved", place(k.slot.pool, k.slot.id), k.units))
	}
	if a.held != nil {
		for _, p := range a.held.parts {
			at = append(at, fmt.Sprintf("%s:%d %s", place(p.slot.pool, p.slot.id), p.units, p.state))
		}
	}
	where := strings.Join(at, " ")
	switch {
	case a.waiting && a.present:
		return "waits, present " + where
	case a.waiting:
		return "waits, absent"
	case a.held != nil && a.held.live:
		return fmt.Sprintf("holds until %v %s", a.held.expires, where)
	}
	return fmt.Sprintf("%s %s", a.ended, where)
}

func (m *model) sortedSlots() []*modelSlot {
	return slices.SortedFunc(slices.Values(m.slots), func(a, b *modelSlot) int {
		return strings.Compare(place(a.pool, a.id), place(b.pool, b.id))
	})
}
