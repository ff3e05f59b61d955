package machine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
)

// byRef finds a lease on which units still depend, or refuses the call.
func (m *model) byRef(call uint64, ref lease.Ref) *ask {
	for _, a := range m.asks {
		if a.held == nil || a.held.id.Ref() != ref {
			continue
		}
		if a.settled == 0 || a.held.cleans != nil && a.held.cleans.cleaner == a && a.held.cleans.state != lease.PartFree {
			return a
		}
	}
	m.refuse(call, lease.CodeLeaseUnknown)
	return nil
}

func (m *model) revoke(c Revoke) {
	a := m.byRef(c.Call, c.Lease)
	switch {
	case a == nil:
	case !a.held.live:
		m.refuse(c.Call, a.ended)
	default:
		m.endLease(a, lease.CodeLeaseRevoked)
		m.say(c.Call, "done")
	}
}

func (m *model) clear(c Clear) {
	if c.Lease == "" {
		m.clearSettling(c)
		return
	}
	p := m.partOn(c.Call, c.Pool, c.Slot, c.Lease)
	switch {
	case p == nil:
	case p.state != lease.PartQuarantined:
		m.refuse(c.Call, lease.CodeLeaseStands)
	default:
		m.giveBack(p)
		m.settled(p.of)
		m.say(c.Call, "done")
	}
}

func (m *model) clearSettling(c Clear) {
	s := m.slot(c.Call, c.Pool, c.Slot)
	switch {
	case s == nil:
	case s.settles == 0:
		m.refuse(c.Call, lease.CodeNotQuarantined)
	default:
		s.settles = 0
		m.changed[s.pool] = true
		m.say(c.Call, "done")
	}
}

func (m *model) proveBoot(c ProveBoot) {
	m.say(c.Call, "done")
	if m.boots[c.Machine] == c.Boot {
		return
	}
	if m.boots[c.Machine] != c.Was {
		m.refuse(c.Call, lease.CodeProofRefused) // it was overtaken
		return
	}
	m.boots[c.Machine] = c.Boot
	// Cleaners first: what is known of the holder counts only after them.
	for _, cleaners := range []bool{true, false} {
		for _, a := range m.asks {
			if a.held == nil || a.held.live || !m.booted(a.held) || (a.held.cleans != nil) != cleaners {
				continue
			}
			if cleaners {
				m.cleanerStopped(a)
				continue
			}
			for _, p := range a.held.parts {
				m.proved(p, lease.ProofBoot)
			}
			m.settled(a)
		}
	}
}

func (m *model) proveTree(c ProveTree) {
	a := m.byRef(c.Call, c.Lease)
	switch {
	case a == nil:
	case !trusted(c, a.held.holder):
		m.refuse(c.Call, lease.CodeProofRefused)
	case a.held.live:
		m.refuse(c.Call, lease.CodeLeaseStands)
	case a.held.cleans != nil:
		m.cleanerStopped(a)
		m.say(c.Call, "done")
	default:
		any := false
		for _, p := range a.held.parts {
			any = m.proved(p, lease.ProofTree) || any
		}
		m.settled(a)
		m.say(c.Call, "done")
		if !any {
			m.refuse(c.Call, lease.CodeProofRefused)
		}
	}
}

func trusted(c ProveTree, h lease.Holder) bool {
	return h.Named() && h.Machine == c.Machine && h.Process.Namespace == c.PIDNamespace && h.Cgroup.Namespace == c.CgroupNamespace &&
		c.Seen && (c.Removed || c.WrapperGone && c.CgroupGone)
}

func (m *model) health(c Health) {
	s := m.slot(c.Call, c.Pool, c.Slot)
	if s == nil {
		return
	}
	if s.sick != c.Why {
		s.sick = c.Why
		m.changed[s.pool] = true
	}
	m.say(c.Call, "done")
}

func (m *model) drain(call uint64, pool, slot string, drained bool) {
	p := m.pools[pool]
	at := (*bool)(nil)
	switch {
	case p == nil:
		m.refuse(call, lease.CodePoolUnknown)
		return
	case slot == "":
		at = &p.drained
	default:
		s := m.slot(call, pool, slot)
		if s == nil {
			return
		}
		at = &s.drained
	}
	if *at != drained {
		*at = drained
		m.changed[pool] = true
	}
	m.say(call, "done")
}

// apply declares all pools and slots: the model knows one source only.
func (m *model) apply(c Apply) {
	named := map[string]bool{}
	touched := map[string]bool{}
	for _, spec := range c.Pools {
		named[spec.Name] = true
		m.applyPool(spec, touched)
	}
	for _, spec := range c.Pools {
		wanted := map[string]bool{}
		for _, s := range spec.Slots {
			wanted[s.ID] = true
		}
		m.removeSlots(spec.Name, wanted, touched)
	}
	for name, p := range m.pools {
		if !named[name] {
			m.removeSlots(name, nil, touched)
			if !p.removing {
				p.removing, touched[name] = true, true
			}
		}
	}
	m.dropIdle()
	for _, a := range m.asks {
		if a.waiting && slices.ContainsFunc(a.request.Claims, func(c lease.Claim) bool { return touched[c.Pool] }) && !m.satisfiable(a.request) {
			m.endWaiting(a, lease.CodeUnsatisfiable)
		}
	}
	for name := range touched {
		m.changed[name] = true
	}
	m.say(c.Call, "done")
}

func (m *model) applyPool(spec lease.PoolSpec, touched map[string]bool) {
	settings, _ := spec.Settings.Checked()
	p := m.pools[spec.Name]
	if p == nil {
		p = &modelPool{name: spec.Name, removing: true}
		m.pools[spec.Name] = p
	}
	if p.removing || !p.settings.Equal(settings) {
		p.settings, p.removing, touched[spec.Name] = settings, false, true
	}
	for _, s := range spec.Slots {
		i := slices.IndexFunc(m.slots, func(o *modelSlot) bool { return o.pool == spec.Name && o.id == s.ID })
		if i < 0 {
			i = len(m.slots)
			m.slots = append(m.slots, &modelSlot{pool: spec.Name, id: s.ID, removing: true, freed: m.now})
			m.keepBack(m.slots[i])
		}
		at := m.slots[i]
		if at.removing || at.capacity != max(s.Capacity, 1) || !sameLabels(at.labels, s.Labels) {
			at.removing, at.capacity, at.labels, touched[spec.Name] = false, max(s.Capacity, 1), s.Labels, true
		}
	}
}

func sameLabels(a, b map[string]string) bool {
	return len(a) == len(b) && (len(a) == 0 || a["k"] == b["k"])
}

func (m *model) removeSlots(pool string, wanted, touched map[string]bool) {
	for _, s := range m.slots {
		if s.pool == pool && !wanted[s.id] && !s.removing {
			s.removing, touched[pool] = true, true
		}
	}
}

// dropIdle removes what is marked for removal and not in use.
func (m *model) dropIdle() {
	m.slots = slices.DeleteFunc(m.slots, func(s *modelSlot) bool { return s.removing && m.used(s) == 0 })
	for name, p := range m.pools {
		slots := slices.ContainsFunc(m.slots, func(s *modelSlot) bool { return s.pool == name })
		waiters := slices.ContainsFunc(m.asks, func(a *ask) bool {
			return a.waiting && slices.ContainsFunc(a.request.Claims, func(c lease.Claim) bool { return c.Pool == name })
		})
		if p.removing && !slots && !waiters {
			delete(m.pools, name)
		}
	}
}

// restart: waiters are present for 5 s, and every lease gets one full TTL if
// it was heard from since the start before.
func (m *model) restart(c Restart) {
	m.fence = max(m.fence+1, lease.Fence(c.Fence))
	for _, a := range m.asks {
		a.calls, a.kept, a.present = nil, nil, false
		if a.waiting {
			a.grace = m.now + AskWithin
			m.attend(a)
		}
		if l := a.held; l != nil && l.live {
			if l.heardFrom {
				m.extend(l)
			}
			l.heardFrom, l.renewed, l.progress = false, false, m.now
		}
	}
	if c.Settle {
		m.settlesFrom = m.now
	}
	for _, s := range m.slots {
		if c.Settle {
			m.keepBack(s)
		}
		m.changed[s.pool] = true
	}
}

// keepBack makes a slot settle after a restore, a new one too.
func (m *model) keepBack(s *modelSlot) {
	h := m.pools[s.pool].settings
	until := m.settlesFrom + h.MaxTTL + max(h.Handover.Delay(), h.Handover.Max)
	if m.settlesFrom > 0 && until > m.now {
		s.settles = max(s.settles, until)
	}
}

// tick lets all that is due happen, until nothing more is.
func (m *model) tick() {
	for _, s := range m.slots {
		if s.settles != 0 && m.now >= s.settles {
			s.settles = 0
			m.changed[s.pool] = true
		}
	}
	for _, a := range m.asks {
		switch {
		case a.waiting:
			m.tickWaiting(a)
		case a.held != nil && a.held.live:
			m.tickHeld(a)
		}
	}
	for _, a := range m.asks {
		if a.held == nil || a.held.live || a.held.cleans != nil {
			continue
		}
		for _, p := range a.held.parts {
			h := p.terms.Handover
			if p.state == lease.PartQuarantined && !p.terms.Clean && h.Proofs == 0 && m.now >= a.held.expires+h.Delay() {
				m.giveBack(p)
			}
		}
		m.settled(a)
	}
}

func (m *model) tickWaiting(a *ask) {
	if a.request.Wait > 0 && m.now >= a.arrived+a.request.Wait {
		m.endWaiting(a, lease.CodeTimedOut)
		return
	}
	m.endPolls(a, func(c call) bool { return c.ends <= m.now })
	m.attend(a)
	if !a.present && m.now >= a.absent+AbsentFor {
		m.endWaiting(a, lease.CodeAbsent)
	}
}

func (m *model) tickHeld(a *ask) {
	l := a.held
	stall := time.Duration(0)
	for _, p := range l.parts {
		if t := p.terms; t.StallRevokes && (stall == 0 || t.StallAfter < stall) {
			stall = t.StallAfter
		}
	}
	switch {
	case l.until > 0 && m.now >= l.until && l.expires >= l.until:
		m.endLease(a, lease.CodeLeaseRevoked)
	case m.now >= l.expires:
		m.endLease(a, lease.CodeLeaseExpired)
	case stall > 0 && m.now >= l.progress+stall:
		m.endLease(a, lease.CodeLeaseRevoked)
	}
}
