package lease

import "time"

// A Status is what people may see of a broker: refs, never ids.
type Status struct {
	// Now is broker time.
	Now time.Duration
	// Acquired = Released + Orphaned + Revoked + Held, over the store's life.
	Acquired, Released, Orphaned, Revoked, Held uint64
	// Queued counts waiters; Quarantined and Stuck count slots.
	Queued, Quarantined, Stuck int
	// Slots counts slots, Free those with all units free and open to grants.
	Slots, Free int
	// Retained is how many ended requests are remembered, RetainedFor for how
	// long the oldest has been.
	Retained    int
	RetainedFor time.Duration
	// Boots are the boot ids that agents have reported last, by machine.
	Boots map[string]string
	Pools []PoolStatus
}

// A PoolStatus is one pool.
type PoolStatus struct {
	Name     string
	Source   Source
	Settings Settings
	Drained  bool
	Removing bool
	// Units, UnitsHeld and UnitsQuarantined are over all its slots.
	Units, UnitsHeld, UnitsQuarantined int64
	Queued                             int
	// LongestWait is how long the oldest waiter has waited.
	LongestWait time.Duration
	Slots       []SlotStatus
	Waiters     []WaiterStatus
}

// A SlotStatus is one slot and the leases on it.
type SlotStatus struct {
	ID       string
	State    string
	Labels   map[string]string
	Source   Source
	Capacity int64
	Why      string
	Leases   []LeaseStatus
}

// A LeaseStatus is a lease's units on one slot.
type LeaseStatus struct {
	Ref    Ref
	Fence  Fence
	Caller Caller
	Holder Holder
	Note   string
	Units  int64
	// State is held, quarantined, stuck or cleaning.
	State string
	// End, Why and Reason say how it ended, where it did.
	End    string
	Why    string
	Reason string
	// Since is how long ago it was granted, or quarantined.
	Since time.Duration
	// Left is what remains of the lease, or of its quarantine where only
	// time ends it.
	Left time.Duration
	// Progress is how long ago the holder said that its work goes on, and
	// Doing what it said; Stalled, that this is too long ago for its pools.
	Progress time.Duration
	Doing    string
	Stalled  bool
	// Handover says what ends the quarantine.
	Handover Handover
}

// A WaiterStatus is one waiter.
type WaiterStatus struct {
	Ref      Ref
	Caller   Caller
	Holder   Holder
	Note     string
	Claims   []Claim
	Priority int
	// State is present, reserved or absent.
	State  string
	Waited time.Duration
}

// A Diff is what an apply changes, or would.
type Diff struct {
	Added, Changed, Removed, Marked []string
}
