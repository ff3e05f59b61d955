package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/pebble"
)

// exitDir names the directory of the process that exits without a release.
const exitDir = "BERTH_EXIT_DIR"

const exitTTL, exitAfter = 5 * time.Second, 2 * time.Second

// A process with a broker inside holds a lease and calls os.Exit: nothing that
// it deferred runs. The next one on its directory finds the lease held, gives
// it the one full TTL of a restart, and hands its slot on when that and the
// handover have passed: not before, for the work may be another process, and
// not later.
func TestBR055_ExitWithoutRelease(t *testing.T) {
	if dir := os.Getenv(exitDir); dir != "" {
		exitHolding(t, dir)
	}
	dir := t.TempDir()
	lost := exitedHolding(t, dir)
	left := copied(t, dir)
	bubble(t, func(t *testing.T) {
		f := open(t, left)
		if s := f.audit(t); s.Held != 1 || s.Pools[0].Slots[0].Leases[0].Left != exitTTL {
			t.Fatalf("the next process finds %+v", s)
		}
		began := time.Now()
		next, err := f.Acquire(t.Context(), wish(time.Minute))
		mustDo(t, err)
		if took := time.Since(began); took < exitTTL+exitAfter || took > exitTTL+exitAfter+time.Second {
			t.Errorf("the slot came back after %v, by %v and %v", took, exitTTL, exitAfter)
		}
		wantCode(t, f.Release(t.Context(), lost), lease.CodeLeaseExpired)
		if s := f.audit(t); s.Orphaned != 1 || s.Held != 1 || next.Fence <= lost.Fence {
			t.Errorf("in the end fence %d after %d, %+v", next.Fence, lost.Fence, s)
		}
	})
}

// exitHolding takes a lease, prints its id and fence, and ends the process.
func exitHolding(t *testing.T, dir string) {
	s, err := pebble.Open(dir, pebble.Config{})
	mustDo(t, err)
	defer s.Close()
	settings := lease.Settings{TTL: exitTTL, Handover: lease.Handover{After: exitAfter}}
	f := open(t, s, poolWith("g", settings, "g-0"))
	l := f.take(t)
	defer f.Release(context.WithoutCancel(t.Context()), l)
	fmt.Println(string(l.LeaseID), uint64(l.Fence))
	os.Exit(3)
}

// exitedHolding runs a process that exits so, and returns what it held.
func exitedHolding(t *testing.T, dir string) (held lease.Token) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBR055_ExitWithoutRelease$")
	cmd.Env = append(os.Environ(), exitDir+"="+dir)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("the process ended with %v after saying %s", err, out)
	}
	_, err = fmt.Sscan(string(out), (*string)(&held.LeaseID), (*uint64)(&held.Fence))
	mustDo(t, err)
	return held
}

// copied returns what is in the directory as a store that can be used in
// virtual time.
func copied(t *testing.T, dir string) store.Store {
	t.Helper()
	s, err := pebble.Open(dir, pebble.Config{})
	mustDo(t, err)
	defer s.Close()
	var all []store.Change
	_, err = s.Load(t.Context(), func(key, value []byte) error {
		all = append(all, store.Change{Key: append([]byte{}, key...), Value: append([]byte{}, value...)})
		return nil
	})
	mustDo(t, err)
	left := memory()
	mustDo(t, left.Commit(t.Context(), 1, all))
	return left
}
