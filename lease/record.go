package lease

import (
	"strconv"
	"time"
)

// The types below are what a broker keeps in its store, one record each. The
// machine changes them, package store/record encodes them.

// A Ledger is the store's one summary record, part of every commit.
type Ledger struct {
	// Now is broker time at the commit.
	Now time.Duration
	// Fence is the last fence given.
	Fence Fence
	// Number is the last request number given.
	Number uint64
	// Start is the number of the broker's start that made the commit.
	Start uint64
	// Acquired = Released + Orphaned + Revoked + leases held.
	Acquired, Released, Orphaned, Revoked uint64
}

// A Start is one start of a broker on the store. At start n each lease whose
// record was written in start n−1 gets one full TTL from Began; an older one
// had its extension at the start after its own.
type Start struct {
	Number uint64
	Began  time.Duration
	// Settle says that the start followed a restore: no unit is granted anew
	// before the leases that the records may not show have surely ended. Kept
	// says that the slots' records have it.
	Settle, Kept bool
}

// A Pool is a pool's record.
type Pool struct {
	Name string
	// Source declares the settings; empty until one does.
	Source   Source
	Settings Settings
	Drained  bool
	// Removing says that the source dropped the pool while slots of it remain.
	Removing bool
}

// A Slot is a slot's record. That a slot is held stands in the requests'
// records alone.
type Slot struct {
	Pool     string
	ID       string
	Source   Source
	Labels   map[string]string
	Capacity int64
	Drained  bool
	// Removing says that the source dropped the slot while units of it are
	// held or quarantined.
	Removing bool
	// Unhealthy is why the slot is not granted, empty where it is well.
	Unhealthy string
	// SettleUntil keeps the slot back after a restore.
	SettleUntil time.Duration
	// Freed is when units last came back, as far as no request's record tells.
	Freed time.Duration
}

// A Session is a client's numbered series of requests.
type Session struct {
	Caller Caller
	ID     string
	// Mark is the number below which every request is finished.
	Mark uint64
	// After is the last request number given before it was opened: what has
	// such a name and came earlier is not its.
	After uint64
}

// A Host is what an agent has reported of its machine.
type Host struct {
	Machine string
	Boot    string
}

// A State is where a request stands.
type State uint8

// The states of a request.
const (
	Waiting State = iota + 1
	Held
	Ended
)

var stateNames = [...]string{"none", "waiting", "held", "ended"}

// String returns the state's name.
func (s State) String() string { return nameOf(stateNames[:], uint8(s)) }

// An End is how a request ended.
type End uint8

// The ends of a request. The last four are ends of a lease.
const (
	EndRefused End = iota + 1 // refused with Code
	EndCancelled
	EndTimedOut
	EndAbsent
	EndUnsatisfiable
	EndFinished
	EndReleased
	EndAbandoned
	EndExpired
	EndRevoked
)

var endNames = [...]string{"none", "refused", "cancelled", "timed_out", "absent", "unsatisfiable", "finished", "released", "abandoned", "expired", "revoked"}

// String returns the end's name.
func (e End) String() string { return nameOf(endNames[:], uint8(e)) }

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return strconv.Itoa(int(i))
}

// An Entry is the record of one request, from its arrival until it is
// forgotten.
type Entry struct {
	// Number is the order of arrival and the record's key.
	Number uint64
	Caller Caller
	ID     RequestID
	Digest Digest
	State  State
	// Arrived is when the first call came.
	Arrived time.Duration
	// Request is the body while the request waits; nil from then on.
	Request *Request
	// Lease is the lease it was granted, or nil.
	Lease *Lease
	End   End
	// Code is why it was refused or revoked.
	Code Code
	// Reason is said by who ended it, for people.
	Reason string
	// Ended is when the request ended, Settled when its last unit was free.
	Ended, Settled time.Duration
}

// A Lease is the part of an entry that a grant adds.
type Lease struct {
	ID      LeaseID
	Fence   Fence
	TTL     time.Duration
	Granted time.Duration
	// HoldUntil is where MaxHold ends the lease; 0 is never.
	HoldUntil time.Duration
	// Start is the broker's start in which the record last said that the
	// lease is alive: its grant or its first renewal after a restart.
	Start uint64
	// Promised is the lease's latest end by grant, renewal or restart; set
	// when it ends.
	Promised time.Duration
	// HostBoot is the boot id that the agent of the holder's machine had
	// reported at the grant.
	HostBoot string
	// Holder and Note are the request's, whose body is dropped at the grant.
	Holder Holder
	Note   string
	Parts  []Part
	// Cleans is set on a cleaner's lease: the request and the part of it
	// whose units it took over.
	Cleans *CleanOf
}

// A CleanOf names the part that a cleaner's lease took over.
type CleanOf struct {
	Number uint64
	Part   int
}

// A Terms is how a lease's units on one slot go on, as the pool said at the
// grant.
type Terms struct {
	Handover Handover
	// Clean says that the pool has a cleaning step.
	Clean        bool
	StallAfter   time.Duration
	StallRevokes bool
}

// A PartState is where a lease's units on one slot stand.
type PartState uint8

// The states of a part.
const (
	PartHeld PartState = iota + 1
	PartQuarantined
	PartCleaning // a cleaner's lease has the units
	PartFree
)

var partNames = [...]string{"none", "held", "quarantined", "cleaning", "free"}

// String returns the state's name.
func (s PartState) String() string { return nameOf(partNames[:], uint8(s)) }

// A Part is a lease's units on one slot.
type Part struct {
	Pool  string
	Slot  string
	Units int64
	Terms *Terms
	State PartState
	// Since is when the quarantine began.
	Since time.Duration
	// Cleanable is when cleaning may begin.
	Cleanable time.Duration
	// Cleaner is the number of the request that last took the units over to
	// clean; 0 is none.
	Cleaner uint64
	// Freed is when the units were free again.
	Freed time.Duration
}
