package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// Renew gives a lease its time again. It counts if it comes before the
// expiry was applied.
type Renew struct {
	Call   uint64
	Caller lease.Caller
	Lease  lease.LeaseID
}

func (c Renew) run(m *Machine) {
	e := m.ofCaller(c.Call, c.Caller, c.Lease)
	if e == nil {
		return
	}
	if e.held == nil {
		m.answer(Answer{Call: c.Call, Err: e.leaseError()})
		return
	}
	e.extend(m.now)
	e.held.renewed, e.held.extended = true, false
	// The first renewal after a restart is durable, so that the next restart
	// knows that the lease is alive (invariant I5).
	if e.Lease.Start != m.ledger.Start {
		e.Lease.Start = m.ledger.Start
		m.save(e)
	}
	m.wake(e)
	m.fx.Answers = append(m.fx.Answers, Answer{Call: c.Call, After: e.touched, Token: m.token(e, m.now)})
}

// extend promises the lease its time from now on.
func (e *entry) extend(now time.Duration) {
	end := now + e.Lease.TTL
	if e.Lease.HoldUntil > 0 {
		end = min(end, e.Lease.HoldUntil)
	}
	e.held.expires = max(e.held.expires, end)
}

// ofCaller finds the caller's lease, ended or not, or refuses the call.
func (m *Machine) ofCaller(call uint64, caller lease.Caller, id lease.LeaseID) *entry {
	e := m.leases[id]
	switch {
	case id == "":
		m.refuse(call, lease.CodeLeaseMissing, "no lease id was given; give the one in the token")
	case e == nil:
		m.refuse(call, lease.CodeLeaseUnknown, "lease %s is not known: it ended long ago, or never was; acquire a new one", id.Ref())
	case e.Caller != caller:
		m.refuse(call, lease.CodeLeaseForeign, "lease %s belongs to another caller; only that one may use it, an operator may revoke it", id.Ref())
	default:
		return e
	}
	return nil
}

// heldDue is when a lease expires, reaches its longest hold or is stalled.
func (e *entry) heldDue() time.Duration {
	at := e.held.expires
	if e.Lease.HoldUntil > 0 {
		at = min(at, e.Lease.HoldUntil)
	}
	shown, revoked := e.stall()
	if shown > 0 && !e.held.stalled {
		at = min(at, e.held.progress+shown)
	}
	if revoked > 0 {
		at = min(at, e.held.progress+revoked)
	}
	return at
}

// stall returns how long the holder may report no progress before its lease
// is shown as stalled, and before it is revoked; 0 is for ever.
func (e *entry) stall() (shown, revoked time.Duration) {
	for _, p := range e.Lease.Parts {
		shown = least(shown, p.Terms.StallAfter)
		if p.Terms.StallRevokes {
			revoked = least(revoked, p.Terms.StallAfter)
		}
	}
	return shown, revoked
}

// ringHeld ends a lease whose time is over, or shows it as stalled.
func (m *Machine) ringHeld(e *entry) {
	switch _, stall := e.stall(); {
	case e.Lease.HoldUntil > 0 && m.now >= e.Lease.HoldUntil && e.held.expires >= e.Lease.HoldUntil:
		m.revoke(e, codeMaxHold, "its longest hold is over")
	case m.now >= e.held.expires:
		m.endLease(e, lease.EndExpired)
	case stall > 0 && m.now >= e.held.progress+stall:
		m.revoke(e, codeStalled, "it reported no progress for "+stall.String())
	default:
		e.held.stalled = true
		m.tell(EventStalled, e, Event{Pool: e.Lease.Parts[0].Pool, Slot: e.Lease.Parts[0].Slot})
	}
}

// Why a lease was revoked, where no operator did it.
const (
	codeMaxHold lease.Code = "max_hold"
	codeStalled lease.Code = "stalled"
)
