package machine

import (
	"maps"

	"github.com/berth-dev/berth/lease"
)

// Apply declares all pools and slots of one source: what it no longer names
// is removed, or marked while its units are in use. It is checked whole, then
// adds and changes come first and removes last.
type Apply struct {
	Call   uint64
	Source lease.Source
	Pools  []lease.PoolSpec
	// DryRun only answers with what would change.
	DryRun    bool
	StoreFull bool
}

func (c Apply) run(m *Machine) {
	if c.StoreFull && !c.DryRun {
		m.refuse(c.Call, lease.CodeStoreFull, "cannot apply: the broker's store is nearly full; free space on its disk and apply again")
		return
	}
	m.work.applies = append(m.work.applies, &applying{Apply: c})
}

// An applying is an apply under way.
type applying struct {
	Apply
	started bool
	jobs    []func()
	diff    lease.Diff
	touched map[*pool]bool
}

// doApplies works the applies off, one after the other.
func (m *Machine) doApplies() bool {
	for len(m.work.applies) > 0 {
		a := m.work.applies[0]
		if !m.doApply(a) {
			return false
		}
		m.work.applies = m.work.applies[1:]
	}
	m.work.applies = nil
	return true
}

func (m *Machine) doApply(a *applying) bool {
	if !a.started {
		if err := m.plan(a); err != nil {
			m.answer(Answer{Call: a.Call, Err: err})
			return true
		}
		a.started = true
	}
	for len(a.jobs) > 0 && !a.DryRun {
		if !m.room() {
			return false
		}
		a.jobs[0]()
		a.jobs = a.jobs[1:]
	}
	m.finishApply(a)
	return true
}

// finishApply judges the waiters after the last change and answers.
func (m *Machine) finishApply(a *applying) {
	for p := range m.inOrder(a.touched) {
		m.doom(p)
		m.touchPool(p)
		m.dropEmpty(p)
	}
	diff := a.diff
	m.answer(Answer{Call: a.Call, Diff: &diff})
}

// plan checks an apply whole and lists its changes.
func (m *Machine) plan(a *applying) *lease.Error {
	a.touched = map[*pool]bool{}
	names := map[string]bool{}
	var removes []func()
	for _, spec := range a.Pools {
		if names[spec.Name] {
			return lease.Errorf(lease.CodePoolsInvalid, "cannot apply: pool %q is named twice", clip(spec.Name))
		}
		names[spec.Name] = true
		if err := m.planPool(a, spec, &removes); err != nil {
			return err
		}
	}
	m.planMissing(a, names, &removes)
	a.jobs = append(a.jobs, removes...)
	return nil
}

func (m *Machine) planPool(a *applying, spec lease.PoolSpec, removes *[]func()) *lease.Error {
	if !lease.ValidName(spec.Name) {
		return lease.Errorf(lease.CodeNameInvalid, "cannot apply: pool name %q must match [A-Za-z0-9_.:-]{1,128}", clip(spec.Name))
	}
	p, _ := m.pools.Get(spec.Name)
	if err := m.planSettings(a, spec, p); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, s := range spec.Slots {
		if wanted[s.ID] {
			return lease.Errorf(lease.CodePoolsInvalid, "cannot apply: slot %s/%s is named twice", spec.Name, clip(s.ID))
		}
		wanted[s.ID] = true
		if err := m.planSlot(a, spec.Name, p, s); err != nil {
			return err
		}
	}
	if p != nil {
		m.planRemoves(a, p, wanted, removes)
	}
	return nil
}

func (m *Machine) planSettings(a *applying, spec lease.PoolSpec, p *pool) *lease.Error {
	if spec.Settings == nil {
		if p == nil || p.Removing {
			return lease.Errorf(lease.CodePoolUnknown, "cannot apply: there is no pool %q to add slots to; declare its settings first", spec.Name)
		}
		return nil
	}
	settings, err := spec.Settings.Checked()
	switch {
	case err != nil:
		return lease.Errorf(lease.CodePoolsInvalid, "cannot apply: pool %s: %v", spec.Name, err)
	case p != nil && p.Source != "" && p.Source != a.Source:
		return lease.Errorf(lease.CodeSourceForeign, "cannot apply: pool %s is declared by source %s; change it there, or give only slots", spec.Name, p.Source)
	case p == nil:
		a.diff.Added = append(a.diff.Added, "pool "+spec.Name)
	case p.Removing || !p.Settings.Equal(settings):
		a.diff.Changed = append(a.diff.Changed, "pool "+spec.Name)
	default:
		return nil
	}
	name, source := spec.Name, a.Source
	a.jobs = append(a.jobs, func() { m.setPool(a, name, source, settings) })
	return nil
}

func (m *Machine) setPool(a *applying, name string, source lease.Source, settings lease.Settings) {
	p, ok := m.pools.Get(name)
	if !ok {
		p = newPool(lease.Pool{Name: name})
		m.pools.Set(name, p)
	}
	p.Source, p.Settings, p.Removing = source, settings, false
	p.setTerms()
	m.put(&p.Pool)
	a.touched[p] = true
	m.tellPlace(EventPool, name, "", "applied", "")
}

func (m *Machine) planSlot(a *applying, poolName string, p *pool, spec lease.SlotSpec) *lease.Error {
	what := "cannot apply: slot " + poolName + "/" + clip(spec.ID)
	spec.Capacity = orOne(spec.Capacity)
	spec.Labels = maps.Clone(spec.Labels)
	if !lease.ValidName(spec.ID) {
		return lease.Errorf(lease.CodeNameInvalid, "%s: the id must match [A-Za-z0-9_.:-]{1,128}", what)
	}
	if spec.Capacity < 1 || spec.Capacity > lease.MaxUnits {
		return lease.Errorf(lease.CodePoolsInvalid, "%s: %d units; give 1 to %d", what, spec.Capacity, int64(lease.MaxUnits))
	}
	if err := lease.CheckLabels(what, spec.Labels); err != nil {
		return lease.Errorf(lease.CodeOf(err), "%v", err)
	}
	var s *slot
	if p != nil {
		s, _ = p.slots.Get(spec.ID)
	}
	switch {
	case s == nil:
		a.diff.Added = append(a.diff.Added, "slot "+poolName+"/"+spec.ID)
	case s.Source != a.Source:
		return lease.Errorf(lease.CodeSourceForeign, "%s is declared by source %s; change it there", what, s.Source)
	case s.Removing || s.Capacity != spec.Capacity || !maps.Equal(s.Labels, spec.Labels):
		a.diff.Changed = append(a.diff.Changed, "slot "+poolName+"/"+spec.ID)
	default:
		return nil
	}
	a.jobs = append(a.jobs, func() { m.setSlot(a, poolName, spec) })
	return nil
}

func orOne(n int64) int64 {
	if n == 0 {
		return 1
	}
	return n
}

func (m *Machine) setSlot(a *applying, poolName string, spec lease.SlotSpec) {
	p, _ := m.pools.Get(poolName)
	a.touched[p] = true
	s, ok := p.slots.Get(spec.ID)
	if !ok {
		// It counts as unused from now on, also if it was here before.
		s = &slot{Slot: lease.Slot{Pool: poolName, ID: spec.ID, Source: a.Source, Freed: m.now}, pool: p, freed: m.now}
		p.slots.Set(spec.ID, s)
		if m.settleFrom > 0 {
			m.keepBack(s)
			m.wake(s)
		}
	}
	p.readmit(s, func() { s.Labels, s.Capacity, s.Removing = spec.Labels, spec.Capacity, false })
	m.put(&s.Slot)
	m.touchPool(p)
	m.tellPlace(EventSlot, poolName, spec.ID, "applied", "")
}

// planMissing removes what the source declared before and no longer does.
func (m *Machine) planMissing(a *applying, named map[string]bool, removes *[]func()) {
	m.pools.Scan(func(name string, p *pool) bool {
		if named[name] {
			return true
		}
		m.planRemoves(a, p, nil, removes)
		if p.Source == a.Source && !p.Removing {
			a.diff.Removed = append(a.diff.Removed, "pool "+name)
			*removes = append(*removes, func() { m.removePool(a, p) })
		}
		return true
	})
}

// planRemoves removes the source's slots of a pool that are not wanted.
func (m *Machine) planRemoves(a *applying, p *pool, wanted map[string]bool, removes *[]func()) {
	p.slots.Scan(func(id string, s *slot) bool {
		if s.Source != a.Source || wanted[id] || s.Removing {
			return true
		}
		if s.used > 0 {
			a.diff.Marked = append(a.diff.Marked, "slot "+p.Name+"/"+id)
		} else {
			a.diff.Removed = append(a.diff.Removed, "slot "+p.Name+"/"+id)
		}
		*removes = append(*removes, func() { m.removeSlot(a, s) })
		return true
	})
}

// removeSlot removes a slot, or marks it while units of it are in use.
func (m *Machine) removeSlot(a *applying, s *slot) {
	a.touched[s.pool] = true
	s.pool.readmit(s, func() { s.Removing = true })
	m.touchPool(s.pool)
	if s.used == 0 {
		m.dropSlot(s)
		return
	}
	m.put(&s.Slot)
	m.tellPlace(EventSlot, s.Pool, s.ID, "removing", "")
}

func (m *Machine) removePool(a *applying, p *pool) {
	p.Removing, p.Source = true, ""
	m.put(&p.Pool)
	a.touched[p] = true
	m.tellPlace(EventPool, p.Name, "", "removing", "")
}

// doom has all shapes that wait on a pool judged.
func (m *Machine) doom(p *pool) {
	for _, sh := range p.shapes {
		if !sh.satisfiable() {
			m.work.doomed = append(m.work.doomed, sh)
		}
	}
}

// endShape ends the shape's waiters as far as there is room.
func (m *Machine) endShape(sh *shape) bool {
	for len(sh.waiters) > 0 {
		if !m.room() {
			return false
		}
		m.endWaiting(sh.waiters[len(sh.waiters)-1], lease.EndUnsatisfiable)
	}
	return true
}

// inOrder yields pools by name.
func (m *Machine) inOrder(pools map[*pool]bool) func(func(*pool) bool) {
	return func(yield func(*pool) bool) {
		m.pools.Copy().Scan(func(_ string, p *pool) bool { return !pools[p] || yield(p) })
	}
}
