package machine

import "github.com/berth-dev/berth/lease"

const codeOperator lease.Code = "operator"

// Revoke is an operator's end of a live lease. Its units wait as after any
// other end that was no release.
type Revoke struct {
	Call  uint64
	Lease lease.Ref
	// Pool and Slot are as in ProveTree.
	Pool, Slot string
	Reason     string
}

func (c Revoke) run(m *Machine) {
	e := m.byRef(c.Call, c.Lease, c.Pool, c.Slot)
	switch {
	case e == nil:
	case e.held == nil:
		m.answer(Answer{Call: c.Call, Err: e.leaseError()})
	default:
		m.revoke(e, codeOperator, clip(c.Reason))
		m.answer(Answer{Call: c.Call})
	}
}

func (m *Machine) revoke(e *entry, code lease.Code, reason string) {
	e.Code, e.Reason = code, reason
	m.endLease(e, lease.EndRevoked)
}

// Clear is an operator's word that a slot may go on after a lease, or with
// Lease empty, that it need not wait after a restore.
type Clear struct {
	Call       uint64
	Pool, Slot string
	Lease      lease.Ref
}

func (c Clear) run(m *Machine) {
	if c.Lease == "" {
		m.clearSettling(c)
		return
	}
	e, i := m.partOn(c.Call, c.Pool, c.Slot, c.Lease)
	if e == nil {
		return
	}
	if s := e.Lease.Parts[i].State; s != lease.PartQuarantined {
		m.refuse(c.Call, lease.CodeLeaseStands, "cannot clear slot %s/%s: lease %s is %s there; revoke a held lease first, and let a cleaner end", c.Pool, c.Slot, c.Lease, s)
		return
	}
	m.freeProved(e, i, "cleared")
	m.settleParts(e)
	m.answer(Answer{Call: c.Call})
}

func (m *Machine) clearSettling(c Clear) {
	s := m.findSlot(c.Call, c.Pool, c.Slot)
	switch {
	case s == nil:
	case s.SettleUntil == 0:
		m.refuse(c.Call, lease.CodeNotQuarantined, "slot %s/%s does not wait after a restore; name the lease whose quarantine is to end", c.Pool, c.Slot)
	default:
		m.settleSlot(s)
		m.answer(Answer{Call: c.Call})
	}
}

// partOn finds the units that a lease has on a slot, or refuses the call.
func (m *Machine) partOn(call uint64, poolName, slotID string, ref lease.Ref) (*entry, int) {
	s := m.findSlot(call, poolName, slotID)
	if s == nil {
		return nil, 0
	}
	for _, e := range s.guests {
		if e.Lease.ID.Ref() != ref {
			continue
		}
		for i, own := range e.slots {
			if own == s {
				return e, i
			}
		}
	}
	if len(s.guests) > 0 {
		m.refuse(call, lease.CodeLeaseStands, "lease %s has nothing on slot %s/%s; another lease is there now: see the slot and name that one", ref, poolName, slotID)
	} else {
		m.refuse(call, lease.CodeNotQuarantined, "lease %s has nothing on slot %s/%s, which is free of leases", ref, poolName, slotID)
	}
	return nil, 0
}

// findPool finds a pool or refuses the call.
func (m *Machine) findPool(call uint64, name string) *pool {
	p, ok := m.pools.Get(name)
	if !ok {
		m.refuse(call, lease.CodePoolUnknown, "there is no pool %q; list the pools", clip(name))
	}
	return p
}

// findSlot finds a slot or refuses the call.
func (m *Machine) findSlot(call uint64, poolName, id string) *slot {
	p := m.findPool(call, poolName)
	if p == nil {
		return nil
	}
	s, ok := p.slots.Get(id)
	if !ok {
		m.refuse(call, lease.CodeSlotUnknown, "pool %s has no slot %q; list its slots", poolName, clip(id))
	}
	return s
}
