package daemon

import (
	"context"
	"errors"
	"log/slog"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/scope"
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
	scope *scope.Scope
}

// Embed opens the store and runs a broker on it until Close.
func Embed(ctx context.Context, cfg EmbedConfig) (*Embedded, error) {
	e := &Embedded{scope: scope.New(context.WithoutCancel(ctx), scope.Config{Name: "embedded broker", Ages: true})}
	if err := e.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Embedded) start(ctx context.Context, cfg EmbedConfig) error {
	l, err := scope.Own(ctx, e.scope, guard.Resource[store.Store]{
		Name:    "store",
		Acquire: func(context.Context) (store.Store, error) { return openStore(cfg) },
		Release: func(_ context.Context, s store.Store, _ guard.Outcome) error { return s.Close() },
	})
	if err != nil {
		return err
	}
	s, err := l.Value()
	if err != nil {
		return err
	}
	if e.Broker, err = broker.Open(ctx, broker.Config{Store: s, Logger: cfg.Logger}); err != nil {
		return err
	}
	if err := e.scope.Go(ctx, "broker", e.Run); err != nil {
		return err
	}
	if len(cfg.Pools) == 0 {
		return nil
	}
	_, err = e.Apply(ctx, lease.SourceFile, cfg.Pools, false)
	return err
}

func openStore(cfg EmbedConfig) (store.Store, error) {
	if cfg.Dir == "" {
		return store.NewMemory(store.Limits{}), nil
	}
	return pebble.Open(cfg.Dir, pebble.Config{Logger: cfg.Logger})
}

// Close stops the broker, waits until all it has said is durable, and closes
// the store. Leases that are held stay held in the store. It may be called any
// number of times.
func (e *Embedded) Close() error { return e.scope.Close(context.Background(), nil) }
