package hold_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

// serve runs a broker in memory with a pool gpu of one slot, until stop.
func serve() (b *broker.Broker, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	b, err := broker.Open(ctx, broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	gpu := lease.PoolSpec{Name: "gpu", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "gpu-0"}}}
	if _, err := b.Apply(ctx, lease.SourceFile, []lease.PoolSpec{gpu}, false); err != nil {
		panic(err)
	}
	return b, func() { cancel(); <-done }
}

func ExampleKeeper_With() {
	b, stop := serve()
	defer stop()
	keeper, err := hold.New(hold.Config{Broker: b})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close(context.Background())

	request := lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}}
	err = keeper.With(context.Background(), request, func(ctx context.Context, l *hold.Lease) error {
		slot, err := l.SlotID()
		if err != nil {
			return err
		}
		fmt.Println("rendering on", slot)
		return errors.New("the scene has no camera")
	})
	fmt.Println("failed:", err)

	// The slot came back with the failure.
	err = keeper.With(context.Background(), request, func(ctx context.Context, l *hold.Lease) error {
		fmt.Println("rendering again")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// rendering on gpu-0
	// failed: the scene has no camera
	// rendering again
	// error: <nil>
}

func ExampleKeeper_Acquire() {
	b, stop := serve()
	defer stop()
	keeper, err := hold.New(hold.Config{Broker: b})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close(context.Background())

	ctx := context.Background()
	request := lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}}
	l, err := keeper.Acquire(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("still trusted:", l.Left() > 0)

	_, err = keeper.Acquire(ctx, request) // another one, which does not wait
	fmt.Println("second:", lease.CodeOf(err))

	fmt.Println("release:", l.Release(ctx))
	_, err = l.SlotID()
	fmt.Println("after it:", lease.CodeOf(err))
	// Output:
	// still trusted: true
	// second: no_capacity
	// release: <nil>
	// after it: lease_closed
}
