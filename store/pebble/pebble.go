// Package pebble is the store on a local disk: one directory, one process, one
// Pebble database.
//
// What it does not give: a second process that reads beside the first; safety
// from a disk that says it has synced and has not; and notice of every damage:
// checksums find it in the tables and in the log, but in the last 32 KiB of the
// log or of the list of tables it looks like the end that a loss of power
// leaves, and what was committed after it is gone without an error.
//
// Layout: a pair is kept under its key with a 'd' before it. The one key
// "c" holds the layout's version (1 byte) and the number of the last commit
// (8 bytes, big endian), and is written in the same batch as the changes.
//
// # When the disk fails
//
// The first write to a file that fails, for whatever reason, is the last one.
// Pebble's own answer to such an error is to end the process: by
// Logger.Fatalf, by a panic that holds its locks, or by a panic in code that
// then unlocks a mutex it does not hold, which no recover can catch. So Pebble
// never learns of it. All its writing goes through a gate, which records the
// error, shuts, and parks the goroutine that came with it, for ever; so does
// Fatalf, and every later write. Calls into Pebble run on a goroutine of their
// own, and Commit, Load, Open and Close wait for it or for the gate, so none
// of them is ever parked: they return store.ErrFailed.
//
// A database that failed is therefore never closed, and these goroutines of it
// stay until the process ends: the call that was under way, the writer of the
// log, the flush and the compaction if there was one, the remover of old
// files, the one that closes files, the ticker of compactions. With them stay
// its open files and its memory: two memory tables and the block cache, at
// most some 25 MiB. It cannot change the directory any more, Close gives its
// lock back, and the directory can be opened again in the same process.
package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/berth-dev/berth/store"
)

// Config is how to open a store. The zero value is right for a disk.
type Config struct {
	// FS is the file system, the operating system's if nil.
	FS vfs.FS
	// Limits bound one commit. A field that is 0 gets the default: any number
	// of changes, 2 MiB.
	Limits store.Limits
	// Logger gets what Pebble has to say: its errors, and at level debug its
	// doings. Nil discards it.
	Logger *slog.Logger

	memTable uint64 // bytes of one memory table, 8 MiB if 0; tests make it small
}

const (
	layoutVersion   = 1
	defaultMaxBytes = 2 << 20
	defaultMemTable = 8 << 20
	blockCache      = 8 << 20
	pairPrefix      = 'd'
)

// commitKey holds the layout version and the number of the last commit. It
// sorts before every pair.
func commitKey() []byte { return []byte("c") }

// Store is an open store. It implements store.Store.
type Store struct {
	dir    string
	limits store.Limits
	gate   *gate
	db     *pebble.DB
	// last holds the number of the last commit; whoever has taken it out may
	// make the next one, and puts it back.
	last chan uint64
	shut func() error // closes everything, once; every caller gets its result

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // calls under way; added to under mu, while not closed
}

var _ store.Store = (*Store)(nil)

// Limits is store.Store.Limits.
func (s *Store) Limits() store.Limits { return s.limits }

// Commit is store.Store.Commit. It looks at ctx only before it begins: a write
// to the disk cannot be called back.
func (s *Store) Commit(ctx context.Context, seq uint64, changes []store.Change) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.Done()
	select {
	case last := <-s.last:
		last, err := s.commit(ctx, last, seq, changes)
		s.last <- last
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit makes commit seq after commit last, and returns the last number.
func (s *Store) commit(ctx context.Context, last, seq uint64, changes []store.Change) (uint64, error) {
	if s.gate.cause() != nil {
		return last, s.failed()
	}
	if err := ctx.Err(); err != nil {
		return last, err
	}
	if seq != last+1 {
		return last, store.Conflict(seq, last)
	}
	if err := s.limits.Check(changes); err != nil {
		return last, err
	}
	batch := s.batch(seq, changes)
	err := s.gate.call(func() error {
		if err := s.db.Apply(batch, pebble.Sync); err != nil {
			return err
		}
		return batch.Close()
	})
	if err != nil {
		s.gate.fail(err)
		return last, s.failed()
	}
	return seq, nil
}

// enter counts a call in, or says why it cannot begin.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.Closed()
	}
	if s.gate.cause() != nil {
		return s.failed()
	}
	s.calls.Add(1)
	return nil
}

// failed is the error of every call after the gate shut.
func (s *Store) failed() error {
	return &store.Error{
		Kind:  store.ErrFailed,
		Text:  fmt.Sprintf("cannot go on with the store in %q, a commit that was not acknowledged may be kept or not", s.dir),
		Cause: s.gate.cause(),
		Next:  "look at the disk, then open it again",
	}
}

func (s *Store) batch(seq uint64, changes []store.Change) *pebble.Batch {
	size := 64
	for _, c := range changes {
		size += c.Size() + 16
	}
	b := s.db.NewBatchWithSize(size)
	for _, c := range changes {
		if c.Value == nil {
			op := b.DeleteDeferred(1 + len(c.Key))
			putKey(op.Key, c.Key)
			_ = op.Finish() // fails only in an indexed batch
			continue
		}
		op := b.SetDeferred(1+len(c.Key), len(c.Value))
		putKey(op.Key, c.Key)
		copy(op.Value, c.Value)
		_ = op.Finish()
	}
	_ = b.Set(commitKey(), encodeCommit(seq), nil) // writes to memory
	return b
}

func putKey(to, key []byte) {
	to[0] = pairPrefix
	copy(to[1:], key)
}

func encodeCommit(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{layoutVersion}, seq)
}

// decodeCommit reads what commitKey holds in the store in dir.
func decodeCommit(dir string, value []byte) (uint64, error) {
	if len(value) > 0 && value[0] > layoutVersion {
		return 0, newer(dir, fmt.Sprintf("layout %d, this program knows %d", value[0], layoutVersion))
	}
	if len(value) != 9 || value[0] != layoutVersion {
		return 0, corrupt(dir, fmt.Errorf("the last commit's record is %x", value))
	}
	return binary.BigEndian.Uint64(value[1:]), nil
}

func newer(dir, found string) error {
	return &store.Error{
		Kind: store.ErrNewer,
		Text: fmt.Sprintf("cannot open the store in %q, a newer version wrote it (%s)", dir, found),
		Next: "use that version, or another directory",
	}
}

func corrupt(dir string, cause error) error {
	return &store.Error{
		Kind:  store.ErrCorrupt,
		Text:  fmt.Sprintf("cannot read the store in %q, it is damaged", dir),
		Cause: cause,
		Next:  "keep a copy of it, then restore a backup",
	}
}

// Free is store.Store.Free: the space the file system has left, less a copy of
// the tables the store has, which a compaction may need for a while.
func (s *Store) Free() (uint64, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.calls.Done()
	var free, tables uint64
	err := s.gate.call(func() error {
		usage, err := s.gate.FS.GetDiskUsage(s.dir)
		if err != nil {
			return err
		}
		total := s.db.Metrics().Total()
		free, tables = usage.AvailBytes, uint64(total.TablesSize)
		return nil
	})
	if s.gate.cause() != nil {
		return 0, s.failed()
	}
	if err != nil {
		return 0, fmt.Errorf("cannot tell the free space of the store in %q: %w", s.dir, err)
	}
	return free - min(free, tables), nil
}

// Close is store.Store.Close. After a failure, which a Commit or Load has told,
// it returns nil: it leaves Pebble as it is, waits for writes that had begun,
// and gives the directory back.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.shut()
}

// shutOnce is what shut does.
func (s *Store) shutOnce() error {
	s.calls.Wait()
	if s.gate.cause() != nil {
		return s.gate.release()
	}
	err := s.gate.call(s.db.Close)
	if err == nil {
		return s.gate.release()
	}
	s.gate.fail(err)
	return errors.Join(s.failed(), s.gate.release())
}
