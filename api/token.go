package api

import (
	"google.golang.org/protobuf/types/known/durationpb"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/lease"
)

// Token returns the message for t.
func Token(t lease.Token) *berthv1.Token {
	m := &berthv1.Token{
		RequestId: string(t.RequestID), LeaseId: string(t.LeaseID), Fence: uint64(t.Fence),
		Ttl: durationpb.New(t.TTL), Left: durationpb.New(t.Left), Elapsed: durationpb.New(t.Elapsed),
	}
	for _, s := range t.Slots {
		m.Slots = append(m.Slots, &berthv1.GrantedSlot{
			Pool: s.Pool, SlotId: s.ID, Units: s.Units, Whole: s.Whole, Labels: s.Labels, Handover: handover(s.Handover),
		})
	}
	return m
}

// FromToken returns the token in a reply. It refuses what no broker says; see
// [lease.Token.Check] for the rest.
func FromToken(m *berthv1.Token) (lease.Token, error) {
	t := lease.Token{
		RequestID: lease.RequestID(m.GetRequestId()), LeaseID: lease.LeaseID(m.GetLeaseId()), Fence: lease.Fence(m.GetFence()),
	}
	err := replyTimes(field{"ttl", m.GetTtl(), &t.TTL}, field{"left", m.GetLeft(), &t.Left}, field{"elapsed", m.GetElapsed(), &t.Elapsed})
	if err != nil {
		return lease.Token{}, err
	}
	for _, s := range m.GetSlots() {
		h, err := fromHandover(s.GetHandover())
		if err != nil {
			return lease.Token{}, err
		}
		t.Slots = append(t.Slots, lease.GrantedSlot{
			Pool: s.GetPool(), ID: s.GetSlotId(), Units: s.GetUnits(), Whole: s.GetWhole(), Labels: s.GetLabels(), Handover: h,
		})
	}
	return t, nil
}

// replyTimes reads the times of a reply.
func replyTimes(fields ...field) error {
	if err := durations("", fields...); err != nil {
		return lease.Errorf(lease.CodeReplyInvalid, "cannot use the broker's reply: %v", err)
	}
	return nil
}

// handover returns the message for h. What waits for a proof waits for no time.
func handover(h lease.Handover) *berthv1.Handover {
	if h.Proofs != 0 {
		return &berthv1.Handover{Proofs: h.Proofs.Names(), Max: durationpb.New(h.Max)}
	}
	return &berthv1.Handover{After: durationpb.New(h.Delay()), Max: given(h.Max)}
}

func fromHandover(m *berthv1.Handover) (h lease.Handover, err error) {
	if err := replyTimes(field{"handover.after", m.GetAfter(), &h.After}, field{"handover.max", m.GetMax(), &h.Max}); err != nil {
		return lease.Handover{}, err
	}
	if h.Proofs, err = proofs(m.GetProofs()); err != nil {
		return lease.Handover{}, lease.Errorf(lease.CodeReplyInvalid, "cannot use the broker's reply: handover: %v", err)
	}
	if h.Proofs == 0 && h.After == 0 {
		h.After = lease.AtOnce
	}
	return h, nil
}

func proofs(names []string) (all lease.Proofs, err error) {
	for _, name := range names {
		p, ok := lease.ParseProof(name)
		if !ok {
			return 0, lease.Errorf(lease.CodePoolsInvalid, "proof %q is none of tree, boot and cleaned", name)
		}
		all |= p
	}
	return all, nil
}
