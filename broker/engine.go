package broker

import (
	"context"
	"sort"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/record"
)

// commitEvery is how old the committed broker time may get while a lease, a
// waiter or a quarantine lives. With an observation every quarter of a second
// it is committed at least once a second.
const commitEvery = 500 * time.Millisecond

// spareBatches is how many empty batches are kept for their room: one grows
// while another flies.
const spareBatches = 2

// An Engine is the broker's pure step: commands go in, batches come out for a
// store, and answers are ready once what they rest on is durable. It reads no
// clock, does no I/O and belongs to one goroutine.
type Engine struct {
	machine *machine.Machine
	limits  store.Limits
	seq     uint64
	// forming are the batches that wait for the committer, the last one still
	// growing; flying is the one being committed.
	forming []*batch
	flying  *batch
	// durable is the machine's step up to which every change is in the store.
	durable uint64
	// committed is the broker time of the last sealed batch.
	committed time.Duration
	ready     []machine.Answer
	told      []machine.Event
	spare     []*batch
	more      bool
	effects   *machine.Effects // of the last step
}

// LoadEngine makes an engine of what a store holds. The first command must be
// a [machine.Restart].
func LoadEngine(ctx context.Context, cfg machine.Config, s store.Store) (*Engine, error) {
	var records []any
	var decoder record.Decoder
	seq, err := s.Load(ctx, func(key, value []byte) error {
		r, err := decoder.Decode(key, value)
		records = append(records, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	limits := s.Limits()
	cfg.StepChanges = stepChanges(cfg.StepChanges, limits)
	m, err := machine.Load(cfg, records)
	if err != nil {
		return nil, err
	}
	return &Engine{machine: m, limits: limits, seq: seq, committed: m.Ledger().Now}, nil
}

// stepChanges returns how many changes end a step, so that one step always
// fits in a commit: its last command may add as many as a request has slots
// and pools, and a few more.
func stepChanges(want int, limits store.Limits) int {
	const usual, most = 64, lease.MaxSlots + lease.MaxClaims + 4
	if want == 0 {
		want = usual
	}
	if limits.Changes > 0 {
		want = max(1, min(want, limits.Changes-most))
	}
	return want
}

// Now returns the broker time of the last step.
func (e *Engine) Now() time.Duration { return e.machine.Ledger().Now }

// Do runs one command at a moment of broker time. An error is a fault of the
// program, after which the engine is of no use.
func (e *Engine) Do(now time.Duration, cmd machine.Command) error {
	fx := e.machine.Step(now, cmd)
	e.more, e.effects = fx.More, fx
	if len(fx.Changes) > 0 {
		if err := e.keep(fx); err != nil {
			return err
		}
	}
	for i := range fx.Answers {
		e.place(&fx.Answers[i])
	}
	if len(fx.Events) > 0 {
		e.tell(fx.Events)
	}
	return nil
}

// More reports whether the machine has work left: a [machine.Tick] must
// follow soon.
func (e *Engine) More() bool { return e.more }

// keep puts a step's changes into the growing batch, or into a new one where
// the store's limits would be passed.
func (e *Engine) keep(fx *machine.Effects) error {
	b := e.growing()
	before := len(b.changes)
	if err := b.add(fx.Changes); err != nil {
		return err
	}
	if before > 0 && !b.fits(e.limits) {
		b.cut(before)
		b = e.begin()
		if err := b.add(fx.Changes); err != nil {
			return err
		}
	}
	b.last, b.ledger = fx.Step, e.machine.Ledger()
	return nil
}

// growing returns the batch that takes the next changes.
func (e *Engine) growing() *batch {
	if len(e.forming) == 0 {
		return e.begin()
	}
	return e.forming[len(e.forming)-1]
}

func (e *Engine) begin() *batch {
	b := &batch{}
	if n := len(e.spare); n > 0 {
		b, e.spare = e.spare[n-1], e.spare[:n-1]
	}
	e.forming = append(e.forming, b)
	return b
}

// place gives an answer out, or has it wait for the batch it rests on.
func (e *Engine) place(a *machine.Answer) {
	if b := e.batchOf(a.After); b != nil {
		b.answers = append(b.answers, *a)
		return
	}
	e.ready = append(e.ready, *a)
}

// batchOf returns the batch that makes a step durable, or nil where it is.
func (e *Engine) batchOf(step uint64) *batch {
	if step <= e.durable {
		return nil
	}
	if e.flying != nil && step <= e.flying.last {
		return e.flying
	}
	i := sort.Search(len(e.forming), func(i int) bool { return step <= e.forming[i].last })
	if i == len(e.forming) {
		return nil
	}
	return e.forming[i]
}

// tell has events wait for all batches before them, so that they are told in
// order.
func (e *Engine) tell(events []machine.Event) {
	switch {
	case len(e.forming) > 0:
		b := e.growing()
		b.events = append(b.events, events...)
	case e.flying != nil:
		e.flying.events = append(e.flying.events, events...)
	default:
		e.told = append(e.told, events...)
	}
}

// A Commit is what [store.Store.Commit] is to be called with.
type Commit struct {
	Seq     uint64
	Changes []store.Change
}

// Seal returns the next commit, if there is one and none is under way. While
// anything lives, broker time is reason enough for one.
func (e *Engine) Seal() (c Commit, ok bool, err error) {
	if e.flying != nil {
		return Commit{}, false, nil
	}
	if len(e.forming) == 0 {
		if !e.machine.Live() || e.Now()-e.committed < commitEvery {
			return Commit{}, false, nil
		}
		e.begin().ledger = e.machine.Ledger()
	}
	b := e.forming[0]
	e.forming = e.forming[:copy(e.forming, e.forming[1:])]
	e.flying = b
	e.committed = b.ledger.Now
	if err := b.seal(); err != nil {
		return Commit{}, false, err
	}
	return Commit{Seq: e.seq + 1, Changes: b.changes}, true, nil
}

// Committed takes in that the commit under way is durable.
func (e *Engine) Committed() {
	b := e.flying
	e.flying = nil
	e.seq++
	e.durable = max(e.durable, b.last)
	e.ready = append(e.ready, b.answers...)
	e.told = append(e.told, b.events...)
	if b.reset(); len(e.spare) < spareBatches {
		e.spare = append(e.spare, b)
	}
}

// Ready returns the answers that may be given now. They are valid until the
// next call of any method.
func (e *Engine) Ready() []machine.Answer {
	ready := e.ready
	e.ready = e.ready[:0]
	return ready
}

// waiting returns how many answers are ready.
func (e *Engine) waiting() int { return len(e.ready) }

// Told returns the events that may be told now, in order. They are valid until
// the next call of any method.
func (e *Engine) Told() []machine.Event {
	told := e.told
	e.told = e.told[:0]
	return told
}
