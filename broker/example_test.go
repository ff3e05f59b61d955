package broker_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

// A broker inside a program, with its records in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	b, err := broker.Open(ctx, broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- b.Run(ctx) }()

	gpu := lease.PoolSpec{Name: "gpu", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "gpu-0"}}}
	if _, err := b.Apply(ctx, lease.SourceFile, []lease.PoolSpec{gpu}, false); err != nil {
		log.Fatal(err)
	}
	token, err := b.Acquire(ctx, lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "gpu"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("working on", token.Slots[0].ID, "for", token.Left)
	if err := b.Release(ctx, token); err != nil {
		log.Fatal(err)
	}
	s, err := b.Status(ctx, true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free:", s.Free, "of", s.Slots)

	stop()
	fmt.Println("stopped:", <-ended)
	// Output:
	// working on gpu-0 for 30s
	// free: 1 of 1
	// stopped: <nil>
}
