package machine

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// The namespaces in which everybody is who says nothing else.
const (
	hostPIDs    = 11
	hostCgroups = 12
)

// parseHolder reads holder=NAME on=MACHINE/BOOT pid=N cgroup=PATH and
// in=PIDNS/CGROUPNS.
func parseHolder(w *words) (lease.Holder, error) {
	h := lease.Holder{Name: w.text("holder")}
	h.Machine, h.Boot, _ = strings.Cut(w.text("on"), "/")
	pid, err := w.number("pid")
	if err != nil {
		return h, err
	}
	pids, cgroups, err := namespaces(w)
	if pid > 0 {
		h.Process = lease.Process{PID: int(pid), Start: 5000, Namespace: pids}
	}
	if path := w.text("cgroup"); path != "" {
		h.Cgroup = lease.Cgroup{Path: path, Inode: 7000, Namespace: cgroups}
	}
	return h, err
}

func namespaces(w *words) (pids, cgroups uint64, err error) {
	in := w.text("in")
	if in == "" {
		return hostPIDs, hostCgroups, nil
	}
	_, err = fmt.Sscanf(in, "%d/%d", &pids, &cgroups)
	return pids, cgroups, err
}

// prove brings what an agent knows: prove boot MACHINE/BOOT [was=BOOT], or prove tree
// NAME by=MACHINE [on=POOL/SLOT] [in=PIDNS/CGROUPNS] [unseen] [wrapper-gone] [cgroup-empty]
// [removed].
func (s *scene) prove(w *words) error {
	switch what := w.next(); what {
	case "boot":
		machine, boot, _ := strings.Cut(w.next(), "/")
		was := w.text("was")
		if was == "" {
			was = s.m.HostBoot(machine)
		}
		s.run(ProveBoot{Call: s.newCall("boot"), Machine: machine, Boot: boot, Was: was})
		return nil
	case "tree":
		return s.proveTree(w)
	default:
		return fmt.Errorf("there is no proof %q", what)
	}
}

func (s *scene) proveTree(w *words) error {
	pids, cgroups, err := namespaces(w)
	name := w.next()
	pool, slot, _ := strings.Cut(w.text("on"), "/")
	s.run(ProveTree{
		Call: s.newCall("tree"), Lease: s.ref(name), Pool: pool, Slot: slot, Machine: w.text("by"),
		PIDNamespace: pids, CgroupNamespace: cgroups,
		Seen: !w.flag("unseen"), WrapperGone: w.flag("wrapper-gone"), CgroupGone: w.flag("cgroup-empty"), Removed: w.flag("removed"),
	})
	return err
}

// clean takes quarantined units over: clean POOL/SLOT after NAME as NAME
// [ttl=] [on=…].
func (s *scene) clean(w *words) error {
	pool, slot := w.where()
	full := w.flag("full")
	if !w.flag("after") || !w.flag("as") || len(w.about) != 2 {
		return fmt.Errorf("clean POOL/SLOT after NAME as NAME")
	}
	cmd := Clean{Caller: lease.Local, Pool: pool, Slot: slot, Lease: s.ref(w.next()), StoreFull: full}
	name := w.next()
	cmd.ID, cmd.Digest = lease.RequestID(name), lease.Digest{1}
	var err error
	if cmd.Holder, err = parseHolder(w); err != nil {
		return err
	}
	if err := w.durations(map[string]setter{"ttl": &cmd.TTL}); err != nil {
		return err
	}
	known := s.requests[name]
	if known == nil {
		known = &wish{name: name, caller: lease.Local}
		s.requests[name] = known
	}
	cmd.Call = s.newCall(name)
	cmd.LeaseID = s.leaseID(known, cmd.Call)
	s.run(cmd)
	return nil
}
