package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// An entry is one request: its record and what only memory knows of it.
type entry struct {
	lease.Entry
	// touched is the step that last changed the record.
	touched uint64
	// wait is set while the request waits, held while its lease lives.
	wait *waiting
	held *holding
	// slots stand beside Lease.Parts. Once the last unit is free, one may be
	// nil, or gone.
	slots []*slot
	// stuck marks the parts that have been told as stuck, by bit.
	stuck uint32
	// forgotten says that the record is gone.
	forgotten bool
	// cleaners are the last cleaners of the parts, where there were any.
	cleaners map[int]*entry
	session  *session
	serial   uint64
	clock    alarm
}

// A holding is what only memory knows of a live lease.
type holding struct {
	// expires is the lease's end by its latest promise.
	expires time.Duration
	// progress is when the holder last said that its work goes on.
	progress time.Duration
	note     string
	renewed  bool
	// extended says that a restart gave the lease its time, not the holder.
	extended bool
	stalled  bool
}

// lingers reports whether units wait in quarantine after the entry's lease.
func (e *entry) lingers() bool { return e.State == lease.Ended && e.Settled == 0 }

func (e *entry) alarm() *alarm { return &e.clock }

// newEntry makes the entry of a request that is heard of for the first time.
func (m *Machine) newEntry(caller lease.Caller, id lease.RequestID, digest lease.Digest) *entry {
	m.ledger.Number++
	e := &entry{Entry: lease.Entry{
		Number: m.ledger.Number, Caller: caller, ID: id, Digest: digest, Arrived: m.now,
	}}
	e.clock.order = e.Number
	m.requests[requestKey{caller, id}] = e
	m.joinSession(e)
	return e
}

// due is when time changes the entry next.
func (e *entry) due(m *Machine) time.Duration {
	switch {
	case e.wait != nil:
		return e.wait.due(e)
	case e.held != nil:
		return e.heldDue()
	case e.lingers():
		return e.quarantineDue()
	}
	return never
}

// ring makes the changes that are due.
func (e *entry) ring(m *Machine) {
	switch {
	case e.wait != nil:
		m.ringWaiting(e)
	case e.held != nil:
		m.ringHeld(e)
	case e.lingers():
		m.ringQuarantine(e)
	}
}

// endError says how a request ended.
func (e *entry) endError() *lease.Error {
	ref := e.ID.Ref()
	switch e.End {
	case lease.EndRefused:
		return lease.Errorf(e.Code, "cannot grant request %s: %s", ref, e.Reason)
	case lease.EndCancelled:
		return lease.Errorf(lease.CodeCancelled, "cannot grant request %s: it was cancelled; ask with a new id", ref)
	case lease.EndTimedOut:
		return lease.Errorf(lease.CodeTimedOut, "cannot grant request %s: nothing was free within its wait; ask with a new id and a longer wait", ref)
	case lease.EndAbsent:
		return lease.Errorf(lease.CodeAbsent, "cannot grant request %s: nobody asked for it for %v; ask with a new id", ref, AbsentFor)
	case lease.EndUnsatisfiable:
		return lease.Errorf(lease.CodeUnsatisfiable, "cannot grant request %s: the pools no longer have the slots it claims; see the pools and ask for less", ref)
	case lease.EndFinished:
		return lease.Errorf(lease.CodeFinished, "cannot grant request %s: its session has finished with it", ref)
	}
	return e.leaseError()
}

// leaseError says how a lease ended.
func (e *entry) leaseError() *lease.Error {
	ref := e.Lease.ID.Ref()
	switch e.End {
	case lease.EndReleased:
		return lease.Errorf(lease.CodeLeaseReleased, "lease %s was released; acquire a new one", ref)
	case lease.EndAbandoned:
		return lease.Errorf(lease.CodeLeaseAbandoned, "lease %s was abandoned: %s; stop its work and acquire a new one", ref, e.why())
	case lease.EndExpired:
		return lease.Errorf(lease.CodeLeaseExpired, "lease %s expired: it was not renewed within %v; stop its work and acquire a new one", ref, e.Lease.TTL)
	}
	return lease.Errorf(lease.CodeLeaseRevoked, "lease %s was revoked: %s; stop its work and acquire a new one", ref, e.why())
}

func (e *entry) why() string {
	switch {
	case e.Reason != "" && e.Code != "":
		return string(e.Code) + ": " + e.Reason
	case e.Reason != "":
		return e.Reason
	case e.Code != "":
		return string(e.Code)
	}
	return "no reason given"
}
