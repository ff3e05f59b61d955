package machine

import "github.com/berth-dev/berth/lease"

// ProveBoot is an agent's report of its machine's boot id. A new one proves
// that work which began under the old one has stopped.
type ProveBoot struct {
	Call    uint64
	Machine string
	Boot    string
	// Was is the boot id that the broker knew when the agent asked, empty for
	// none. A report that was overtaken on its way is refused by it: taken for
	// a new boot, it would free what is at work.
	Was string
}

func (c ProveBoot) run(m *Machine) {
	h := m.hosts[c.Machine]
	known := ""
	if h != nil {
		known = h.Boot
	}
	switch {
	case c.Machine == "" || c.Boot == "":
		m.refuse(c.Call, lease.CodeProofRefused, "cannot take the report: machine and boot id are both needed")
		return
	case known == c.Boot:
		m.answer(Answer{Call: c.Call})
		return
	case known != c.Was:
		m.refuse(c.Call, lease.CodeProofRefused, "the report proves nothing: since it was begun machine %s has reported boot id %q; ask for what is known and report again", c.Machine, known)
		return
	case h == nil:
		h = &lease.Host{Machine: c.Machine}
		m.hosts[c.Machine] = h
	}
	h.Boot = c.Boot
	m.put(h)
	m.proveRebooted(c.Machine)
	m.answer(Answer{Call: c.Call})
}

// HostBoot returns the boot id that a machine's agent has reported last, empty
// for none.
func (m *Machine) HostBoot(machine string) string {
	if h := m.hosts[machine]; h != nil {
		return h.Boot
	}
	return ""
}

// proveRebooted ends the quarantines of a machine that has booted anew, a
// few a step.
func (m *Machine) proveRebooted(machine string) {
	m.quarantine.Scan(func(_ uint64, e *entry) bool {
		for _, of := range e.withCleaners() {
			if of.Lease.Holder.Machine == machine {
				m.work.jobs = append(m.work.jobs, func() { m.proveReboot(of) })
			}
		}
		return true
	})
}

func (m *Machine) proveReboot(e *entry) {
	if !e.rebooted(m) {
		return
	}
	if e.Lease.Cleans != nil {
		m.cleanerStopped(e)
		return
	}
	if !e.lingers() {
		return
	}
	for i := range e.Lease.Parts {
		m.prove(e, i, lease.ProofBoot)
	}
	m.settleParts(e)
}

// ProveTree is an agent's word that the tree under a lease is gone. It counts
// for a holder that named its wrapper and cgroup, in the agent's own
// namespaces, and only of what the agent has seen alive since the grant.
type ProveTree struct {
	Call  uint64
	Lease lease.Ref
	// Pool and Slot may name a slot that the lease has: then it is found
	// without a look at all leases.
	Pool, Slot string
	Machine    string
	// PIDNamespace and CgroupNamespace are the agent's own.
	PIDNamespace, CgroupNamespace uint64
	// Seen says that the agent has itself seen wrapper and cgroup alive since
	// the grant.
	Seen bool
	// WrapperGone and CgroupGone: the wrapper has ended, and the cgroup is
	// empty or absent. Removed: the agent killed the cgroup and removed it.
	WrapperGone, CgroupGone, Removed bool
}

func (c ProveTree) run(m *Machine) {
	e := m.byRef(c.Call, c.Lease, c.Pool, c.Slot)
	if e == nil {
		return
	}
	if why := c.weak(e.Lease.Holder); why != "" {
		m.refuse(c.Call, lease.CodeProofRefused, "the report proves nothing about lease %s: %s", c.Lease, why)
		return
	}
	if e.held != nil {
		m.refuse(c.Call, lease.CodeLeaseStands, "lease %s is still held; it ends by its own time or is revoked first", c.Lease)
		return
	}
	m.proveTree(e, c)
}

func (m *Machine) proveTree(e *entry, c ProveTree) {
	if e.Lease.Cleans != nil {
		m.cleanerStopped(e)
		m.answer(Answer{Call: c.Call})
		return
	}
	proved := false
	for i := range e.Lease.Parts {
		if e.lingers() && m.prove(e, i, lease.ProofTree) {
			proved = true
		}
	}
	if !proved {
		m.refuse(c.Call, lease.CodeProofRefused, "lease %s has no units that a tree's end would free", c.Lease)
		return
	}
	m.settleParts(e)
	m.answer(Answer{Call: c.Call})
}

// weak says why the report proves nothing, or "".
func (c ProveTree) weak(h lease.Holder) string {
	switch {
	case !h.Named():
		return "its holder did not name a wrapper and a cgroup before it asked"
	case h.Machine != c.Machine:
		return "its holder is on another machine"
	case h.Process.Namespace != c.PIDNamespace || h.Cgroup.Namespace != c.CgroupNamespace:
		return "its holder is in other namespaces than the agent"
	case !c.Seen:
		return "the agent has never seen its holder alive"
	case !c.Removed && !(c.WrapperGone && c.CgroupGone):
		return "the wrapper or the cgroup is still there"
	}
	return ""
}

// byRef finds the lease that people call by a ref, among those that are live
// or in quarantine, or refuses the call.
func (m *Machine) byRef(call uint64, ref lease.Ref, poolName, slotID string) *entry {
	if slotID != "" {
		return m.byRefOn(call, ref, poolName, slotID)
	}
	var found *entry
	n := 0
	for id, e := range m.leases {
		if m.stands(e) && id.Ref() == ref {
			found, n = e, n+1
		}
	}
	switch {
	case n == 1:
		return found
	case n > 1:
		m.refuse(call, lease.CodeAmbiguous, "%d leases go by ref %s; name the slot too", n, ref)
	default:
		m.refuse(call, lease.CodeLeaseUnknown, "no lease %s is held or quarantined; list the leases", ref)
	}
	return nil
}

// byRefOn finds it on a slot.
func (m *Machine) byRefOn(call uint64, ref lease.Ref, poolName, slotID string) *entry {
	s := m.findSlot(call, poolName, slotID)
	if s == nil {
		return nil
	}
	for _, guest := range s.guests {
		for _, e := range guest.withCleaners() {
			if !e.forgotten && e.Lease.ID.Ref() == ref {
				return e
			}
		}
	}
	m.refuse(call, lease.CodeLeaseUnknown, "no lease %s is held or quarantined on slot %s/%s; list its leases", ref, poolName, slotID)
	return nil
}

// stands reports whether units still depend on the lease: its own, or those
// that it had as the last cleaner.
func (m *Machine) stands(e *entry) bool {
	if e.Settled == 0 || e.Lease.Cleans == nil {
		return e.Settled == 0
	}
	of, i := m.cleaned(e)
	return of != nil && of.Lease.Parts[i].State != lease.PartFree
}
