package simulate

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// drawApply changes what the operators want, and declares it.
func drawApply(w *World, _ int, d dice) op {
	p := w.desk.pools[d.IntN(len(w.desk.pools))]
	s := &p.slots[d.IntN(len(p.slots))]
	dry := d.in(0.1)
	switch f := d.Float64(); {
	case f < 0.4:
		gone := d.in(0.3)
		return op{fmt.Sprintf("slot %s/%s is dropped: %v", p.name, s.id, gone), func() { s.gone = gone; w.desk.apply(s.source, dry) }}
	case f < 0.55:
		capacity := int64(1 + d.IntN(6))
		return op{fmt.Sprintf("slot %s/%s has capacity %d", p.name, s.id, capacity), func() { s.capacity = capacity; w.desk.apply(s.source, dry) }}
	case f < 0.7:
		model := pick(d, "a", "b")
		return op{fmt.Sprintf("slot %s/%s is model %s", p.name, s.id, model), func() {
			s.labels = map[string]string{"model": model}
			w.desk.apply(s.source, dry)
		}}
	case f < 0.78:
		gone := d.in(0.25)
		return op{fmt.Sprintf("pool %s is dropped: %v", p.name, gone), func() { p.gone = gone; w.desk.applyAll() }}
	}
	return drawSettings(w, d, p)
}

// drawSettings changes a pool's handover, but where backups are restored: what
// a restore keeps slots back for is the handover in the backup.
func drawSettings(w *World, d dice, p *poolSpec) op {
	after := pick(d, lease.AtOnce, d.between(time.Second, 12*time.Second))
	ttl := d.between(2*time.Second, 15*time.Second)
	return op{fmt.Sprintf("pool %s hands over after %v (unless by proof), ttl %v", p.name, after, ttl), func() {
		if p.settings.Handover.Proofs == 0 && !w.plan.restores {
			p.settings.Handover.After = after
		}
		p.settings.TTL = ttl
		w.desk.apply(p.source, false)
	}}
}

func (w *World) drawPlace(d dice) (pool, slot string) {
	p := w.desk.pools[d.IntN(len(w.desk.pools))]
	return p.name, p.slots[d.IntN(len(p.slots))].id
}

func drawDrain(w *World, _ int, d dice) op {
	pool, slot := w.drawPlace(d)
	if d.in(0.3) {
		slot = ""
	}
	drained := d.in(0.3)
	return op{fmt.Sprintf("drain %s/%s: %v", pool, slot, drained), func() { w.desk.drain(pool, slot, drained) }}
}

func drawHealth(w *World, _ int, d dice) op {
	pool, slot := w.drawPlace(d)
	why := pick(d, "", "", "", "hot")
	return op{fmt.Sprintf("health of %s/%s: %q", pool, slot, why), func() { w.desk.health(pool, slot, why) }}
}

// leased returns some request with a lease, live or ended not long ago.
func (w *World) leased(which uint64) *page {
	return w.some(which, func(p *page) bool { return p.Lease != nil && w.check.isTold(p) })
}

// some returns a request, live or ended not long ago: each state that there
// is comes as often as any other.
func (w *World) some(which uint64, fits func(*page) bool) *page {
	var groups [len(states)][]*page
	var kinds []int
	for _, p := range w.recent() {
		if !fits(p) {
			continue
		}
		i := indexOf(states[:], w.stateOf(p))
		if len(groups[i]) == 0 {
			kinds = append(kinds, i)
		}
		groups[i] = append(groups[i], p)
	}
	if len(kinds) == 0 {
		return nil
	}
	group := groups[kinds[which%uint64(len(kinds))]]
	return group[(which>>16)%uint64(len(group))]
}

func (w *World) stateOf(p *page) string {
	return w.server.engine.StateOf(p.key.caller, p.key.id)
}

// recent returns the live requests and the youngest ended ones.
func (w *World) recent() []*page {
	b := w.check.books
	all := append([]*page{}, b.live...)
	return append(all, b.ended[max(0, len(b.ended)-60):]...)
}

func drawRevoke(w *World, _ int, d dice) op {
	which := d.Uint64()
	return op{"an operator revokes some lease", func() {
		if p := w.leased(which); p != nil {
			w.desk.revoke(p)
		}
	}}
}

func drawClear(w *World, _ int, d dice) op {
	which, settling := d.Uint64(), d.in(0.3)
	return op{"an operator clears some slot on which nothing runs", func() {
		if settling {
			w.clearSettling(which)
			return
		}
		if p := w.leased(which); p != nil {
			w.desk.clear(p, int(which>>32)%len(p.Lease.Parts))
		}
	}}
}

func (w *World) clearSettling(which uint64) {
	var some []*shelf
	for _, s := range w.check.books.inOrder {
		if s.SettleUntil > 0 {
			some = append(some, s)
		}
	}
	if len(some) > 0 {
		w.desk.clearSettling(some[which%uint64(len(some))])
	}
}

// drawInspect has an agent look at the tree of some lease.
func drawInspect(w *World, _ int, d dice) op {
	which, kill := d.Uint64(), d.in(0.2)
	return op{fmt.Sprintf("an agent looks at some tree (kills it: %v)", kill), func() {
		p := w.leased(which)
		if p == nil {
			return
		}
		if j := w.jobs[p.Lease.ID]; j != nil {
			j.host.inspect(j, p.Lease.ID, kill && p.State == lease.Ended)
		}
	}}
}

// drawProbe sends a command about some request that nobody expects: a late
// copy, a stranger, a tool.
func drawProbe(w *World, n int, d dice) op {
	which := d.Uint64()
	name := pick(d, "acquire", "acquire", "mismatch", "cancel", "cancel", "renew", "release", "abandon", "progress", "foreign", "made up", "clean", "clean again")
	poll := pick(d, 0, time.Second)
	return op{"a stray " + name + " about some request", func() {
		if p := w.some(which, func(*page) bool { return true }); p != nil {
			w.probe(name, p, n, poll)
		}
	}}
}

func (w *World) probe(name string, p *page, n int, poll time.Duration) {
	id := lease.LeaseID("")
	if p.Lease != nil && w.check.isTold(p) {
		id = p.Lease.ID
	}
	caller, k, l := p.key.caller, p.key, w.desk.link
	switch name {
	case "acquire", "mismatch":
		w.probeAcquire(p, name == "mismatch", poll)
		return
	case "cancel":
		l.ask(nil, "cancel", k, func(call uint64) machine.Command { return machine.Cancel{Call: call, Caller: caller, ID: k.id} }, nil)
		return
	case "foreign":
		caller = "stranger"
		l.ask(nil, "cancel", key{caller: caller, id: k.id}, func(call uint64) machine.Command { return machine.Cancel{Call: call, Caller: caller, ID: k.id} }, nil)
		return
	case "made up":
		w.probeMadeUp(n)
		return
	case "clean", "clean again":
		w.probeClean(p, n, name == "clean again")
		return
	}
	if id == "" || name == "renew" && w.check.closed[k] != nil || name == "release" && w.desk.mayRun(p) {
		return
	}
	if name == "release" && p.Lease.Cleans != nil {
		return // it would say that the slot is clean
	}
	w.probeLease(l, name, k, id)
}

func (w *World) probeLease(l *link, name string, k key, id lease.LeaseID) {
	l.ask(nil, name, k, func(call uint64) machine.Command {
		switch name {
		case "renew":
			return machine.Renew{Call: call, Caller: k.caller, Lease: id}
		case "release":
			return machine.Release{Call: call, Caller: k.caller, Lease: id}
		case "abandon":
			return machine.Abandon{Call: call, Caller: k.caller, Lease: id, Reason: "stray"}
		}
		return machine.Progress{Call: call, Caller: k.caller, Lease: id}
	}, nil)
}

// probeAcquire repeats a request, or asks for something else by its id.
func (w *World) probeAcquire(p *page, mismatch bool, poll time.Duration) {
	body, ok := w.bodies[p.key]
	if !ok {
		return
	}
	if mismatch {
		body.Priority++
	}
	cmd := machine.Acquire{Caller: p.key.caller, Request: body, Digest: body.Body(), Poll: poll}
	cmd.Session, cmd.Serial = p.key.inSession()
	w.desk.link.ask(nil, "acquire", p.key, func(call uint64) machine.Command {
		cmd.Call, cmd.LeaseID, cmd.StoreFull = call, w.leaseID(), w.server.full
		return cmd
	}, nil)
}

// probeClean asks to clean after some lease, or again as some cleaner did.
// Nobody does anything with what comes of it.
func (w *World) probeClean(p *page, n int, again bool) {
	if again && p.End == lease.EndCancelled {
		w.cleanCancelled(p.key)
		return
	}
	if p.Lease == nil || !w.check.isTold(p) {
		return
	}
	part, k := p.Lease.Parts[0], key{caller: "user0", id: lease.RequestID(fmt.Sprintf("c%d", n))}
	cmd := machine.Clean{Caller: k.caller, ID: k.id, Pool: part.Pool, Slot: part.Slot, Lease: p.Lease.ID.Ref()}
	if again {
		if body, ok := w.bodies[p.key]; ok && p.Lease.Cleans != nil {
			cmd.Digest = body.Body()
		}
		k = p.key
		cmd.Caller, cmd.ID = k.caller, k.id
	}
	w.desk.link.ask(nil, "clean", k, func(call uint64) machine.Command {
		cmd.Call, cmd.LeaseID, cmd.StoreFull = call, w.leaseID(), w.server.full
		return cmd
	}, nil)
}

// cleanCancelled asks to clean by an id that was cancelled before.
func (w *World) cleanCancelled(k key) {
	w.desk.link.ask(nil, "clean", k, func(call uint64) machine.Command {
		return machine.Clean{Call: call, Caller: k.caller, ID: k.id, Pool: "wash", Slot: "w-0", Lease: "000000000000", LeaseID: w.leaseID()}
	}, nil)
}

// probeMadeUp names a lease that never was.
func (w *World) probeMadeUp(n int) {
	id := lease.LeaseID(fmt.Sprintf("made-up-%d", n))
	k := key{caller: "user0", id: lease.RequestID(id)}
	name := [...]string{"renew", "release", "abandon", "progress", "revoke", "prove", "clear", "clean"}[n%8]
	switch name {
	case "revoke":
		w.desk.link.ask(nil, name, k, func(call uint64) machine.Command { return machine.Revoke{Call: call, Lease: id.Ref()} }, nil)
	case "prove":
		w.desk.link.ask(nil, name, k, func(call uint64) machine.Command {
			return machine.ProveTree{Call: call, Lease: id.Ref(), Machine: "host0", Seen: true, Removed: true}
		}, nil)
	case "clear":
		w.desk.link.ask(nil, name, k, func(call uint64) machine.Command {
			return machine.Clear{Call: call, Pool: "g", Slot: "g-0", Lease: id.Ref()}
		}, nil)
	case "clean":
		w.desk.link.ask(nil, name, k, func(call uint64) machine.Command {
			return machine.Clean{Call: call, Caller: k.caller, ID: k.id, Pool: "wash", Slot: "w-0", Lease: id.Ref(), LeaseID: w.leaseID()}
		}, nil)
	default:
		w.probeLease(w.desk.link, name, k, id)
	}
}

func (w *World) leaseID() lease.LeaseID {
	w.leases++
	return lease.LeaseID(fmt.Sprintf("L%d", w.leases))
}
