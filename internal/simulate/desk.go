package simulate

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A desk is where the operators sit. They know the truth about work before
// they clear a slot, and say it.
type desk struct {
	w     *World
	link  *link
	pools []*poolSpec
}

func newDesk(w *World) *desk {
	return &desk{w: w, link: &link{w: w, id: 2000}, pools: newPools()}
}

func (k *desk) pool(name string) *poolSpec {
	for _, p := range k.pools {
		if p.name == name {
			return p
		}
	}
	return nil
}

// apply declares all that one source has, as it is meant to be now.
func (k *desk) apply(source lease.Source, dry bool) {
	var specs []lease.PoolSpec
	for _, p := range k.pools {
		if p.gone {
			continue
		}
		spec := lease.PoolSpec{Name: p.name}
		if p.source == source {
			settings := p.settings
			spec.Settings = &settings
		}
		for _, s := range p.slots {
			if s.source == source && !s.gone {
				spec.Slots = append(spec.Slots, lease.SlotSpec{ID: s.id, Labels: s.labels, Capacity: s.capacity})
			}
		}
		if spec.Settings != nil || len(spec.Slots) > 0 {
			specs = append(specs, spec)
		}
	}
	k.link.ask(nil, "apply", key{}, func(call uint64) machine.Command {
		return machine.Apply{Call: call, Source: source, Pools: specs, DryRun: dry, StoreFull: k.w.server.full}
	}, nil)
}

func (k *desk) applyAll() {
	for _, source := range []lease.Source{lease.SourceFile, lease.SourceAPI, lease.SourceAgent + "host0"} {
		k.apply(source, false)
	}
}

func (k *desk) drain(pool, slot string, drained bool) {
	if !drained {
		k.link.ask(nil, "undrain", key{pool: pool}, func(call uint64) machine.Command {
			return machine.Undrain{Call: call, Pool: pool, Slot: slot}
		}, nil)
		return
	}
	k.link.ask(nil, "drain", key{pool: pool}, func(call uint64) machine.Command {
		return machine.Drain{Call: call, Pool: pool, Slot: slot}
	}, nil)
}

func (k *desk) health(pool, slot, why string) {
	k.link.ask(nil, "health", key{pool: pool}, func(call uint64) machine.Command {
		return machine.Health{Call: call, Pool: pool, Slot: slot, Why: why}
	}, nil)
}

func (k *desk) show() {
	k.link.ask(nil, "show", key{}, func(call uint64) machine.Command { return machine.Show{Call: call} }, nil)
}

// revoke ends somebody's lease.
func (k *desk) revoke(p *page) {
	ref := p.Lease.ID.Ref()
	k.link.ask(nil, "revoke", p.key, func(call uint64) machine.Command {
		return machine.Revoke{Call: call, Lease: ref, Reason: "needed elsewhere"}
	}, nil)
	if k.w.cfg.Fault == EarlyHandover {
		for i, part := range p.Lease.Parts {
			if part.Terms.Handover.Proofs != 0 {
				continue
			}
			k.w.after(300*time.Millisecond, func() { k.sendClear(p, i) })
		}
	}
}

// clear ends a quarantine, if the work has really stopped and cannot begin
// any more.
func (k *desk) clear(p *page, i int) {
	if k.mayRun(p) {
		return
	}
	k.sendClear(p, i)
}

func (k *desk) sendClear(p *page, i int) {
	part := p.Lease.Parts[i]
	ref := p.Lease.ID.Ref()
	k.link.ask(nil, "clear", p.key, func(call uint64) machine.Command {
		return machine.Clear{Call: call, Pool: part.Pool, Slot: part.Slot, Lease: ref}
	}, nil)
}

// mayRun reports whether work under the lease runs or may still begin.
func (k *desk) mayRun(p *page) bool {
	if slices.ContainsFunc(k.w.truth.all, func(o *work) bool { return o.lease == p.Lease.ID || o.cleans == p.Lease.ID }) {
		return true
	}
	j := k.w.jobs[p.Lease.ID]
	if j == nil {
		// Nobody has the token yet, and an acquire or cleaning may be under way.
		return slices.ContainsFunc(k.w.clients, func(c *client) bool { return c.job != nil && c.job.key == p.key })
	}
	return j.alive() && j.work == nil
}

// clearSettling ends what a restore keeps back, if no work runs on the slot.
func (k *desk) clearSettling(s *shelf) {
	if len(k.w.truth.on(s.at)) > 0 || k.anyoneMayBegin(s.at) {
		return
	}
	at := s.at
	k.link.ask(nil, "clear", key{pool: at.pool}, func(call uint64) machine.Command {
		return machine.Clear{Call: call, Pool: at.pool, Slot: at.slot}
	}, nil)
}

// anyoneMayBegin reports whether a process with a token for the slot has not
// begun its work yet.
func (k *desk) anyoneMayBegin(at place) bool {
	for _, c := range k.w.clients {
		j := c.job
		if j == nil || j.work != nil {
			continue
		}
		for _, s := range j.token.Slots {
			if (place{s.Pool, s.ID}) == at {
				return true
			}
		}
	}
	return false
}

// restore puts the last backup in the place of everything, and starts the
// broker so that it keeps all slots back.
func (k *desk) restore() {
	if k.w.disk.backup == nil {
		return
	}
	k.w.server.crash(false)
	k.w.disk.restore()
	k.w.check.restored()
	k.w.server.restartIn(2 * time.Second)
}
