package cli

import (
	"context"
	"errors"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/internal/daemon"
	"github.com/berth-dev/berth/lease"
)

// closeLimit is how long what is still held gets to come back at the end.
const closeLimit = 15 * time.Second

// A farm is a broker inside the process and a keeper that holds its leases.
type farm struct {
	broker *daemon.Embedded
	keeper *hold.Keeper
}

func newFarm(ctx context.Context, cfg daemon.EmbedConfig) (*farm, error) {
	b, err := daemon.Embed(ctx, cfg)
	if err != nil {
		return nil, err
	}
	k, err := hold.New(hold.Config{Broker: b})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &farm{b, k}, nil
}

// close gives back what is held and stops the broker.
func (f *farm) close(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return errors.Join(f.keeper.Close(limited), f.broker.Close())
}

// status reads the broker, whatever has become of ctx.
func (f *farm) status(ctx context.Context) (lease.Status, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return f.broker.Status(limited, false)
}

// use runs work with a farm and closes it on every path.
func use(ctx context.Context, cfg daemon.EmbedConfig, work func(*farm) error) (err error) {
	f, err := newFarm(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	return work(f)
}
