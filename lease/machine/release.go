package machine

import "github.com/berth-dev/berth/lease"

// Release ends a lease whose work has stopped. Of a lease that ended
// otherwise it proves just that.
type Release struct {
	Call   uint64
	Caller lease.Caller
	Lease  lease.LeaseID
}

func (c Release) run(m *Machine) {
	e := m.ofCaller(c.Call, c.Caller, c.Lease)
	if e == nil {
		return
	}
	if e.held != nil {
		m.endLease(e, lease.EndReleased)
		m.answer(Answer{Call: c.Call})
		return
	}
	if e.End == lease.EndReleased {
		m.answer(Answer{Call: c.Call})
		return
	}
	m.stopped(e, "stopped")
	m.answer(Answer{Call: c.Call, Err: e.leaseError()})
}

// Abandon gives up a lease whose work may still run.
type Abandon struct {
	Call   uint64
	Caller lease.Caller
	Lease  lease.LeaseID
	Reason string
}

func (c Abandon) run(m *Machine) {
	e := m.ofCaller(c.Call, c.Caller, c.Lease)
	switch {
	case e == nil:
	case e.held != nil:
		e.Reason = clip(c.Reason)
		m.endLease(e, lease.EndAbandoned)
		m.answer(Answer{Call: c.Call})
	case e.End == lease.EndAbandoned:
		m.answer(Answer{Call: c.Call})
	default:
		m.answer(Answer{Call: c.Call, Err: e.leaseError()})
	}
}

// clip bounds what people write into records.
func clip(reason string) string { return reason[:min(len(reason), lease.MaxNote)] }

// Cancel ends a request by its id: a waiter ends, a lease is abandoned. It is
// remembered when it comes before the request.
type Cancel struct {
	Call   uint64
	Caller lease.Caller
	ID     lease.RequestID
	// Unused says that the token was never handed out: before any renewal the
	// units are free at once.
	Unused bool
}

func (c Cancel) run(m *Machine) {
	e := m.requests[requestKey{c.Caller, c.ID}]
	switch {
	case e == nil:
		m.cancelUnheard(c)
	case e.wait != nil:
		m.endWaiting(e, lease.EndCancelled)
		m.answer(Answer{Call: c.Call})
	case e.held != nil:
		m.cancelLease(e, c.Unused && !e.held.renewed && e.Lease.Start == m.ledger.Start)
		m.answer(Answer{Call: c.Call})
	default:
		m.answer(Answer{Call: c.Call})
	}
}

// cancelLease abandons a lease. One that was never used is free at once, but
// a cleaner's that was has not cleaned.
func (m *Machine) cancelLease(e *entry, unused bool) {
	e.Reason = "cancelled by its request"
	switch {
	case unused && e.Lease.Cleans == nil:
		m.endLease(e, lease.EndReleased)
	default:
		m.endLease(e, lease.EndAbandoned)
		if unused {
			m.cleanerStopped(e)
		}
	}
}

// cancelUnheard remembers the cancel of a request that has not come yet.
func (m *Machine) cancelUnheard(c Cancel) {
	if s, serial := m.sessionOf(c.Caller, c.ID); s != nil && serial < s.Mark {
		// Such a request is refused for good already.
		m.answer(Answer{Call: c.Call})
		return
	}
	e := m.newEntry(c.Caller, c.ID, lease.Digest{})
	m.endRequest(e, lease.EndCancelled)
	m.answer(Answer{Call: c.Call})
}
