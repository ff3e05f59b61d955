package machine

import (
	"github.com/tidwall/btree"

	"github.com/berth-dev/berth/lease"
)

// A pool is a named set of slots and the queue before them.
type pool struct {
	lease.Pool
	slots btree.Map[string, *slot]
	// views index the slots by selector, the whole pool first.
	views []*view
	// terms are what a lease granted now keeps until its end.
	terms *lease.Terms
	// shapes are the different claims that wait here.
	shapes []*shape
	// queued holds all waiters, reserved those whose units wait for their
	// client to ask; eligible counts those to be decided.
	queued, reserved queue
	eligible         int
	// head is the first of those to be decided, while that is under way.
	head *entry
}

func newPool(rec lease.Pool) *pool {
	p := &pool{Pool: rec, queued: newQueue(), reserved: newQueue()}
	p.views = []*view{newView(nil, "")}
	p.setTerms()
	return p
}

func (p *pool) setTerms() {
	s := p.Settings
	p.terms = &lease.Terms{Handover: s.Handover, Clean: len(s.Clean) > 0, StallAfter: s.StallAfter, StallRevokes: s.StallRevokes}
}

// closed reports whether nothing of the pool is granted.
func (p *pool) closed() bool { return p.Drained || p.Removing }

// contested reports whether somebody is to be decided before a newcomer.
func (p *pool) contested() bool { return p.eligible > 0 || p.reserved.len() > 0 }

// view returns the index for a selector, made at its first use with one pass
// over the pool's slots.
func (m *Machine) view(p *pool, sel map[string]string) *view {
	key := selectorKey(sel)
	for _, v := range p.views {
		if v.key == key {
			v.used = m.step
			return v
		}
	}
	m.dropView(p)
	v := newView(sel, key)
	v.used = m.step
	p.views = append(p.views, v)
	p.slots.Scan(func(_ string, s *slot) bool {
		v.admit(s)
		return true
	})
	return v
}

// dropView forgets the index that was unused for longest, where there are too
// many that nobody waits for.
func (m *Machine) dropView(p *pool) {
	idle, oldest := 0, -1
	for i, v := range p.views {
		if i == 0 || v.waiting > 0 {
			continue
		}
		idle++
		if oldest < 0 || v.used < p.views[oldest].used {
			oldest = i
		}
	}
	if idle >= m.cfg.Views {
		p.dropView(oldest)
	}
}

func (p *pool) dropView(i int) {
	v := p.views[i]
	p.views = append(p.views[:i], p.views[i+1:]...)
	p.slots.Scan(func(_ string, s *slot) bool {
		s.forget(v)
		return true
	})
}

// dropEmpty removes a pool that is to go and has no slot left.
func (m *Machine) dropEmpty(p *pool) {
	if !p.Removing || p.slots.Len() > 0 || p.queued.len() > 0 {
		return
	}
	if at, _ := m.pools.Get(p.Name); at != p {
		return // it is gone already
	}
	m.pools.Delete(p.Name)
	m.del(&p.Pool)
	m.tellPlace(EventPool, p.Name, "", "removed", "")
}
