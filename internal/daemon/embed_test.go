package daemon_test

import (
	"errors"
	"testing"

	"github.com/berth-dev/berth/internal/daemon"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/pebble"
)

// A start that is refused lets go of the folder: whoever may read it can.
func TestARefusedStartLetsGo(t *testing.T) {
	dir := t.TempDir()
	commit(t, dir, store.Change{Key: []byte("\x08x"), Value: []byte("\x01")})
	for range 2 {
		e, err := daemon.Embed(t.Context(), daemon.EmbedConfig{Dir: dir})
		if lease.CodeOf(err) != lease.CodeStoreNewer || e != nil {
			t.Fatalf("a folder of a newer version: %v, %v", e, err)
		}
	}
	commit(t, dir, store.Change{Key: []byte("\x08x")})
	bad := []lease.PoolSpec{{Name: "g", Settings: &lease.Settings{TTL: -1}}}
	if e, err := daemon.Embed(t.Context(), daemon.EmbedConfig{Dir: dir, Pools: bad}); lease.CodeOf(err) != lease.CodePoolsInvalid || e != nil {
		t.Fatalf("with bad pools: %v, %v", e, err)
	}
	e, err := daemon.Embed(t.Context(), daemon.EmbedConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A folder in use is refused, and the one who has it goes on.
func TestAFolderInUse(t *testing.T) {
	dir := t.TempDir()
	pools := []lease.PoolSpec{{Name: "g", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "g-0"}}}}
	first, err := daemon.Embed(t.Context(), daemon.EmbedConfig{Dir: dir, Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := daemon.Embed(t.Context(), daemon.EmbedConfig{Dir: dir}); lease.CodeOf(err) != lease.CodeStoreInUse || e != nil {
		t.Errorf("the second start: %v, %v", e, err)
	}
	token, err := first.Acquire(t.Context(), lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "g"}}})
	if err := errors.Join(err, first.Release(t.Context(), token), first.Close()); err != nil {
		t.Error(err)
	}
}

// commit writes a change to the store in dir.
func commit(t *testing.T, dir string, c store.Change) {
	t.Helper()
	s, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seq, err := s.Load(t.Context(), func(_, _ []byte) error { return nil })
	if err == nil {
		err = s.Commit(t.Context(), seq+1, []store.Change{c})
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}
