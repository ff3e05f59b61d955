package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

// A farm is a running broker with a pool g.
type farm struct {
	*broker.Broker
	stop func() error
}

// open runs a broker on s until the test ends or stop is called.
func open(t *testing.T, s store.Store, pools ...lease.PoolSpec) farm {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	if len(pools) > 0 {
		if _, err := b.Apply(t.Context(), lease.SourceFile, pools, false); err != nil {
			t.Fatal(err)
		}
	}
	return farm{b, stop}
}

func pool(name string, slots ...string) lease.PoolSpec {
	spec := lease.PoolSpec{Name: name, Settings: &lease.Settings{}}
	for _, id := range slots {
		spec.Slots = append(spec.Slots, lease.SlotSpec{ID: id})
	}
	return spec
}

func wish(wait time.Duration) lease.Request {
	return lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "g"}}, Wait: wait}
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, store.NewMemory(store.Limits{}), pool("g", "g-0"))
		first, err := f.Acquire(t.Context(), wish(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Acquire(t.Context(), wish(0)); lease.CodeOf(err) != lease.CodeNoCapacity {
			t.Fatalf("a full pool answered %v", err)
		}
		got := make(chan lease.Token)
		go func() {
			second, err := f.Acquire(t.Context(), wish(time.Minute))
			if err != nil {
				t.Error(err)
			}
			got <- second
		}()
		synctest.Wait()
		if err := f.Release(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		second := <-got
		if second.Fence <= first.Fence || second.Slots[0].ID != "g-0" {
			t.Fatalf("second lease %+v after %+v", second, first)
		}
		s, err := f.Status(t.Context(), false)
		if err != nil || s.Held != 1 || s.Acquired != 2 || s.Released != 1 {
			t.Fatalf("status %+v, %v", s, err)
		}
	})
}

func TestExpiryQuarantinesUntilHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, store.NewMemory(store.Limits{}), pool("g", "g-0"))
		if _, err := f.Acquire(t.Context(), wish(0)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := f.Acquire(t.Context(), wish(time.Hour)); err != nil {
			t.Fatal(err)
		}
		// TTL 30 s and handover 15 s, seen within a quarter of a second.
		if took := time.Since(began); took < 45*time.Second || took > 46*time.Second {
			t.Fatalf("handed on after %v", took)
		}
	})
}

func TestCancelledAcquireLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, store.NewMemory(store.Limits{}), pool("g", "g-0"))
		first, err := f.Acquire(t.Context(), wish(0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("changed my mind")
		ended := make(chan error)
		go func() {
			_, err := f.Acquire(ctx, wish(time.Minute))
			ended <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Fatal(err)
		}
		if err := f.Release(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if s, _ := f.Status(t.Context(), true); s.Queued != 0 || s.Free != 1 {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

func TestRestartKeepsLeaseAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{})
		f := open(t, s, pool("g", "g-0"))
		first, err := f.Acquire(t.Context(), wish(0))
		if err != nil {
			t.Fatal(err)
		}
		r := wish(time.Hour)
		ended := make(chan error)
		go func() {
			_, err := f.Acquire(t.Context(), r)
			ended <- err
		}()
		synctest.Wait()
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; lease.CodeOf(err) != lease.CodeOutcomeUnknown {
			t.Fatalf("a waiter of a stopped broker heard %v", err)
		}
		f = open(t, s)
		if err := f.Release(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		second, err := f.Acquire(t.Context(), r)
		if err != nil || second.Fence <= first.Fence {
			t.Fatalf("%+v, %v", second, err)
		}
	})
}
