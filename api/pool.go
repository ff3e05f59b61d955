package api

import (
	"google.golang.org/protobuf/types/known/durationpb"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/lease"
)

// FromSpecs returns the pools that an apply declares. What the words mean for
// a pool is for the broker to judge.
func FromSpecs(ms []*berthv1.PoolSpec) ([]lease.PoolSpec, error) {
	pools := make([]lease.PoolSpec, len(ms))
	for i, m := range ms {
		pools[i] = lease.PoolSpec{Name: m.GetName()}
		if m.GetSettings() != nil {
			s, err := fromSettings(m.GetSettings())
			if err != nil {
				return nil, lease.Errorf(lease.CodePoolsInvalid, "pool %q: %v", m.GetName(), err)
			}
			pools[i].Settings = &s
		}
		for _, s := range m.GetSlots() {
			pools[i].Slots = append(pools[i].Slots, lease.SlotSpec{ID: s.GetId(), Labels: s.GetLabels(), Capacity: s.GetUnits()})
		}
	}
	return pools, nil
}

func fromSettings(m *berthv1.Settings) (lease.Settings, error) {
	s := lease.Settings{StallRevokes: m.GetStallRevokes(), Clean: m.GetClean()}
	h := m.GetHandover()
	err := durations("",
		field{"ttl", m.GetTtl(), &s.TTL}, field{"max_ttl", m.GetMaxTtl(), &s.MaxTTL}, field{"max_hold", m.GetMaxHold(), &s.MaxHold},
		field{"stall_after", m.GetStallAfter(), &s.StallAfter},
		field{"handover.after", h.GetAfter(), &s.Handover.After}, field{"handover.max", h.GetMax(), &s.Handover.Max})
	if err != nil {
		return s, err
	}
	if h.GetAfter() != nil && s.Handover.After == 0 {
		s.Handover.After = lease.AtOnce
	}
	s.Handover.Proofs, err = proofs(h.GetProofs())
	return s, err
}

// Specs returns the message that declares the pools.
func Specs(pools []lease.PoolSpec) []*berthv1.PoolSpec {
	ms := make([]*berthv1.PoolSpec, len(pools))
	for i, p := range pools {
		ms[i] = &berthv1.PoolSpec{Name: p.Name}
		if p.Settings != nil {
			ms[i].Settings = settings(*p.Settings)
		}
		for _, s := range p.Slots {
			ms[i].Slots = append(ms[i].Slots, &berthv1.SlotSpec{Id: s.ID, Labels: s.Labels, Units: s.Capacity})
		}
	}
	return ms
}

func settings(s lease.Settings) *berthv1.Settings {
	m := &berthv1.Settings{
		Ttl: given(s.TTL), MaxTtl: given(s.MaxTTL), MaxHold: given(s.MaxHold), StallAfter: given(s.StallAfter),
		StallRevokes: s.StallRevokes, Clean: s.Clean,
	}
	switch h := s.Handover; {
	case h.Proofs != 0:
		m.Handover = &berthv1.Handover{Proofs: h.Proofs.Names(), Max: given(h.Max)}
	case h.After == lease.AtOnce:
		m.Handover = &berthv1.Handover{After: durationpb.New(0), Max: given(h.Max)}
	case h != (lease.Handover{}):
		m.Handover = &berthv1.Handover{After: given(h.After), Max: given(h.Max)}
	}
	return m
}

// Diff returns the message for what an apply changes.
func Diff(d lease.Diff) *berthv1.ApplyResponse {
	return &berthv1.ApplyResponse{Added: d.Added, Changed: d.Changed, Removed: d.Removed, Marked: d.Marked}
}

// FromDiff returns what an apply changed, or would.
func FromDiff(m *berthv1.ApplyResponse) lease.Diff {
	return lease.Diff{Added: m.GetAdded(), Changed: m.GetChanged(), Removed: m.GetRemoved(), Marked: m.GetMarked()}
}

// Status returns the message for what people may see.
func Status(s lease.Status) *berthv1.GetStatusResponse {
	m := &berthv1.GetStatusResponse{
		Acquired: s.Acquired, Released: s.Released, Orphaned: s.Orphaned, Revoked: s.Revoked, Held: s.Held,
		Queued: uint32(s.Queued), Quarantined: uint32(s.Quarantined), Stuck: uint32(s.Stuck),
		Slots: uint32(s.Slots), Free: uint32(s.Free), Retained: uint32(s.Retained), RetainedFor: durationpb.New(s.RetainedFor),
		Boots: s.Boots,
	}
	for _, p := range s.Pools {
		m.Pools = append(m.Pools, poolStatus(p))
	}
	return m
}

func poolStatus(p lease.PoolStatus) *berthv1.PoolStatus {
	m := &berthv1.PoolStatus{
		Name: p.Name, Source: string(p.Source), Settings: settings(p.Settings), Drained: p.Drained, Removing: p.Removing,
		Units: p.Units, UnitsHeld: p.UnitsHeld, UnitsQuarantined: p.UnitsQuarantined,
		Queued: uint32(p.Queued), LongestWait: durationpb.New(p.LongestWait),
	}
	for _, s := range p.Slots {
		m.Slots = append(m.Slots, slotStatus(s))
	}
	for _, w := range p.Waiters {
		m.Waiters = append(m.Waiters, &berthv1.WaiterStatus{
			Ref: string(w.Ref), Caller: string(w.Caller), Holder: Holder(w.Holder), Note: w.Note, Claims: claims(w.Claims),
			Priority: int32(w.Priority), State: w.State, Waited: durationpb.New(w.Waited),
		})
	}
	return m
}

func slotStatus(s lease.SlotStatus) *berthv1.SlotStatus {
	m := &berthv1.SlotStatus{
		Id: s.ID, State: s.State, Labels: s.Labels, Source: string(s.Source), Units: s.Capacity, Why: s.Why,
	}
	for _, l := range s.Leases {
		m.Leases = append(m.Leases, &berthv1.LeaseStatus{
			Ref: string(l.Ref), Fence: uint64(l.Fence), Caller: string(l.Caller), Holder: Holder(l.Holder), Note: l.Note,
			Units: l.Units, State: l.State, End: l.End, Why: l.Why, Reason: l.Reason,
			Since: durationpb.New(l.Since), Left: durationpb.New(l.Left), Progress: given(l.Progress), Doing: l.Doing,
			Stalled: l.Stalled, Handover: handover(l.Handover),
		})
	}
	return m
}
