package broker

import (
	"context"
	"log/slog"
	"sync/atomic"
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
	// Reading reads a monotonic clock; nil reads the process's. It must not
	// block and may be called from any goroutine.
	Reading func() time.Duration
	// Logger hears of starts, stops and failures; nil is silent.
	Logger *slog.Logger
}

// A Broker hands out leases, durably. It starts with [Open], serves while
// [Broker.Run] does, and is not closed: when Run has ended every call is
// refused. It implements [lease.Broker] for the caller [lease.Local]; see
// [Broker.As] for others. All methods may be called from any goroutine; those
// that ask something wait for the answer as long as their context.
type Broker struct {
	cfg     Config
	inbox   *inbox
	journal *journal
	// began is set by the first Run.
	began atomic.Bool
	// full says that the store has no room to take more.
	full atomic.Bool

	// turn holds one token. Whoever has taken it out owns the fields below,
	// until he puts it back: at any time the engine is one goroutine's. Before
	// the workers begin, and when they have ended, it is Open's and Run's.
	turn   chan struct{}
	engine *Engine
	clock  Clock
	// open are the calls that wait for an answer, room is for those to come.
	open map[uint64]*call
	room []*call
	// looked is when the store's free space was last asked for.
	looked time.Duration
}

var _ lease.Broker = (*Broker)(nil)

// Open loads the store's records and begins a new start of the broker, which
// is durable when Open returns. Calls are answered once [Broker.Run] serves;
// until then they wait.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	if cfg.Store == nil {
		return nil, lease.Errorf(lease.CodeInternal, "cannot open a broker: Config.Store is nil; give it a store")
	}
	cfg = cfg.withDefaults()
	engine, err := LoadEngine(ctx, cfg.Machine, cfg.Store)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg, inbox: newInbox(), turn: make(chan struct{}, 1), open: map[uint64]*call{}, engine: engine,
		// Broker time begins at 1, so that 0 can mean "not".
		clock: NewClock(max(1, engine.Now()), cfg.Reading()),
	}
	b.turn <- struct{}{}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (c Config) withDefaults() Config {
	if c.Reading == nil {
		began := time.Now()
		c.Reading = func() time.Duration { return time.Since(began) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Events <= 0 {
		c.Events = 10_000
	}
	return c
}

// start makes the new start durable: whatever is said later rests on it.
func (b *Broker) start(ctx context.Context) error {
	restart := machine.Restart{Fence: uint64(max(0, time.Now().UnixMicro())), Settle: b.cfg.Settle}
	if err := b.engine.Do(b.now(), restart); err != nil {
		return err
	}
	ledger := b.engine.Ledger()
	b.journal = newJournal(firstEvent(ledger.Fence), b.cfg.Events)
	if err := b.flush(ctx); err != nil {
		return err
	}
	b.look()
	b.cfg.Logger.Info("broker started", "start", ledger.Start, "held", ledger.Acquired-ledger.Released-ledger.Orphaned-ledger.Revoked)
	return nil
}

func (b *Broker) now() time.Duration { return b.clock.Observe(b.cfg.Reading()) }

// look asks for the store's free space, on which hangs what is taken in. A
// store that cannot tell will say more at its next commit.
func (b *Broker) look() {
	b.looked = b.engine.Now()
	free, err := b.cfg.Store.Free()
	full := err == nil && free < Reserve
	if b.full.Swap(full) != full {
		b.cfg.Logger.Warn("store space", "full", full, "free", free, "reserve", uint64(Reserve))
	}
}
