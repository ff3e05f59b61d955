package machine

import (
	"time"

	"github.com/tidwall/btree"

	"github.com/berth-dev/berth/lease"
)

// Times that a waiter's presence is measured by.
const (
	// AskWithin is how long a waiter stays present after a call that ended
	// with queued, and after a restart.
	AskWithin = 5 * time.Second
	// AbsentFor is how long an absent waiter keeps its rank.
	AbsentFor = 60 * time.Second
	// RankStep is how far a point of priority moves a waiter's rank.
	RankStep = 60 * time.Second
)

// A Config bounds a machine. The zero value is the default.
type Config struct {
	// Retention is how long an ended request is remembered at the most; 0
	// means 10 minutes.
	Retention time.Duration
	// Retained is how many ended requests are remembered at the most; 0
	// means 200,000.
	Retained int
	// StepChanges is how many changes end a step; 0 means 64.
	StepChanges int
	// Waiters is how many requests may wait on a pool; 0 means 100,000.
	Waiters int
	// Shapes is how many different claims may wait on a pool; 0 means 256.
	Shapes int
	// Views is how many selectors that nobody waits for keep their index in a
	// pool; 0 means 32.
	Views int
}

func (c Config) withDefaults() Config {
	if c.Retention == 0 {
		c.Retention = 10 * time.Minute
	}
	for _, f := range []struct {
		v   *int
		def int
	}{{&c.Retained, 200_000}, {&c.StepChanges, 64}, {&c.Waiters, 100_000}, {&c.Shapes, 256}, {&c.Views, 32}} {
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	return c
}

// A Command is one of this package's command types.
type Command interface {
	run(m *Machine)
}

// A Machine is the broker's whole state. Make one with [Load].
type Machine struct {
	cfg Config
	now time.Duration
	// ledger is the store's summary record as it will be committed.
	ledger lease.Ledger
	// step numbers the calls of Step; changed is the last step with a change.
	step, changed uint64
	fx            Effects

	pools    btree.Map[string, *pool]
	hosts    map[string]*lease.Host
	sessions map[sessionKey]*session
	starts   []*lease.Start

	requests map[requestKey]*entry
	leases   map[lease.LeaseID]*entry
	// quarantine holds the entries with units that are neither held nor free.
	quarantine btree.Map[uint64, *entry]
	// settled are the ended entries in the order in which they may be forgotten.
	settled  ring
	retained int
	alarms   alarms
	// settleFrom is the last start that followed a restore, since which slots
	// settle, new ones too; 0 is none.
	settleFrom time.Duration

	work work
	// The rest is scratch space of one decision.
	picks, aside []pick
	claimed      []*pool
	heads        []ranked
	tied         []*pool
	once         shape
	key          []byte
	// waitings is memory of former waiters.
	waitings []*waiting
}

type requestKey struct {
	caller lease.Caller
	id     lease.RequestID
}

// Step runs one command at a moment of broker time, which must not go back.
// The effects are valid until the next call.
func (m *Machine) Step(now time.Duration, cmd Command) *Effects {
	m.now = max(m.now, now)
	m.ledger.Now = m.now
	m.step++
	m.fx.reset()
	cmd.run(m)
	m.carryOn()
	m.fx.Step, m.fx.Changed = m.step, m.changed
	return &m.fx
}

// Ledger returns the summary record that belongs to the last step. Every
// commit must contain it.
func (m *Machine) Ledger() lease.Ledger { return m.ledger }

// Live reports whether a lease, a waiter or a quarantine lives, while which
// broker time must be committed at least once a second.
func (m *Machine) Live() bool { return m.alarms.live > 0 }

// room reports whether the step may make more changes.
func (m *Machine) room() bool { return len(m.fx.Changes) < m.cfg.StepChanges }
