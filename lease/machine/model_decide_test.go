package machine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// decide is invariant I7 by its words: in rank order, who can be granted is,
// and then all are looked at again. What was reserved is decided anew.
func (m *model) decide() {
	tied := m.tied()
	m.changed = map[string]bool{}
	for _, a := range m.ranked() {
		if tied[a.request.Claims[0].Pool] {
			a.kept = nil
		}
	}
	for m.decideNext(tied) {
	}
	m.changed = map[string]bool{}
}

// tied returns the changed pools and those that waiting claims tie to them.
func (m *model) tied() map[string]bool {
	tied := m.changed
	for grown := true; grown; {
		grown = false
		for _, a := range m.asks {
			if !a.waiting || !slices.ContainsFunc(a.request.Claims, func(c lease.Claim) bool { return tied[c.Pool] }) {
				continue
			}
			for _, c := range a.request.Claims {
				grown = grown || !tied[c.Pool]
				tied[c.Pool] = true
			}
		}
	}
	return tied
}

// ranked returns the present waiters in the order of their ranks.
func (m *model) ranked() []*ask {
	var all []*ask
	for _, a := range m.asks {
		if a.waiting && a.present {
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b *ask) int { return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.number, b.number)) })
	return all
}

func (a *ask) rank() int64 { return int64(a.arrived) - int64(a.request.Priority)*int64(RankStep) }

func (m *model) decideNext(tied map[string]bool) bool {
	for _, a := range m.ranked() {
		if a.kept != nil || !tied[a.request.Claims[0].Pool] {
			continue
		}
		picks := m.fits(a)
		switch {
		case picks == nil:
			continue
		case len(a.calls) > 0:
			m.grant(a, picks)
		default:
			a.kept = picks
		}
		return true
	}
	return false
}

// fits chooses slots for a waiter: from what the set-asides of the pools'
// first waiters leave, best fit, then longest unused, then id.
func (m *model) fits(a *ask) []share {
	var picks []share
	for _, c := range a.request.Claims {
		if p := m.pools[c.Pool]; p.drained || p.removing {
			return nil
		}
		aside := map[*modelSlot]int64{}
		if first := m.first(c.Pool); first != a {
			aside = m.setAside(first, c.Pool)
		}
		fit := m.matching(c)
		fit = slices.DeleteFunc(fit, func(s *modelSlot) bool { return m.free(s)-aside[s] < c.Units })
		slices.SortStableFunc(fit, func(s, t *modelSlot) int {
			return cmp.Or(cmp.Compare(m.free(s), m.free(t)), cmp.Compare(s.freed, t.freed), strings.Compare(s.id, t.id))
		})
		if len(fit) < c.Count {
			return nil
		}
		for _, s := range fit[:c.Count] {
			picks = append(picks, share{s, c.Units})
		}
	}
	return picks
}

// first is the pool's first present waiter that is not decided yet.
func (m *model) first(pool string) *ask {
	for _, a := range m.ranked() {
		if a.kept == nil && slices.ContainsFunc(a.request.Claims, func(c lease.Claim) bool { return c.Pool == pool }) {
			return a
		}
	}
	return nil
}

// setAside is what is kept for a pool's first waiter: its claim's units on
// the matching slots, large enough, with the most free units.
func (m *model) setAside(a *ask, pool string) map[*modelSlot]int64 {
	aside := map[*modelSlot]int64{}
	if a == nil {
		return aside
	}
	i := slices.IndexFunc(a.request.Claims, func(c lease.Claim) bool { return c.Pool == pool })
	c := a.request.Claims[i]
	most := slices.DeleteFunc(m.matching(c), func(s *modelSlot) bool { return s.capacity < c.Units })
	slices.SortStableFunc(most, func(s, t *modelSlot) int {
		return cmp.Or(cmp.Compare(m.free(t), m.free(s)), strings.Compare(s.id, t.id))
	})
	for _, s := range most[:min(c.Count, len(most))] {
		aside[s] = min(c.Units, m.free(s))
	}
	return aside
}

func (m *model) matching(c lease.Claim) []*modelSlot {
	var all []*modelSlot
	for _, s := range m.slots {
		if s.pool == c.Pool && matches(s, c) && m.free(s) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// free is what may be granted of a slot now.
func (m *model) free(s *modelSlot) int64 {
	if s.drained || s.removing || s.sick != "" || s.settles != 0 {
		return 0
	}
	free := s.capacity - m.used(s)
	for _, a := range m.asks {
		for _, k := range a.kept {
			if k.slot == s {
				free -= k.units
			}
		}
	}
	return max(0, free)
}

// used is what leases have of a slot, in whatever state but free. A cleaner
// has what the lease before it has.
func (m *model) used(s *modelSlot) int64 {
	used := int64(0)
	for _, a := range m.asks {
		if a.held == nil || a.held.cleans != nil {
			continue
		}
		for _, p := range a.held.parts {
			if p.slot == s && p.state != lease.PartFree {
				used += p.units
			}
		}
	}
	return used
}

// grant makes a waiter's lease.
func (m *model) grant(a *ask, picks []share) {
	r := a.request
	l := &modelLease{id: a.nextID, ttl: r.TTL, holder: r.Holder}
	var bound, hold, def = lease.LongestTTL, r.MaxHold, lease.LongestTTL
	for _, c := range r.Claims {
		s := m.pools[c.Pool].settings
		bound, def = min(bound, s.MaxTTL), min(def, s.TTL)
		if s.MaxHold > 0 && (hold == 0 || s.MaxHold < hold) {
			hold = s.MaxHold
		}
	}
	if l.ttl == 0 {
		l.ttl = def
	}
	l.ttl = min(l.ttl, bound)
	if hold > 0 {
		l.until = m.now + hold
	}
	for _, k := range picks {
		l.parts = append(l.parts, &modelPart{share: k, of: a, state: lease.PartHeld, terms: m.terms(k.slot.pool)})
	}
	m.begin(a, l)
	for _, c := range a.calls {
		m.say(c.id, "%s", m.token(a, c.arrived))
	}
	a.waiting, a.present, a.calls, a.kept = false, false, nil, nil
}

func (m *model) terms(pool string) lease.Terms {
	s := m.pools[pool].settings
	return lease.Terms{Handover: s.Handover, Clean: len(s.Clean) > 0, StallAfter: s.StallAfter, StallRevokes: s.StallRevokes}
}

func (m *model) begin(a *ask, l *modelLease) {
	m.fence++
	l.fence, l.live, l.heardFrom = m.fence, true, true
	l.boot, l.progress = m.boots[l.holder.Machine], m.now
	a.held = l
	m.extend(l)
}

func (m *model) extend(l *modelLease) {
	end := m.now + l.ttl
	if l.until > 0 {
		end = min(end, l.until)
	}
	l.expires = max(l.expires, end)
}
