package api

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/lease"
)

// Request returns the message that asks for r.
func Request(r lease.Request) *berthv1.AcquireRequest {
	m := &berthv1.AcquireRequest{
		RequestId: string(r.ID), Ttl: given(r.TTL), MaxHold: given(r.MaxHold), Wait: given(r.Wait),
		Priority: int32(r.Priority), Holder: Holder(r.Holder), Note: r.Note,
	}
	m.Claims = claims(r.Claims)
	return m
}

func claims(all []lease.Claim) []*berthv1.Claim {
	ms := make([]*berthv1.Claim, len(all))
	for i, c := range all {
		ms[i] = &berthv1.Claim{Pool: c.Pool, Count: uint32(c.Count), Units: c.Units, Select: c.Select}
	}
	return ms
}

// Holder returns the message for h, nil for one of whom nothing is known.
func Holder(h lease.Holder) *berthv1.Holder {
	if h == (lease.Holder{}) {
		return nil
	}
	m := &berthv1.Holder{Name: h.Name, Machine: h.Machine, Boot: h.Boot}
	if h.Process != (lease.Process{}) {
		m.Process = &berthv1.Process{Pid: int32(h.Process.PID), Start: h.Process.Start, Namespace: h.Process.Namespace}
	}
	if h.Cgroup != (lease.Cgroup{}) {
		m.Cgroup = &berthv1.Cgroup{Path: h.Cgroup.Path, Inode: h.Cgroup.Inode, Namespace: h.Cgroup.Namespace}
	}
	return m
}

// FromRequest returns what m asks for. It refuses what a [lease.Request] cannot
// say; bounds are for [lease.Request.Checked].
func FromRequest(m *berthv1.AcquireRequest) (lease.Request, error) {
	r := lease.Request{
		ID: lease.RequestID(m.GetRequestId()), Priority: int(m.GetPriority()), Holder: FromHolder(m.GetHolder()), Note: m.GetNote(),
	}
	for i, c := range m.GetClaims() {
		if c.GetCount() > math.MaxInt32 {
			return lease.Request{}, lease.Errorf(lease.CodeRequestInvalid, "cannot accept the request: claims[%d].count: %d; ask for 1 to %d slots", i, c.GetCount(), lease.MaxSlots)
		}
		r.Claims = append(r.Claims, lease.Claim{Pool: c.GetPool(), Count: int(c.GetCount()), Units: c.GetUnits(), Select: c.GetSelect()})
	}
	err := durations("cannot accept the request: ",
		field{"ttl", m.GetTtl(), &r.TTL}, field{"max_hold", m.GetMaxHold(), &r.MaxHold}, field{"wait", m.GetWait(), &r.Wait})
	if err != nil {
		return lease.Request{}, err
	}
	return r, nil
}

// FromHolder returns who m says will work.
func FromHolder(m *berthv1.Holder) lease.Holder {
	p, c := m.GetProcess(), m.GetCgroup()
	return lease.Holder{
		Name: m.GetName(), Machine: m.GetMachine(), Boot: m.GetBoot(),
		Process: lease.Process{PID: int(p.GetPid()), Start: p.GetStart(), Namespace: p.GetNamespace()},
		Cgroup:  lease.Cgroup{Path: c.GetPath(), Inode: c.GetInode(), Namespace: c.GetNamespace()},
	}
}

// given returns the message for d, nil for zero.
func given(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

type field struct {
	name string
	from *durationpb.Duration
	to   *time.Duration
}

// durations reads the fields; what says what the error is about. A time beyond
// what a duration can hold is refused, and never taken for another.
func durations(what string, fields ...field) error {
	for _, f := range fields {
		if f.from == nil {
			continue
		}
		if f.from.CheckValid() != nil || tooLong(f.from) {
			return lease.Errorf(lease.CodeRequestInvalid, "%s%s: %ds %dns is no time that can be kept; give up to %d years", what, f.name, f.from.GetSeconds(), f.from.GetNanos(), 292)
		}
		*f.to = f.from.AsDuration()
	}
	return nil
}

func tooLong(d *durationpb.Duration) bool {
	const most = math.MaxInt64 / int64(time.Second)
	return d.GetSeconds() >= most || d.GetSeconds() <= -most
}
