package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/berth-dev/berth/store"
)

// gate is the file system Pebble writes through. It is open until the first
// write to a file fails; from then on nobody who writes gets through, and
// nobody comes back: the package comment says why. Reads pass, with the
// exceptions said below.
type gate struct {
	vfs.FS
	failed chan struct{} // closed by the first failure

	mu    sync.Mutex
	quiet sync.Cond // busy has become 0
	shut  bool
	err   error     // why, if it was a failure
	busy  int       // writes that have begun and not ended
	lock  io.Closer // the directory's lock, nil before and after
}

func newGate(under vfs.FS) *gate {
	g := &gate{FS: under, failed: make(chan struct{})}
	g.quiet.L = &g.mu
	return g
}

// call runs f on a goroutine of its own, which may be parked, and waits for it
// or for a failure of the gate, whichever comes first.
func (g *gate) call(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-g.failed:
		return g.cause()
	}
}

// fail shuts the gate because of err. Only the first failure counts. It takes
// no lock but the gate's own, so Pebble may call it with any lock held.
func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err, g.shut = err, true
	close(g.failed)
}

// cause is the first failure, or nil.
func (g *gate) cause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// release shuts the gate if it is open, waits for the writes that had begun,
// and gives the directory's lock back. From then on another process may own
// the directory.
func (g *gate) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for g.busy > 0 {
		g.quiet.Wait()
	}
	if g.lock == nil {
		return nil
	}
	err := g.lock.Close()
	g.lock = nil
	return err
}

// pass does one write, op, to what. A failure of it shuts the gate, so if pass
// returns, it returns nil.
func (g *gate) pass(op, what string, do func() error) error {
	if !g.enter() {
		park()
	}
	err := do()
	if err != nil {
		g.fail(fmt.Errorf("cannot %s %s: %w", op, what, err))
	}
	g.leave()
	if err != nil {
		park()
	}
	return nil
}

// try does one write whose failure Pebble takes well.
func (g *gate) try(do func() error) error {
	if !g.enter() {
		park()
	}
	defer g.leave()
	return do()
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.busy++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if g.busy == 0 {
		g.quiet.Broadcast()
	}
}

// park never returns. Whoever is here is a goroutine of a database that has
// failed or was closed, stopped before it could do harm. It must not end
// either: the deferred calls above it would unlock what it does not hold.
func park() { select {} }

// open passes an open that is for writing, and gates the file.
func (g *gate) open(op, name string, do func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := g.pass(op, name, func() (err error) {
		f, err = do()
		return err
	})
	return &file{File: f, gate: g, name: name}, err
}

// Create implements vfs.FS.
func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.open("create", name, func() (vfs.File, error) { return g.FS.Create(name, category) })
	if err != nil {
		return nil, err
	}
	return &created{File: f, gate: g, dir: g.FS.PathDir(name)}, nil
}

// OpenReadWrite implements vfs.FS.
func (g *gate) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (g *gate) ReuseForWrite(
	oldname, newname string, category vfs.DiskWriteCategory,
) (vfs.File, error) {
	return g.open("reuse", oldname, func() (vfs.File, error) {
		return g.FS.ReuseForWrite(oldname, newname, category)
	})
}

// OpenDir implements vfs.FS. A directory is opened to be synced.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// List implements vfs.FS. It is gated although it only reads: the last thing
// that Open does is to list the directory, and if that fails Pebble closes what
// a compaction it has begun still uses, which ends the process.
func (g *gate) List(dir string) (names []string, err error) {
	err = g.pass("list", dir, func() (err error) {
		names, err = g.FS.List(dir)
		return err
	})
	return names, err
}

// Link implements vfs.FS.
func (g *gate) Link(oldname, newname string) error {
	return g.pass("link", oldname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename implements vfs.FS.
func (g *gate) Rename(oldname, newname string) error {
	return g.pass("rename", oldname, func() error { return g.FS.Rename(oldname, newname) })
}

// Remove implements vfs.FS. A file that cannot be removed only costs space.
func (g *gate) Remove(name string) error {
	return g.try(func() error { return g.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (g *gate) RemoveAll(name string) error {
	return g.try(func() error { return g.FS.RemoveAll(name) })
}

// MkdirAll implements vfs.FS. Pebble makes directories only while it opens.
func (g *gate) MkdirAll(dir string, perm os.FileMode) error {
	return g.try(func() error { return g.FS.MkdirAll(dir, perm) })
}

// Unwrap implements vfs.FS.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// Lock implements vfs.FS. The gate keeps the lock until release, whatever
// Pebble does with the closer it gets.
func (g *gate) Lock(name string) (io.Closer, error) {
	lock, err := g.FS.Lock(name)
	if err != nil && heldElsewhere(err) {
		return nil, &store.Error{
			Kind:  store.ErrInUse,
			Text:  fmt.Sprintf("cannot open the store in %q, it is open already", g.FS.PathDir(name)),
			Cause: err,
			Next:  "stop the process that has it, or use another directory",
		}
	}
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lock = lock
	return io.NopCloser(nil), nil
}

// heldElsewhere tells a lock that somebody holds from one that could not be
// asked for. Pebble has no name for the lock held by its own process: that is
// the error without a number of the operating system.
func heldElsewhere(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	const sharingViolation = syscall.Errno(32)
	errno, ok := errors.AsType[syscall.Errno](err)
	return !ok || errno == syscall.EAGAIN || errno == syscall.EACCES ||
		runtime.GOOS == "windows" && errno == sharingViolation
}

// created is a file that is new in its directory.
type created struct {
	vfs.File
	gate *gate
	dir  string
}

// Sync implements vfs.File. It syncs the directory too: Pebble syncs a new
// manifest, then makes the marker that names it, then syncs the directory. A
// file system may keep the marker and not the manifest when the power goes
// just before that, and the store could not be opened.
func (f *created) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	dir, err := f.gate.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// file is a file or directory opened through the gate for writing.
type file struct {
	vfs.File
	gate *gate
	name string
}

// Write implements vfs.File.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.gate.pass("write", f.name, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.gate.pass("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(p, offset)
		return err
	})
	return n, err
}

// Preallocate implements vfs.File. Pebble does without it where it fails.
func (f *file) Preallocate(offset, length int64) error {
	return f.gate.try(func() error { return f.File.Preallocate(offset, length) })
}

// Stat implements vfs.File. Pebble asks for the size of a log it reuses, and
// panics if it gets none.
func (f *file) Stat() (info vfs.FileInfo, err error) {
	err = f.gate.pass("stat", f.name, func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.gate.pass("sync", f.name, f.File.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.gate.pass("sync", f.name, f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.gate.pass("sync", f.name, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Close implements vfs.File.
func (f *file) Close() error { return f.gate.pass("close", f.name, f.File.Close) }
