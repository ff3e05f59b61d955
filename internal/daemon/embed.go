package daemon

import (
	"context"
	"errors"
	"log/slog"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/pebble"
)

// An EmbedConfig says what a broker inside the process runs on. The zero
// value is a broker in memory without pools.
type EmbedConfig struct {
	// Dir keeps the records; empty keeps them in memory.
	Dir string
	// Pools are applied as the file's.
	Pools []lease.PoolSpec
	// Logger hears of starts, stops and failures; nil is silent.
	Logger *slog.Logger
}

// An Embedded is a running broker inside the process, with its store. It
// starts with [Embed] and is ended by Close.
type Embedded struct {
	*broker.Broker
	store store.Store
	stop  context.CancelFunc
	ended chan error
}

// Embed opens the store and runs a broker on it until Close.
func Embed(ctx context.Context, cfg EmbedConfig) (*Embedded, error) {
	s, err := openStore(cfg)
	if err != nil {
		return nil, err
	}
	b, err := broker.Open(ctx, broker.Config{Store: s, Logger: cfg.Logger})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Embedded{Broker: b, store: s, stop: stop, ended: make(chan error, 1)}
	go func() { e.ended <- b.Run(run) }()
	if len(cfg.Pools) == 0 {
		return e, nil
	}
	if _, err := b.Apply(ctx, lease.SourceFile, cfg.Pools, false); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func openStore(cfg EmbedConfig) (store.Store, error) {
	if cfg.Dir == "" {
		return store.NewMemory(store.Limits{}), nil
	}
	return pebble.Open(cfg.Dir, pebble.Config{Logger: cfg.Logger})
}

// Close stops the broker, waits until all it has said is durable, and closes
// the store. Leases that are held stay held in the store. It may be called
// once.
func (e *Embedded) Close() error {
	e.stop()
	return errors.Join(<-e.ended, e.store.Close())
}
