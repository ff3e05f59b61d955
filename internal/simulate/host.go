package simulate

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
	"github.com/berth-dev/berth/lease/machine"
)

// A host is a machine: clients and an agent run on it.
type host struct {
	w    *World
	n    int
	name string
	boot int
	link *link
	// asleep is until when the machine sleeps; slept how long it has in all.
	asleep, slept time.Duration
	waiting       []func()
	// withheld says that the host's agent reports nothing.
	withheld bool
	procs    int
}

func newHost(w *World, n int) *host {
	h := &host{w: w, n: n, name: "host" + strconv.Itoa(n), boot: 1}
	h.link = &link{w: w, id: 1000 + uint64(n)}
	h.withheld = n == w.plan.withheld
	return h
}

func (h *host) bootID() string { return h.name + "-boot" + strconv.Itoa(h.boot) }

// sleeping reports whether the machine sleeps now.
func (h *host) sleeping() bool { return h.w.now < h.asleep }

// now is the machine's time on its two clocks.
func (h *host) now() attempt.Instant {
	now := attempt.Instant{Mono: h.w.now - h.slept, Boot: h.w.now}
	if h.w.cfg.Fault == IgnoreSleep {
		now.Boot = now.Mono
	}
	return now
}

// defers has something happen on waking, if the machine sleeps.
func (h *host) defers(do func()) bool {
	if h.sleeping() {
		h.waiting = append(h.waiting, do)
		return true
	}
	return false
}

// at has something happen at a moment of the machine's monotonic clock, if
// that process still lives.
func (h *host) at(mono time.Duration, alive func() bool, do func()) {
	h.w.after(mono-h.now().Mono, func() { h.ring(mono, alive, do) })
}

func (h *host) ring(mono time.Duration, alive func() bool, do func()) {
	switch {
	case !alive():
	case h.defers(func() { h.ring(mono, alive, do) }):
	case h.now().Mono < mono:
		h.at(mono, alive, do)
	default:
		h.w.steps++
		do()
	}
}

// sleep stops the machine and its monotonic clock.
func (h *host) sleep(d time.Duration) {
	if h.sleeping() {
		return
	}
	h.asleep = h.w.now + d
	h.slept += d
	life := h.boot
	h.w.after(d, func() {
		if h.boot == life {
			h.wake()
		}
	})
}

// wake has holders look at their clocks before anything else goes on.
func (h *host) wake() {
	h.w.logf("%s wakes", h.name)
	for _, c := range h.w.clients {
		if c.host == h && c.job != nil {
			c.job.woken()
		}
	}
	waiting := h.waiting
	h.waiting = nil
	for _, do := range waiting {
		do()
	}
}

// reboot ends every process on the machine, and all their work.
func (h *host) reboot() {
	h.w.logf("%s reboots", h.name)
	for _, c := range h.w.clients {
		if c.host == h {
			c.killed()
		}
	}
	h.w.truth.stopAll(func(k *work) bool { return k.host == h })
	h.boot++
	h.asleep, h.waiting = 0, nil
}

// reportBoot has the agent tell the machine's boot id.
func (h *host) reportBoot() { h.reportBootLate(0) }

// reportBootLate is a report that is held on its way for that long. The agent
// has asked before what the broker knows.
func (h *host) reportBootLate(held time.Duration) {
	if h.withheld || h.sleeping() {
		return
	}
	name, id, was := h.name, h.bootID(), h.w.server.hostBoot(h.name)
	h.w.after(held, func() {
		h.link.ask(nil, "prove", key{host: name}, func(call uint64) machine.Command {
			if h.w.cfg.Fault == StaleBoots {
				was = h.w.server.hostBoot(name)
			}
			return machine.ProveBoot{Call: call, Machine: name, Boot: id, Was: was}
		}, nil)
	})
}

// The agents' namespaces: those of all hosts look alike, as they do.
const agentPIDs, agentCgroups = 4026531836, 4026531835

// holder makes the identity of a new process, which asks for a lease.
func (h *host) holder(named, contained bool) lease.Holder {
	h.procs++
	o := lease.Holder{Name: "work", Machine: h.name, Boot: h.bootID()}
	if !named {
		return o
	}
	o.Process = lease.Process{PID: 100 + h.procs, Start: uint64(h.boot*1_000_000 + h.procs), Namespace: agentPIDs}
	o.Cgroup = lease.Cgroup{Path: "/work/" + strconv.Itoa(h.procs), Inode: uint64(h.procs), Namespace: agentCgroups}
	if contained {
		o.Process.PID = 1
		if h.procs%2 == 0 {
			o.Process.Namespace, o.Cgroup.Namespace = 7, 8
		}
	}
	return o
}

// inspect has the agent look at the tree of one job and say what it sees. It
// may kill and remove the tree's cgroup first.
func (h *host) inspect(j *job, id lease.LeaseID, kill bool) {
	if h.withheld || h.sleeping() {
		return
	}
	t := h.look(j, kill)
	t.Lease = id.Ref()
	h.link.ask(nil, "prove", j.key, func(call uint64) machine.Command {
		t.Call = call
		return t
	}, nil)
}

// look is what the agent sees. Of a holder in other namespaces it sees
// nothing at all, and finds nothing to kill: one that names its namespaces it
// has mistaken for another that it saw, one that does not it has never seen.
func (h *host) look(j *job, kill bool) machine.ProveTree {
	t := machine.ProveTree{Machine: h.name, PIDNamespace: agentPIDs, CgroupNamespace: agentCgroups}
	if j.contained || !j.named || h.w.cfg.Fault == AgentGuesses {
		t.WrapperGone, t.CgroupGone = true, true
		t.Seen = h.w.cfg.Fault == AgentGuesses || j.req.Holder.Process.Namespace != agentPIDs
		return t
	}
	if kill {
		j.removeTree()
		t.Removed = true
	}
	t.Seen = j.seen
	t.WrapperGone, t.CgroupGone = j.dead, j.work == nil || !j.work.running
	return t
}
