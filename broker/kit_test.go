package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

// A farm is a running broker.
type farm struct {
	*broker.Broker
	// stop ends Run and returns its error; any number of times.
	stop func() error
}

// open runs a broker on s until the test ends or stop is called.
func open(t testing.TB, s store.Store, pools ...lease.PoolSpec) farm {
	t.Helper()
	return openWith(t, broker.Config{Store: s}, pools...)
}

func openWith(t testing.TB, cfg broker.Config, pools ...lease.PoolSpec) farm {
	t.Helper()
	b, err := broker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := farm{b, run(t, b)}
	if len(pools) > 0 {
		f.apply(t, pools...)
	}
	return f
}

// run runs the broker and returns what stops it.
func run(t testing.TB, b *broker.Broker) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return stop
}

func (f farm) apply(t testing.TB, pools ...lease.PoolSpec) {
	t.Helper()
	if _, err := f.Apply(t.Context(), lease.SourceFile, pools, false); err != nil {
		t.Fatal(err)
	}
}

// take acquires a slot of g at once.
func (f farm) take(t testing.TB) lease.Token {
	t.Helper()
	token, err := f.Acquire(t.Context(), wish(0))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// audit checks the totals and every slot, and returns the status.
func (f farm) audit(t testing.TB) lease.Status {
	t.Helper()
	s, err := f.Status(context.WithoutCancel(t.Context()), false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Acquired != s.Released+s.Orphaned+s.Revoked+s.Held {
		t.Errorf("acquired %d is not released %d + orphaned %d + revoked %d + held %d", s.Acquired, s.Released, s.Orphaned, s.Revoked, s.Held)
	}
	fences := map[lease.Fence]lease.Ref{}
	for _, p := range s.Pools {
		for _, slot := range p.Slots {
			used := int64(0)
			for _, l := range slot.Leases {
				used += l.Units
				if other, ok := fences[l.Fence]; ok && other != l.Ref {
					t.Errorf("leases %s and %s have the fence %d", other, l.Ref, l.Fence)
				}
				fences[l.Fence] = l.Ref
			}
			if used > slot.Capacity {
				t.Errorf("slot %s/%s has %d units in use of %d", p.Name, slot.ID, used, slot.Capacity)
			}
		}
	}
	return s
}

func pool(name string, slots ...string) lease.PoolSpec {
	return poolWith(name, lease.Settings{}, slots...)
}

func poolWith(name string, settings lease.Settings, slots ...string) lease.PoolSpec {
	spec := lease.PoolSpec{Name: name, Settings: &settings}
	for _, id := range slots {
		spec.Slots = append(spec.Slots, lease.SlotSpec{ID: id})
	}
	return spec
}

// names returns n slot ids.
func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("g-%d", i)
	}
	return ids
}

func wish(wait time.Duration) lease.Request {
	return lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "g"}}, Wait: wait}
}

// An outcome is how an acquire ended.
type outcome struct {
	token lease.Token
	err   error
}

// begin starts an acquire in a goroutine of its own.
func begin(ctx context.Context, b lease.Broker, r lease.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		token, err := b.Acquire(ctx, r)
		ended <- outcome{token, err}
	}()
	return ended
}

// exactlyOne fails the test unless there is a token or an error, and not both.
func (o outcome) exactlyOne(t testing.TB) {
	t.Helper()
	if (o.err == nil) == (o.token.LeaseID == "") {
		t.Fatalf("token %+v and error %v: want exactly one", o.token, o.err)
	}
}

func wantCode(t testing.TB, err error, want lease.Code) {
	t.Helper()
	if lease.CodeOf(err) != want {
		t.Fatalf("got the code %q (%v), want %q", lease.CodeOf(err), err, want)
	}
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func memory() *store.Memory { return store.NewMemory(store.Limits{}) }

// An uneven store lets others run for a while before each commit, so that
// what happens meanwhile differs from one to the next.
type uneven struct{ store.Store }

func (s uneven) Commit(ctx context.Context, seq uint64, changes []store.Change) error {
	dawdle(20)
	return s.Store.Commit(ctx, seq, changes)
}

// dawdle lets others run up to n times.
func dawdle(n int) {
	for range rand.IntN(n + 1) {
		runtime.Gosched()
	}
}

var errMind = errors.New("changed my mind")
