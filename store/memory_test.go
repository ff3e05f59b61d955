package store_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/storetest"
)

func TestMemoryConforms(t *testing.T) {
	storetest.Run(t, storetest.Kit{
		New: func(_ *testing.T, limits store.Limits) storetest.Device {
			return &device{memory: store.NewMemory(limits)}
		},
		NewFaulty: func(*testing.T) storetest.Faulty {
			return &device{memory: store.NewMemory(store.Limits{})}
		},
	})
}

// device counts the commits of a Memory as its writes.
type device struct {
	memory   *store.Memory
	fault    storetest.Fault // armed while Step is not 0
	happened bool
}

// handle is an open Memory on a device.
type handle struct {
	*store.Memory
	device *device
}

func (d *device) Open() (store.Store, error) {
	d.memory = d.memory.Reopen()
	return handle{d.memory, d}, nil
}

func (d *device) Fail(f storetest.Fault) {
	if f.Kind != storetest.ReadError { // a map's reads do not fail
		d.fault, d.happened = f, false
	}
}

func (d *device) Repair() bool {
	d.fault = storetest.Fault{}
	return d.happened
}

// Commit crashes at the step of the fault.
func (h handle) Commit(ctx context.Context, seq uint64, changes []store.Change) error {
	d := h.device
	if d.fault.Step > 0 && !d.happened {
		d.fault.Step--
		if d.fault.Step == 0 {
			d.happened = true
			h.Crash(d.fault.Kept > 50 || d.fault.Kept == 50 && seq%2 == 0)
		}
	}
	return h.Memory.Commit(ctx, seq, changes)
}

func TestMemoryFree(t *testing.T) {
	m := store.NewMemory(store.Limits{})
	m.SetFree(12)
	if free, err := m.Free(); free != 12 || err != nil {
		t.Errorf("Free is %d, %v, want 12", free, err)
	}
	if free, err := m.Reopen().Free(); free != 12 || err != nil {
		t.Errorf("Free of the reopened store is %d, %v, want 12", free, err)
	}
}

// A commit that the old owner still sends after the store was opened again
// changes nothing.
func TestMemoryOldOwnerIsRefused(t *testing.T) {
	old := store.NewMemory(store.Limits{})
	next := old.Reopen()
	err := old.Commit(t.Context(), 1, []store.Change{{Key: []byte("a"), Value: []byte("old")}})
	if !errors.Is(err, store.ErrClosed) {
		t.Errorf("the old owner's commit returned %v, want %v", err, store.ErrClosed)
	}
	if err := next.Commit(t.Context(), 1, nil); err != nil {
		t.Errorf("the new owner's commit returned %v", err)
	}
}

// A refused commit is not the one that crashes; the one that does is kept or
// not, as was said.
func TestMemoryCrash(t *testing.T) {
	for _, applied := range []bool{false, true} {
		m := store.NewMemory(store.Limits{})
		m.Crash(applied)
		if err := m.Commit(t.Context(), 7, nil); !errors.Is(err, store.ErrConflict) {
			t.Errorf("commit 7 of an empty store returned %v, want %v", err, store.ErrConflict)
		}
		if err := m.Commit(t.Context(), 1, nil); !errors.Is(err, store.ErrFailed) {
			t.Errorf("the crashing commit returned %v, want %v", err, store.ErrFailed)
		}
		seq, err := m.Reopen().Load(t.Context(), func(_, _ []byte) error { return nil })
		if (seq == 1) != applied || err != nil {
			t.Errorf("Load after a crash with applied %v returned %d, %v", applied, seq, err)
		}
	}
}

func TestErrorSaysAll(t *testing.T) {
	err := error(&store.Error{Kind: store.ErrFull, Text: "cannot open x", Cause: syscall.ENOSPC, Next: "free some space"})
	if got, want := err.Error(), "cannot open x: "+syscall.ENOSPC.Error()+"; free some space"; got != want {
		t.Errorf("the error reads %q, want %q", got, want)
	}
	if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error is not just its own code and cause")
	}
}

func TestCodesAreDistinct(t *testing.T) {
	seen := map[store.Code]bool{}
	for _, code := range store.Codes() {
		if seen[code] || !strings.HasPrefix(code.Error(), "store_") {
			t.Errorf("code %q is there twice or has no prefix", code)
		}
		seen[code] = true
	}
}
