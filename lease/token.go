package lease

import "time"

// A Token is what a client gets for a granted request: a plain value that
// shares nothing with the broker.
type Token struct {
	RequestID RequestID
	LeaseID   LeaseID
	Fence     Fence
	// TTL is how long a renewal makes the lease last.
	TTL time.Duration
	// Left is how much of the lease remained when the broker decided.
	Left time.Duration
	// Elapsed is broker time from the call's arrival to that decision. Trust
	// in this answer ends at the moment the call was sent + Elapsed + Left − a
	// margin, never later.
	Elapsed time.Duration
	// Slots are the slots the lease holds, by pool and id.
	Slots []GrantedSlot
}

// A GrantedSlot is a slot as the lease holds it.
type GrantedSlot struct {
	Pool string
	ID   string
	// Units are the units this lease holds of the slot.
	Units int64
	// Whole says that they are all of its units: only then may the fence be
	// compared by a sink.
	Whole  bool
	Labels map[string]string
	// Handover says how the units go on if the lease ends without a release.
	Handover Handover
}

// Check refuses a token that no broker may hand out: one without a lease id,
// a fence, a time or a slot, or for another request.
func (t Token) Check(id RequestID) error {
	switch {
	case t.RequestID != id:
		return Errorf(CodeReplyInvalid, "cannot use the broker's reply: it is for request %s, not %s; it is given back", t.RequestID, id)
	case t.LeaseID == "" || t.Fence == 0 || len(t.Slots) == 0:
		return Errorf(CodeReplyInvalid, "cannot use the broker's reply for request %s: it lacks a lease id, a fence or a slot; it is given back", id)
	case t.TTL < MinTTL || t.Left < 0 || t.Elapsed < 0:
		return Errorf(CodeReplyInvalid, "cannot use the broker's reply for request %s: ttl %v, left %v, elapsed %v; it is given back", id, t.TTL, t.Left, t.Elapsed)
	}
	return nil
}

// Handover returns the shortest time after the lease's promised end at which
// any of its slots may go on without a proof: the one to plan with. A slot
// that a cleaner may take over counts from the promised end. ok is false where
// every slot waits for a proof that the holder has stopped.
func (t Token) Handover() (after time.Duration, ok bool) {
	for _, s := range t.Slots {
		h := s.Handover
		if h.Proofs != 0 && h.Proofs&ProofCleaned == 0 {
			continue
		}
		if delay := h.Delay(); !ok || delay < after {
			after, ok = delay, true
		}
	}
	return after, ok
}
