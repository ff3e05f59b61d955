package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/storetest"
)

// K17: Pebble's Fatalf ends the store, not the process. Close returns, and the
// directory is free again.
func TestK17_FatalIsAnErrorOfCommit(t *testing.T) {
	mem := newMemFS()
	st := mustOpen(t, "store", Config{FS: mem})
	mustCommit(t, st, 1, numbered(1)...)
	var log bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&log, nil)), st.gate)
	go l.Fatalf("cannot go on: %d", 7)
	<-st.gate.failed
	err := st.Commit(t.Context(), 2, nil)
	if !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), "cannot go on: 7") {
		t.Errorf("Commit returned %v, want %v and the cause", err, store.ErrFailed)
	}
	if _, err := st.Free(); !errors.Is(err, store.ErrFailed) {
		t.Errorf("Free returned %v, want %v", err, store.ErrFailed)
	}
	mustClose(t, st)
	st = mustOpen(t, "store", Config{FS: mem})
	if _, seq := mustLoad(t, st); seq != 1 {
		t.Errorf("the store is at commit %d, want 1", seq)
	}
	mustClose(t, st)
}

// K17 on the operating system's files: the log cannot be written any more, and
// the same process opens the directory again. The dead database writes nothing
// from then on.
func TestK17_ReopenAfterAFailureInOneProcess(t *testing.T) {
	dir := t.TempDir()
	var broken atomic.Bool
	var after atomic.Int64
	faults := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead || !broken.Load() {
			return nil
		}
		after.Add(1)
		return syscall.EIO
	})
	st := mustOpen(t, dir, Config{FS: faultyFS{errorfs.Wrap(vfs.Default, faults), faults}})
	mustCommit(t, st, 1, numbered(1)...)
	broken.Store(true)
	err := st.Commit(t.Context(), 2, numbered(2))
	if !errors.Is(err, store.ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("Commit returned %v, want %v because of %v", err, store.ErrFailed, syscall.EIO)
	}
	if second, err := Open(dir, Config{}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("Open before Close returned %v, %v, want %v", second, err, store.ErrInUse)
	}
	mustClose(t, st)
	writes := after.Load()

	st = mustOpen(t, dir, Config{})
	_, seq := mustLoad(t, st)
	if seq != 1 && seq != 2 {
		t.Errorf("the store is at commit %d, want 1 or 2", seq)
	}
	for range 200 {
		seq++
		mustCommit(t, st, seq, numbered(seq)...)
	}
	mustClose(t, st)
	if now := after.Load(); now != writes {
		t.Errorf("the dead database wrote %d times after it was closed", now-writes)
	}
}

// A Load that is under way when the store fails ends.
func TestLoadEndsWhenTheStoreFails(t *testing.T) {
	disk := &faultyDisk{mem: newMemFS()}
	opened, err := disk.Open()
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	for seq := range uint64(60) {
		mustCommit(t, opened, seq+1, store.Change{Key: fmt.Append(nil, seq), Value: make([]byte, 20_000)})
	}
	disk.Fail(storetest.Fault{Kind: storetest.WriteError, Step: 1})
	_, err = opened.Load(t.Context(), func(_, _ []byte) error {
		if err := opened.Commit(t.Context(), 61, nil); !errors.Is(err, store.ErrFailed) {
			t.Errorf("Commit returned %v, want %v", err, store.ErrFailed)
		}
		return nil
	})
	if !errors.Is(err, store.ErrFailed) {
		t.Errorf("Load returned %v, want %v", err, store.ErrFailed)
	}
	mustClose(t, opened)
}

// The lock is given back only after the last write has ended.
func TestGateWaitsForWritesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(vfs.NewMem())
		lock := &closeCounter{}
		g.lock = lock
		finish := make(chan struct{})
		go g.try(func() error { <-finish; return nil })
		synctest.Wait()
		g.fail(syscall.EIO)
		if g.enter() {
			t.Errorf("a write got through after a failure")
		}
		released := make(chan error, 1)
		go func() { released <- g.release() }()
		synctest.Wait()
		if lock.closed != 0 {
			t.Errorf("the lock was given back during a write")
		}
		close(finish)
		if err := <-released; err != nil || lock.closed != 1 {
			t.Errorf("release returned %v, the lock was closed %d times, want 1", err, lock.closed)
		}
		if err := g.release(); err != nil || lock.closed != 1 {
			t.Errorf("the second release returned %v, the lock was closed %d times, want 1", err, lock.closed)
		}
	})
}

type closeCounter struct{ closed int }

func (c *closeCounter) Close() error { c.closed++; return nil }

func TestOpenOnAFullDisk(t *testing.T) {
	disk := &faultyDisk{mem: newMemFS()}
	disk.Fail(storetest.Fault{Kind: storetest.DiskFull, Step: 6})
	_, err := disk.Open()
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "data/store") {
		t.Errorf("Open returned %v, want %v and the directory", err, store.ErrFull)
	}
}

func TestNewerDatabaseFormat(t *testing.T) {
	for _, format := range []string{"999", "v2"} {
		dir := t.TempDir()
		mustClose(t, mustOpen(t, dir, Config{}))
		marker, _, err := atomicfs.LocateMarker(vfs.Default, dir, "format-version")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(marker.Move(format), marker.Close()); err != nil {
			t.Fatal(err)
		}
		before := listing(t, dir)
		_, err = Open(dir, Config{})
		if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), format) {
			t.Errorf("Open returned %v, want %v, directory and format", err, store.ErrNewer)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("Open changed the directory from\n%s to\n%s", before, after)
		}
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&all, e.Name(), info.Size())
	}
	return all.String()
}

func TestNewerLayout(t *testing.T) {
	mem := newMemFS()
	st := mustOpen(t, "store", Config{FS: mem})
	if err := st.db.Set(commitKey(), []byte{layoutVersion + 1, 1, 2, 3}, nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	for range 2 {
		if _, err := Open("store", Config{FS: mem}); !errors.Is(err, store.ErrNewer) {
			t.Errorf("Open returned %v, want %v", err, store.ErrNewer)
		}
	}
}

// What cannot be ours is refused, not guessed at.
func TestForeignContent(t *testing.T) {
	for name, pairs := range map[string]map[string]string{
		"short commit record": {"c": "\x01\x02"},
		"layout 0":            {"c": "\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		"no commit record":    {"dkey": "value"},
		"another key":         {"c": "\x01\x00\x00\x00\x00\x00\x00\x00\x01", "x": ""},
	} {
		t.Run(name, func(t *testing.T) {
			mem := newMemFS()
			st := mustOpen(t, "store", Config{FS: mem})
			for key, value := range pairs {
				if err := st.db.Set([]byte(key), []byte(value), nil); err != nil {
					t.Fatal(err)
				}
			}
			mustClose(t, st)
			st, err := Open("store", Config{FS: mem})
			if err == nil {
				_, err = st.Load(t.Context(), func(_, _ []byte) error { return nil })
				mustClose(t, st)
			}
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("Open and Load returned %v, want %v", err, store.ErrCorrupt)
			}
		})
	}
}

// A flipped byte in a table, or where the manifest begins, is found.
func TestDamageIsFound(t *testing.T) {
	for pattern, places := range map[string][]float64{"*.sst": {0.05, 0.3, 0.6}, "MANIFEST-*": {0.05}} {
		for _, place := range places {
			dir := t.TempDir()
			st := mustOpen(t, dir, Config{})
			for seq := uint64(1); seq <= 20; seq++ {
				mustCommit(t, st, seq, numbered(seq)...)
			}
			flush(t, st)
			mustClose(t, st)
			damage(t, dir, pattern, place)
			if _, err := openAndLoad(t, dir); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Errorf("byte %v of %s: %v, want %v and the directory", place, pattern, err, store.ErrCorrupt)
			}
		}
	}
}

// A flipped byte in the log is found, unless it is in the last 32 KiB: there
// it looks like the end of a log that was torn by a loss of power, and what
// was committed before it comes back.
func TestDamageInTheLog(t *testing.T) {
	for _, test := range []struct {
		place float64
		found bool
	}{{0.1, true}, {0.5, true}, {0.95, false}} {
		dir := t.TempDir()
		st := mustOpen(t, dir, Config{})
		const commits = 700 // 100 KiB of log
		for seq := uint64(1); seq <= commits; seq++ {
			mustCommit(t, st, seq, numbered(seq)...)
		}
		mustClose(t, st)
		damage(t, dir, "*.log", test.place)
		seq, err := openAndLoad(t, dir)
		if test.found && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("byte %v of the log: commit %d, %v, want %v", test.place, seq, err, store.ErrCorrupt)
		}
		if !test.found && (err != nil || seq < commits/2) {
			t.Errorf("byte %v of the log: commit %d, %v, want the commits before it", test.place, seq, err)
		}
	}
}

func flush(t *testing.T, st *Store) {
	t.Helper()
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
}

// damage flips a bit in the last file of a pattern.
func damage(t *testing.T, dir, pattern string, place float64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	name := files[len(files)-1]
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[int(place*float64(len(data)))] ^= 0x40
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// openAndLoad demands that what comes back is a whole commit.
func openAndLoad(t *testing.T, dir string) (uint64, error) {
	t.Helper()
	st, err := Open(dir, Config{})
	if err != nil {
		return 0, err
	}
	defer mustClose(t, st)
	keys, first := 0, ""
	seq, err := st.Load(t.Context(), func(key, value []byte) error {
		keys++
		if string(key) == "first" {
			first = string(value)
		}
		return nil
	})
	if err == nil && (keys != int(seq)+3 || first != string(numbered(seq)[0].Value)) {
		t.Errorf("at commit %d: %d keys, and the first has %x", seq, keys, first)
	}
	return seq, err
}

// Free leaves room for a copy of the tables.
func TestFreeLeavesRoomForCompactions(t *testing.T) {
	mem := newMemFS()
	st := mustOpen(t, "store", Config{FS: mem})
	before, err := st.Free()
	if err != nil || before != 1<<30 {
		t.Errorf("Free of an empty store is %d, %v, want %d", before, err, 1<<30)
	}
	mustCommit(t, st, 1, store.Change{Key: []byte("a"), Value: make([]byte, 1<<20)})
	flush(t, st)
	if free, err := st.Free(); err != nil || free > before-1<<20 {
		t.Errorf("Free is %d, %v, want at most %d", free, err, before-1<<20)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000, TotalBytes: 1 << 30})
	if free, err := st.Free(); err != nil || free != 0 {
		t.Errorf("Free is %d, %v, want 0", free, err)
	}
	mustClose(t, st)
}

func TestLoggerHearsPebble(t *testing.T) {
	var log bytes.Buffer
	mem := newMemFS()
	level := &slog.HandlerOptions{Level: slog.LevelDebug}
	st := mustOpen(t, "store", Config{FS: mem, Logger: slog.New(slog.NewTextHandler(&log, level))})
	mustClose(t, st)
	if !strings.Contains(log.String(), "level=DEBUG") {
		t.Errorf("Pebble said nothing while it opened: %q", log.String())
	}
	newLogger(slog.New(slog.NewTextHandler(&log, nil)), st.gate).Errorf("lost %d", 3)
	if !strings.Contains(log.String(), `level=ERROR msg="lost 3"`) {
		t.Errorf("an error of Pebble's is not in the log: %q", log.String())
	}
}

// The directory is synced between a new manifest and the marker that names
// it, so that no loss of power keeps the marker and not the manifest.
func TestManifestIsSafeBeforeItsMarker(t *testing.T) {
	var mu sync.Mutex
	var ops []string
	record := errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, fmt.Sprint(op.Kind, " ", op.Path))
		return nil
	})
	mustClose(t, mustOpen(t, "store", Config{FS: errorfs.Wrap(newMemFS(), record)}))
	marker := slices.IndexFunc(ops, func(op string) bool { return strings.Contains(op, "marker.manifest") })
	want := fmt.Sprint(errorfs.OpFileSync, " store")
	if marker < 0 || ops[marker-1] != want {
		t.Errorf("before the marker Pebble did %q, want a sync of the directory last", ops[:max(marker, 0)])
	}
}
