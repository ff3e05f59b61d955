package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/pebble"
)

func TestK17LittleSpaceStopsOnlyWhatTakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0", "g-1", "g-2"))
		kept, expires := f.take(t), f.take(t)
		waiter := begin(t.Context(), f, wish(time.Hour))
		got := <-waiter
		mustDo(t, got.err)
		s.SetFree(broker.Reserve - 1)
		time.Sleep(time.Second)

		_, err := f.Acquire(t.Context(), wish(time.Hour))
		wantCode(t, err, lease.CodeStoreFull)
		_, err = f.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{pool("g", "g-0")}, false)
		wantCode(t, err, lease.CodeStoreFull)
		if _, err := f.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{pool("g", "g-0")}, true); err != nil {
			t.Fatalf("a dry run takes nothing, and got %v", err)
		}
		mustDo(t, f.Release(t.Context(), got.token))
		for range 3 {
			time.Sleep(20 * time.Second)
			_, err := f.Renew(t.Context(), kept)
			mustDo(t, err)
		}
		wantCode(t, f.Release(t.Context(), expires), lease.CodeLeaseExpired)
		if s := f.audit(t); s.Released != 1 || s.Orphaned != 1 || s.Free != 2 {
			t.Fatalf("while there is little space %+v", s)
		}
		s.SetFree(broker.Reserve)
		time.Sleep(time.Second)
		f.take(t)
	})
}

// A start on a full disk takes nothing either, from the first call on.
func TestK17LittleSpaceFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		mustDo(t, f.stop())
		s.SetFree(0)
		f = open(t, s)
		_, err := f.Acquire(t.Context(), wish(0))
		wantCode(t, err, lease.CodeStoreFull)
		s.SetFree(math.MaxUint64)
		time.Sleep(time.Second)
		f.take(t)
	})
}

// The store fails for good under callers of every kind. Each hears that the
// outcome is unknown, and the truth when it repeats on a new broker.
func TestK17FailedCommit(t *testing.T) {
	for name, applied := range map[string]bool{"kept": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				f := open(t, s, pool("g", "g-0", "g-1"))
				token := f.take(t)
				waiting := wish(time.Hour)
				f.take(t)
				waiter := begin(t.Context(), f, waiting)
				synctest.Wait()
				s.Crash(applied)
				wantCode(t, f.Release(t.Context(), token), lease.CodeOutcomeUnknown)
				wantCode(t, (<-waiter).err, lease.CodeOutcomeUnknown)
				if err := f.stop(); !errors.Is(err, store.ErrFailed) {
					t.Fatalf("Run returned %v", err)
				}
				_, err := f.Acquire(t.Context(), wish(0))
				wantCode(t, err, lease.CodeOutcomeUnknown)
				_, err = f.Status(t.Context(), true)
				wantCode(t, err, lease.CodeOutcomeUnknown)

				f = open(t, s.Reopen())
				if s := f.audit(t); s.Held != 2 || (s.Released == 1) != applied {
					t.Fatalf("after the failure %+v", s)
				}
				mustDo(t, f.Release(t.Context(), token))
				_, err = f.Acquire(t.Context(), waiting)
				mustDo(t, err)
				if s := f.audit(t); s.Acquired != 3 || s.Released != 1 || s.Held != 2 {
					t.Fatalf("after the repeats %+v", s)
				}
			})
		})
	}
}

// The same with Pebble on a disk that fails: the process that has the broker
// in it lives on.
func TestK17FailedDisk(t *testing.T) {
	mem := vfs.NewCrashableMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40})
	fails := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			return syscall.ENOSPC
		}
		return nil
	})}
	first, err := pebble.Open("data", pebble.Config{FS: errorfs.Wrap(mem, fails)})
	mustDo(t, err)
	f := open(t, first, pool("g", names(64)...))
	wishes := make([]lease.Request, 64)
	heard := make([]outcome, len(wishes))
	var all sync.WaitGroup
	for i := range wishes {
		wishes[i] = wish(0)
		all.Go(func() {
			if i == len(wishes)/2 {
				fails.On()
			}
			heard[i] = <-begin(t.Context(), f, wishes[i])
		})
	}
	all.Wait()
	_, err = f.Acquire(t.Context(), wish(0))
	wantCode(t, err, lease.CodeOutcomeUnknown)
	if err := f.stop(); !errors.Is(err, store.ErrFailed) {
		t.Fatalf("Run returned %v", err)
	}
	mustDo(t, first.Close())

	second, err := pebble.Open("data", pebble.Config{FS: mem})
	mustDo(t, err)
	f = open(t, second)
	for i, r := range wishes {
		heard[i].exactlyOne(t)
		token, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		switch {
		case heard[i].err != nil:
			wantCode(t, heard[i].err, lease.CodeOutcomeUnknown)
		case token.LeaseID != heard[i].token.LeaseID || token.Fence != heard[i].token.Fence:
			t.Fatalf("request %d was told %+v before the failure and %+v after", i, heard[i].token, token)
		}
	}
	if s := f.audit(t); s.Held != 64 || s.Acquired != 64 {
		t.Fatalf("after the repeats %+v", s)
	}
	mustDo(t, f.stop())
	mustDo(t, second.Close())
}

// What takes more than one commit, on a store that takes 100 changes.
func TestK18SmallCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{Changes: 100})
		f := open(t, s, pool("g", names(1000)...))
		if s := f.audit(t); s.Slots != 1000 || s.Free != 1000 {
			t.Fatalf("after an apply of 1,000 slots %+v", s)
		}
		var all sync.WaitGroup
		for range 256 {
			all.Go(func() {
				token, err := f.Acquire(t.Context(), wish(0))
				if err == nil {
					err = f.Release(t.Context(), token)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := f.audit(t); s.Acquired != 256 || s.Released != 256 {
			t.Fatalf("after 256 pairs %+v", s)
		}
		// Whatever its size, an apply is checked whole and told once.
		mustDo(t, f.stop())
		f = open(t, s)
		f.apply(t, pool("g", "g-0"))
		if s := f.audit(t); s.Slots != 1 {
			t.Fatalf("after an apply that removes 999 slots %+v", s)
		}
	})
}

// A tick that empties 32 slots marked for removal, and their pools, after all
// the other changes that a step may have, still fits in a commit.
func TestK18LargestStepFitsInASmallCommit(t *testing.T) {
	for _, limit := range []int{100, 60, 46} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) { largestStep(t, limit) })
	}
}

func largestStep(t *testing.T, limit int) {
	bubble(t, func(t *testing.T) {
		f := open(t, store.NewMemory(store.Limits{Changes: limit}))
		specs := []lease.PoolSpec{pool("g", names(62)...)}
		var claims []lease.Claim
		for i := range lease.MaxClaims {
			large := pool(fmt.Sprint("large-", i), names(lease.MaxSlots/lease.MaxClaims)...)
			specs = append(specs, large)
			claims = append(claims, lease.Claim{Pool: large.Name, Count: len(large.Slots)})
		}
		f.apply(t, specs...)
		for range 62 {
			f.take(t)
		}
		_, err := f.Acquire(t.Context(), lease.Request{ID: lease.NewRequestID(), Claims: claims})
		mustDo(t, err)
		f.apply(t, specs[0])
		time.Sleep(time.Minute)
		if s := f.audit(t); s.Orphaned != 63 || s.Slots != 62 || s.Free != 62 || len(s.Pools) != 1 {
			t.Fatalf("after the end of all %+v", s)
		}
	})
}

func TestK18TickThatEndsManyLeases(t *testing.T) {
	const many = 50_000
	bubble(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{Changes: 100})
		f := open(t, s, pool("g", names(many+1)...))
		kept := f.take(t)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range (many + 63) / 64 {
					_, err := f.Acquire(t.Context(), wish(0))
					if err != nil && lease.CodeOf(err) != lease.CodeNoCapacity {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if s := brief(t, f); s.Held != many+1 {
			t.Fatalf("held %d, want %d", s.Held, many+1)
		}
		time.Sleep(20 * time.Second)
		_, err := f.Renew(t.Context(), kept)
		mustDo(t, err)
		time.Sleep(10250 * time.Millisecond)
		if _, err := f.Renew(t.Context(), kept); err != nil {
			t.Fatalf("the one that renewed: %v", err)
		}
		if s := brief(t, f); s.Orphaned != many || s.Held != 1 || s.Quarantined != many {
			t.Fatalf("after the tick %+v", s)
		}
		time.Sleep(15 * time.Second)
		if s := brief(t, f); s.Free != many {
			t.Fatalf("after the handover %+v", s)
		}
		mustDo(t, f.stop())
		f = open(t, s)
		if s := brief(t, f); s.Orphaned != many || s.Held != 1 || s.Free != many {
			t.Fatalf("after a restart %+v", s)
		}
	})
}

func brief(t *testing.T, f farm) lease.Status {
	t.Helper()
	s, err := f.Status(t.Context(), true)
	mustDo(t, err)
	return s
}

func TestOpenThatFailsGivesNoBroker(t *testing.T) {
	if b, err := broker.Open(t.Context(), broker.Config{}); b != nil || err == nil {
		t.Errorf("without a store: %v, %v", b, err)
	}
	s := memory()
	s.Crash(false)
	if b, err := broker.Open(t.Context(), broker.Config{Store: s}); b != nil || !errors.Is(err, store.ErrFailed) {
		t.Errorf("with a store that fails: %v, %v", b, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := broker.Open(ctx, broker.Config{Store: memory()}); b != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v, %v", b, err)
	}
}
