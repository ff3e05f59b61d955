package broker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/store"
)

// Reserve is the free space that a store keeps for giving back: below it
// whatever takes is refused.
const Reserve = 64 << 20

// observeEvery is how often broker time is observed where nothing else
// happens.
const observeEvery = 250 * time.Millisecond

// A Config says what a broker runs on. Only Store is needed.
type Config struct {
	// Store keeps the records. The broker does not close it.
	Store store.Store
	// Machine bounds what is remembered and queued.
	Machine machine.Config
	// Settle keeps every slot back after a restore, until every lease that
	// the records may not show has surely ended.
	Settle bool
	// Events is how many events are kept for Watch; 0 means 10,000.
	Events int
	// Reading reads a monotonic clock; nil reads the process's.
	Reading func() time.Duration
	// Logger hears of starts, stops and failures; nil is silent.
	Logger *slog.Logger
}

// A Broker hands out leases, durably. It implements [lease.Broker] for the
// caller [lease.Local]; see [Broker.As] for others. All methods may be called
// from any goroutine.
type Broker struct {
	cfg     Config
	engine  *Engine
	clock   Clock
	journal *journal

	// wake has room for one: a sign that calls has grown.
	wake chan struct{}
	// stopped is closed when Run has ended.
	stopped chan struct{}

	mu sync.Mutex
	// The fields below are guarded by mu.
	incoming []command
	lastCall uint64
	// closed is why no more commands are taken, or nil.
	closed  error
	running bool

	// open are the calls that wait for an answer. Only Run touches it.
	open map[uint64]*pending
	// full says that the store has no room to take more. Only Run touches it.
	full bool
}

// A command is one that came in, and who waits for its answer.
type command struct {
	cmd  func(call uint64, full bool) machine.Command
	call *pending
}

// A pending call gets one answer. Its channel has room for it.
type pending struct {
	id     uint64
	answer chan machine.Answer
}

// Open loads the store's records and begins a new start of the broker, which
// is durable when Open returns. Calls are answered once [Broker.Run] serves.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	if cfg.Store == nil {
		return nil, lease.Errorf(lease.CodeInternal, "cannot open a broker: Config.Store is nil")
	}
	if cfg.Reading == nil {
		began := time.Now()
		cfg.Reading = func() time.Duration { return time.Since(began) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Events == 0 {
		cfg.Events = 10_000
	}
	engine, err := LoadEngine(ctx, cfg.Machine, cfg.Store)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg, engine: engine, clock: NewClock(engine.Now(), cfg.Reading()),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), open: map[uint64]*pending{},
	}
	return b, b.start(ctx)
}

// start makes the new start durable: whatever is said later rests on it.
func (b *Broker) start(ctx context.Context) error {
	restart := machine.Restart{Fence: uint64(time.Now().UnixMicro()), Settle: b.cfg.Settle}
	if err := b.engine.Do(b.now(), restart); err != nil {
		return err
	}
	for {
		if err := b.carryOn(); err != nil {
			return err
		}
		c, ok, err := b.engine.Seal()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := b.cfg.Store.Commit(ctx, c.Seq, c.Changes); err != nil {
			return err
		}
		b.engine.Committed()
	}
	ledger := b.engine.machine.Ledger()
	b.journal = newJournal(uint64(ledger.Fence), b.cfg.Events)
	b.journal.add(b.engine.Told())
	b.cfg.Logger.Info("broker started", "start", ledger.Start, "held", ledger.Acquired-ledger.Released-ledger.Orphaned-ledger.Revoked)
	return nil
}

// carryOn does all work that the machine has left.
func (b *Broker) carryOn() error {
	for b.engine.More() {
		if err := b.engine.Do(b.now(), machine.Tick{}); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) now() time.Duration { return b.clock.Observe(b.cfg.Reading()) }

// submit hands a command to the loop. The answer comes on the channel.
func (b *Broker) submit(cmd func(call uint64, full bool) machine.Command) (*pending, error) {
	p := &pending{answer: make(chan machine.Answer, 1)}
	b.mu.Lock()
	if b.closed != nil {
		defer b.mu.Unlock()
		return nil, b.closed
	}
	b.lastCall++
	p.id = b.lastCall
	b.incoming = append(b.incoming, command{cmd, p})
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return p, nil
}

// take returns what came in.
func (b *Broker) take(room []command) []command {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.incoming
	b.incoming = room[:0]
	return got
}

// shut refuses all commands from now on and returns those not yet taken.
func (b *Broker) shut(err error) []command {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == nil {
		b.closed = err
	}
	left := b.incoming
	b.incoming = nil
	return left
}
