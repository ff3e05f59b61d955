package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/berth-dev/berth/store"
)

// Open opens the store in dir, and makes an empty one if there is none. It
// reads the log of a store that was not closed, which takes tens of
// milliseconds at most, and holds an exclusive lock on dir until Close.
//
// Its errors are store.ErrInUse, ErrNewer, ErrCorrupt, ErrFull and, for
// everything else, ErrFailed; each names dir. Nothing that was committed is
// changed by an Open that fails.
func Open(dir string, cfg Config) (*Store, error) {
	if cfg.FS == nil {
		resolved, err := resolve(dir)
		if err != nil {
			return nil, openError(dir, err)
		}
		dir, cfg.FS = resolved, vfs.Default
	}
	s := &Store{
		dir:    dir,
		limits: limits(cfg.Limits),
		gate:   newGate(cfg.FS),
		last:   make(chan uint64, 1),
	}
	s.shut = sync.OnceValue(s.shutOnce)
	opened := make(chan *pebble.DB, 1)
	err := s.gate.call(func() error {
		db, seq, err := open(dir, cfg, s.gate)
		opened <- db
		s.last <- seq
		return err
	})
	if err != nil {
		return nil, errors.Join(diagnose(dir, cfg.FS, err), s.gate.release())
	}
	s.db = <-opened
	return s, nil
}

func limits(want store.Limits) store.Limits {
	if want.Bytes == 0 {
		want.Bytes = defaultMaxBytes
	}
	return want
}

// resolve is the one name of dir: Pebble's lock cannot tell two names of a
// directory apart within one process. Parts that do not exist yet are kept.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(abs)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(abs) == abs {
			return "", err
		}
		abs, rest = filepath.Dir(abs), filepath.Join(filepath.Base(abs), rest)
	}
}

// open opens the database and reads the number of its last commit.
func open(dir string, cfg Config, g *gate) (*pebble.DB, uint64, error) {
	db, err := pebble.Open(dir, options(cfg, g))
	if err != nil {
		return nil, 0, err
	}
	seq, err := lastCommit(dir, db)
	if err == nil && seq == 0 {
		// A new database begins its first log in Pebble's oldest format, in
		// which damage looks like the end. This begins another.
		err = db.Flush()
	}
	if err != nil {
		return nil, 0, errors.Join(err, db.Close())
	}
	return db, seq, nil
}

func lastCommit(dir string, db *pebble.DB) (uint64, error) {
	value, closer, err := db.Get(commitKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seq, err := decodeCommit(dir, value)
	return seq, errors.Join(err, closer.Close())
}

// options are chosen for small synced commits and a content that fits in
// memory: no compression, large blocks and a small cache (the content is read
// once, in order, at the start), no timer before a sync, no compactions caused
// by reads. Old logs are used again, as Pebble does by itself: to sync a file
// that does not grow is cheaper.
func options(cfg Config, g *gate) *pebble.Options {
	memTable := cfg.memTable
	if memTable == 0 {
		memTable = defaultMemTable
	}
	opts := &pebble.Options{
		FS:                  g,
		FormatMajorVersion:  pebble.FormatWALSyncChunks, // finds damage in the log, but for its last 32 KiB
		MemTableSize:        memTable,
		CacheSize:           blockCache,
		MaxManifestFileSize: 1 << 20,
		Logger:              newLogger(cfg.Logger, g),
		EventListener: &pebble.EventListener{
			// A flush or compaction that failed would be tried again at once,
			// for ever. The store is small and local: its disk has failed.
			BackgroundError: func(err error) { g.fail(err); park() },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { g.fail(info.Details) },
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 32 << 10
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	opts.Experimental.ReadSamplingMultiplier = -1
	opts.Experimental.FileCacheShards = 1
	return opts
}

// diagnose gives an error of opening dir its code.
func diagnose(dir string, under vfs.FS, err error) error {
	if _, ok := errors.AsType[*store.Error](err); ok {
		return err
	}
	if format, ok := unknownFormat(dir, under); ok {
		return newer(dir, fmt.Sprintf("database format %q, this program knows up to %d", format, pebble.FormatNewest))
	}
	if pebble.IsCorruptionError(err) {
		return corrupt(dir, err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return &store.Error{
			Kind:  store.ErrFull,
			Text:  fmt.Sprintf("cannot open the store in %q, there is no space left", dir),
			Cause: err,
			Next:  "free some, then open it again",
		}
	}
	return openError(dir, err)
}

func openError(dir string, err error) error {
	return &store.Error{
		Kind:  store.ErrFailed,
		Text:  fmt.Sprintf("cannot open the store in %q", dir),
		Cause: err,
		Next:  "look at the disk and its permissions",
	}
}

// unknownFormat reports a database format that this Pebble does not know. It
// reads Pebble's marker, as Pebble has no error of its own for this.
func unknownFormat(dir string, under vfs.FS) (string, bool) {
	const marker = "format-version"
	format, err := atomicfs.ReadMarker(under, dir, marker)
	if err != nil || format == "" {
		return "", false
	}
	n, err := strconv.ParseUint(format, 10, 64)
	return format, err != nil || n > uint64(pebble.FormatNewest)
}

// logger is Pebble's logger.
type logger struct {
	out  *slog.Logger
	gate *gate
}

func newLogger(out *slog.Logger, g *gate) logger {
	if out == nil {
		out = slog.New(slog.DiscardHandler)
	}
	return logger{out, g}
}

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	l.out.Debug(fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.out.Error(fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Pebble calls it when it cannot go on and
// trusts it not to return.
func (l logger) Fatalf(format string, args ...any) {
	l.gate.fail(fmt.Errorf(format, args...))
	park()
}
