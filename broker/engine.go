package broker

import (
	"context"
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
	scratch   []store.Change
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
	m, err := machine.Load(cfg, records)
	if err != nil {
		return nil, err
	}
	return &Engine{machine: m, limits: s.Limits(), seq: seq, committed: m.Ledger().Now}, nil
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
	for _, a := range fx.Answers {
		e.place(a)
	}
	if len(fx.Events) > 0 {
		e.tell(fx.Events)
	}
	return nil
}

// More reports whether the machine has work left: a [machine.Tick] must
// follow soon.
func (e *Engine) More() bool { return e.more }

// keep puts a step's changes into the forming batch, or into a new one where
// the store's limits would be passed.
func (e *Engine) keep(fx *machine.Effects) error {
	changes, bytes := e.scratch[:0], 0
	for _, c := range fx.Changes {
		change, err := encode(c)
		if err != nil {
			return err
		}
		bytes += change.Size()
		changes = append(changes, change)
	}
	b := e.growing()
	if !b.fits(e.limits, len(changes), bytes) {
		b = e.begin()
	}
	for _, c := range changes {
		b.put(c)
	}
	b.last, b.ledger = fx.Step, e.machine.Ledger()
	e.scratch = changes
	return nil
}

func encode(c machine.Change) (store.Change, error) {
	key, err := record.AppendKey(nil, c.Record)
	if err != nil || c.Delete {
		return store.Change{Key: key}, err
	}
	value, err := record.AppendValue(make([]byte, 0, 192), c.Record)
	return store.Change{Key: key, Value: value}, err
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
func (e *Engine) place(a machine.Answer) {
	if b := e.batchOf(a.After); b != nil {
		b.answers = append(b.answers, a)
		return
	}
	e.ready = append(e.ready, a)
}

// batchOf returns the batch that makes a step durable, or nil where it is.
func (e *Engine) batchOf(step uint64) *batch {
	if step <= e.durable {
		return nil
	}
	if e.flying != nil && step <= e.flying.last {
		return e.flying
	}
	for _, b := range e.forming {
		if step <= b.last {
			return b
		}
	}
	return nil
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
	changes, err := b.seal()
	return Commit{Seq: e.seq + 1, Changes: changes}, err == nil, err
}

// A Commit is what [store.Store.Commit] is to be called with.
type Commit struct {
	Seq     uint64
	Changes []store.Change
}

// Committed takes in that the commit under way is durable.
func (e *Engine) Committed() {
	b := e.flying
	e.flying = nil
	e.seq++
	e.durable = max(e.durable, b.last)
	e.ready = append(e.ready, b.answers...)
	e.told = append(e.told, b.events...)
	b.reset()
	e.spare = append(e.spare, b)
}

// Ready returns the answers that may be given now. They are valid until the
// next call of any method.
func (e *Engine) Ready() []machine.Answer {
	ready := e.ready
	e.ready = e.ready[:0]
	return ready
}

// Told returns the events that may be told now, in order. They are valid until
// the next call of any method.
func (e *Engine) Told() []machine.Event {
	told := e.told
	e.told = e.told[:0]
	return told
}

// A batch is what one commit will make durable, and who waits for it.
type batch struct {
	last    uint64
	ledger  lease.Ledger
	changes []store.Change
	place   map[string]int
	bytes   int
	answers []machine.Answer
	events  []machine.Event
}

// fits reports whether the batch can take that much more, the ledger
// included.
func (b *batch) fits(l store.Limits, changes, bytes int) bool {
	const ledger, ledgerBytes = 1, 128
	switch {
	case len(b.changes) == 0:
		return true
	case l.Changes > 0 && len(b.changes)+changes+ledger > l.Changes:
		return false
	}
	return l.Bytes == 0 || b.bytes+bytes+ledgerBytes <= l.Bytes
}

// put adds a change; of two to one key the later counts.
func (b *batch) put(c store.Change) {
	if b.place == nil {
		b.place = map[string]int{}
	}
	if i, ok := b.place[string(c.Key)]; ok {
		b.bytes += c.Size() - b.changes[i].Size()
		b.changes[i] = c
		return
	}
	b.place[string(c.Key)] = len(b.changes)
	b.bytes += c.Size()
	b.changes = append(b.changes, c)
}

// seal adds the ledger.
func (b *batch) seal() ([]store.Change, error) {
	c, err := encode(machine.Change{Record: &b.ledger})
	if err != nil {
		return nil, err
	}
	b.put(c)
	return b.changes, nil
}

func (b *batch) reset() {
	clear(b.changes)
	clear(b.answers)
	clear(b.events)
	clear(b.place)
	*b = batch{place: b.place, changes: b.changes[:0], answers: b.answers[:0], events: b.events[:0]}
}
