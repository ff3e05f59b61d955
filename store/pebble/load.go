package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Load is store.Store.Load. The reading goes ahead of visit, by at most two
// chunks of 256 KiB, on a goroutine that has ended when Load returns, unless
// the store failed.
func (s *Store) Load(ctx context.Context, visit func(key, value []byte) error) (uint64, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.calls.Done()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	sc := &scan{dir: s.dir, db: s.db, chunks: make(chan chunk)}
	go sc.run(ctx)
	defer sc.join(s.gate.failed)
	defer stop()
	for {
		select {
		case c, ok := <-sc.chunks:
			if !ok {
				return sc.seq, sc.err
			}
			if err := c.each(visit); err != nil {
				return 0, err
			}
		case <-s.gate.failed:
			return 0, s.unreadable()
		}
	}
}

// unreadable is the error of a Load whose store failed under it.
func (s *Store) unreadable() error {
	if cause := s.gate.cause(); pebble.IsCorruptionError(cause) {
		return corrupt(s.dir, cause)
	}
	return s.failed()
}

// scan reads a whole database at one moment.
type scan struct {
	dir    string
	db     *pebble.DB
	chunks chan chunk // closed at the end
	seq    uint64     // these two are for whoever saw the end
	err    error
}

// join waits for the end of the scan, or for the failure that may have parked
// it.
func (sc *scan) join(failed <-chan struct{}) {
	for {
		select {
		case _, ok := <-sc.chunks:
			if !ok {
				return
			}
		case <-failed:
			return
		}
	}
}

func (sc *scan) run(ctx context.Context) {
	defer close(sc.chunks)
	it, err := sc.db.NewIterWithContext(ctx, nil)
	if err != nil {
		sc.err = sc.explain(err)
		return
	}
	seq, err := sc.read(ctx, it)
	if err := errors.Join(err, it.Close()); err != nil {
		sc.err = sc.explain(err)
		return
	}
	sc.seq = seq
}

func (sc *scan) explain(err error) error {
	if pebble.IsCorruptionError(err) {
		return corrupt(sc.dir, err)
	}
	return err
}

func (sc *scan) read(ctx context.Context, it *pebble.Iterator) (uint64, error) {
	if !it.First() {
		return 0, nil
	}
	if !bytes.Equal(it.Key(), commitKey()) {
		return 0, corrupt(sc.dir, fmt.Errorf("it begins with the key %q", it.Key()))
	}
	seq, err := decodeCommit(sc.dir, it.Value())
	if err != nil {
		return 0, err
	}
	var c chunk
	for it.Next() {
		if it.Key()[0] != pairPrefix {
			return 0, corrupt(sc.dir, fmt.Errorf("it has the key %q", it.Key()))
		}
		c.add(it.Key()[1:], it.Value())
		if len(c.bytes) >= chunkBytes {
			if err := sc.send(ctx, c); err != nil {
				return 0, err
			}
			c = chunk{}
		}
	}
	return seq, sc.send(ctx, c)
}

func (sc *scan) send(ctx context.Context, c chunk) error {
	select {
	case sc.chunks <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chunkBytes is about how much of a load is handed over at once.
const chunkBytes = 256 << 10

// chunk is some pairs, one after another in bytes.
type chunk struct {
	bytes []byte
	ends  []int // of key, value, key, value …
}

func (c *chunk) add(key, value []byte) {
	if c.bytes == nil {
		c.bytes = make([]byte, 0, chunkBytes+4<<10)
	}
	c.bytes = append(c.bytes, key...)
	c.ends = append(c.ends, len(c.bytes))
	c.bytes = append(c.bytes, value...)
	c.ends = append(c.ends, len(c.bytes))
}

func (c *chunk) each(visit func(key, value []byte) error) error {
	from := 0
	for i := 0; i < len(c.ends); i += 2 {
		mid, to := c.ends[i], c.ends[i+1]
		if err := visit(c.bytes[from:mid:mid], c.bytes[mid:to:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}
