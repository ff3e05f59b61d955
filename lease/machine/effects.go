package machine

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// Effects are what a step asks for: Changes must be durable, together with
// [Machine.Ledger], before any Answer whose After is at or past this step may
// be given or any Event told.
type Effects struct {
	// Step is the step's number; Changed is that of the last step that
	// changed a record.
	Step, Changed uint64
	Changes       []Change
	Answers       []Answer
	Events        []Event
	// More says that work is left: another step must follow soon.
	More bool
}

// A Change puts or deletes one record: a pointer to a lease.Start, Pool,
// Slot, Session, Host or Entry. It must be encoded before the next step.
type Change struct {
	Record any
	Delete bool
}

// An Answer ends one call.
type Answer struct {
	Call uint64
	// After is the step whose changes, and all before them, must be durable
	// before the answer may be given.
	After uint64
	// Err is an error of the closed list, or nil.
	Err *lease.Error
	// Token answers acquire, renew and clean.
	Token lease.Token
	// Queued goes with the code queued.
	Queued Queued
	// Diff answers apply, Status answers show.
	Diff   *lease.Diff
	Status *lease.Status
}

// Queued tells a waiter where it stands.
type Queued struct {
	// Position counts the waiters up to and with this one in the pool where
	// it is furthest behind, exact to 1,000.
	Position int
	// AskWithin is how long the waiter stays present without a call.
	AskWithin time.Duration
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	EventQueued EventKind = iota + 1
	EventGranted
	EventReleased
	EventAbandoned
	EventExpired
	EventRevoked
	EventEnded // a request ended without a lease: see End
	EventQuarantined
	EventFreed // units are free again after a quarantine
	EventStuck
	EventStalled
	EventCleaning
	EventPool
	EventSlot
	EventStarted
)

var eventNames = [...]string{"none", "queued", "granted", "released", "abandoned", "expired", "revoked", "ended", "quarantined", "freed", "stuck", "stalled", "cleaning", "pool", "slot", "started"}

// String returns the kind's name.
func (k EventKind) String() string { return eventNames[k] }

// An Event is told to those who watch. It holds ids: show their refs only.
type Event struct {
	Kind    EventKind
	At      time.Duration
	Request lease.RequestID
	Lease   lease.LeaseID
	Fence   lease.Fence
	Pool    string
	Slot    string
	End     lease.End
	// Why is the code or the proof behind it; Reason is said by a person.
	Why    string
	Reason string
}

func (fx *Effects) reset() {
	*fx = Effects{Changes: fx.Changes[:0], Answers: fx.Answers[:0], Events: fx.Events[:0]}
}

// put records that a record other than an entry has changed.
func (m *Machine) put(record any) {
	m.changed = m.step
	m.fx.Changes = append(m.fx.Changes, Change{Record: record})
}

func (m *Machine) del(record any) {
	m.changed = m.step
	m.fx.Changes = append(m.fx.Changes, Change{Record: record, Delete: true})
}

// save records that an entry has changed, once a step.
func (m *Machine) save(e *entry) {
	m.changed = m.step
	if e.touched == m.step {
		return
	}
	e.touched = m.step
	m.fx.Changes = append(m.fx.Changes, Change{Record: &e.Entry})
}

// tell records an event about an entry.
func (m *Machine) tell(kind EventKind, e *entry, ev Event) {
	ev.Kind, ev.At, ev.Request = kind, m.now, e.ID
	if e.Lease != nil {
		ev.Lease, ev.Fence = e.Lease.ID, e.Lease.Fence
	}
	m.fx.Events = append(m.fx.Events, ev)
}

func (m *Machine) tellPlace(kind EventKind, pool, slot, why, reason string) {
	m.fx.Events = append(m.fx.Events, Event{Kind: kind, At: m.now, Pool: pool, Slot: slot, Why: why, Reason: reason})
}

// answer ends a call; its truth rests on every change so far.
func (m *Machine) answer(a Answer) {
	if a.Call == 0 {
		return
	}
	a.After = m.changed
	m.fx.Answers = append(m.fx.Answers, a)
}

// refuse ends a call with an error.
func (m *Machine) refuse(call uint64, code lease.Code, format string, args ...any) {
	m.answer(Answer{Call: call, Err: lease.Errorf(code, format, args...)})
}
