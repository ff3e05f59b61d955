package pebble

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/storetest"
)

func TestConformsInMemory(t *testing.T) {
	storetest.Run(t, storetest.Kit{
		New: func(_ *testing.T, limits store.Limits) storetest.Device {
			return &directory{name: "store", cfg: Config{FS: newMemFS(), Limits: limits}}
		},
		NewFaulty: func(*testing.T) storetest.Faulty { return &faultyDisk{mem: newMemFS()} },
	})
}

func TestConformsOnDisk(t *testing.T) {
	storetest.Run(t, storetest.Kit{
		New: func(t *testing.T, limits store.Limits) storetest.Device {
			return &directory{name: t.TempDir() + "/new/store", cfg: Config{Limits: limits}}
		},
	})
}

// directory is a Device that does not fail.
type directory struct {
	name string
	cfg  Config
}

func (d *directory) Open() (store.Store, error) { return asStore(Open(d.name, d.cfg)) }

// asStore keeps a nil *Store from becoming a store that is not nil.
func asStore(s *Store, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newMemFS() *vfs.MemFS {
	mem := vfs.NewCrashableMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 2 << 30, UsedBytes: 1 << 30})
	return mem
}

// faultyDisk is a disk in memory. Its writes are the operations on files and
// directories that Pebble makes, every one of them.
type faultyDisk struct {
	mem *vfs.MemFS
	now *faultyRun // of the last Open
	arm storetest.Fault
}

func (d *faultyDisk) Open() (store.Store, error) {
	if d.now == nil {
		d.now = &faultyRun{mem: d.mem}
		d.now.start(d.arm)
	}
	return asStore(Open("data/store", Config{FS: faultyFS{errorfs.Wrap(d.mem, d.now), d.now}, memTable: 24 << 10}))
}

func (d *faultyDisk) Fail(f storetest.Fault) {
	d.arm = f
	if d.now != nil {
		d.now.start(f)
	}
}

// Repair also cuts what still runs of the failed database off: a new Open gets
// a new run.
func (d *faultyDisk) Repair() bool {
	if d.now == nil {
		return false
	}
	happened, survived := d.now.stop()
	if survived != nil {
		d.mem = survived
	}
	d.now, d.arm = nil, storetest.Fault{}
	return happened
}

// faultyRun injects one fault into the operations of one open store.
type faultyRun struct {
	mem *vfs.MemFS

	mu       sync.Mutex
	fault    storetest.Fault
	steps    int
	happened bool
	survived *vfs.MemFS // what the power loss left
}

var _ errorfs.Injector = (*faultyRun)(nil)

func (r *faultyRun) start(f storetest.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.steps, r.happened = f, 0, false
}

func (r *faultyRun) stop() (bool, *vfs.MemFS) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.happened, r.survived
}

// String implements errorfs.Injector.
func (r *faultyRun) String() string { return r.fault.Kind.String() }

// MaybeError implements errorfs.Injector.
func (r *faultyRun) MaybeError(op errorfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault.Step == 0 || op.Kind == errorfs.OpGetDiskUsage {
		return nil
	}
	reads := op.Kind.ReadOrWrite() == errorfs.OpIsRead
	if reads == (r.fault.Kind == storetest.ReadError) {
		r.steps++
		if r.steps == r.fault.Step {
			return r.begin(op)
		}
	}
	if !r.happened {
		return nil
	}
	return r.after(op)
}

// begin is the step of the fault.
func (r *faultyRun) begin(op errorfs.Op) error {
	r.happened = true
	switch r.fault.Kind {
	case storetest.PowerLoss:
		r.survived = r.mem.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: r.fault.Kept,
			RNG:                 rand.New(rand.NewPCG(r.fault.Seed, uint64(r.fault.Step))),
		})
	case storetest.DiskFull:
		return r.after(op)
	}
	return syscall.EIO
}

// after is every operation from the fault on.
func (r *faultyRun) after(op errorfs.Op) error {
	switch r.fault.Kind {
	case storetest.PowerLoss:
		return syscall.EIO
	case storetest.DiskFull:
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpMkdirAll, errorfs.OpFileWrite, errorfs.OpFileWriteAt,
			errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData:
			return syscall.ENOSPC
		}
	}
	return nil
}

// faultyFS adds to errorfs the one file it leaves out: a log that is used
// again.
type faultyFS struct {
	*errorfs.FS
	faults errorfs.Injector
}

// ReuseForWrite implements vfs.FS.
func (fs faultyFS) ReuseForWrite(
	oldname, newname string, category vfs.DiskWriteCategory,
) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, fs.faults), nil
}
