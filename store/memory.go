package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
)

// Memory is the store that explains the contract: a map and a number. What it
// keeps outlives Close and Crash, as a disk would, and is gone with the
// process. It starts no goroutine and reads no clock, so one goroutine can
// drive it step by step.
type Memory struct {
	limits Limits

	mu    sync.Mutex
	seq   uint64
	pairs map[string][]byte // values are never changed, only replaced
	free  uint64
	crash crash
	dead  error // why every call is refused; nil while the store is open
}

// crash is what the next commit does.
type crash int

const (
	crashNot crash = iota
	crashBefore
	crashAfter
)

// NewMemory returns an empty, open store with these limits and unlimited free
// space.
func NewMemory(limits Limits) *Memory {
	return &Memory{limits: limits, pairs: map[string][]byte{}, free: math.MaxUint64}
}

// Load is Store.Load.
func (m *Memory) Load(ctx context.Context, visit func(key, value []byte) error) (uint64, error) {
	pairs, seq, err := m.snapshot()
	if err != nil {
		return 0, err
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := visit([]byte(key), bytes.Clone(pairs[key])); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

func (m *Memory) snapshot() (map[string][]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead != nil {
		return nil, 0, m.dead
	}
	return maps.Clone(m.pairs), m.seq, nil
}

// Commit is Store.Commit. It never returns ErrFull.
func (m *Memory) Commit(ctx context.Context, seq uint64, changes []Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse(ctx, seq, changes); err != nil {
		return err
	}
	if m.crash != crashBefore {
		m.apply(seq, changes)
	}
	if m.crash != crashNot {
		m.dead = &Error{
			Kind: ErrFailed,
			Text: fmt.Sprintf("cannot tell whether commit %d was kept", seq),
			Next: "open the store again",
		}
	}
	return m.dead
}

func (m *Memory) refuse(ctx context.Context, seq uint64, changes []Change) error {
	if m.dead != nil {
		return m.dead
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if seq != m.seq+1 {
		return Conflict(seq, m.seq)
	}
	return m.limits.Check(changes)
}

func (m *Memory) apply(seq uint64, changes []Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(m.pairs, string(c.Key))
		} else {
			m.pairs[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
	m.seq = seq
}

// Limits is Store.Limits.
func (m *Memory) Limits() Limits { return m.limits }

// Free is Store.Free: what SetFree said last.
func (m *Memory) Free() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, m.dead
}

// Close is Store.Close. It does not wait for a Load under way, which has its
// own copy.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = Closed()
	return nil
}

// SetFree sets what Free returns. Commits do not look at it.
func (m *Memory) SetFree(bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = bytes
}

// Crash makes the next Commit the last one of m: it returns ErrFailed, with
// its changes kept if applied is true and without them if not. A commit that
// is refused for another reason leaves the crash for the one after it.
func (m *Memory) Crash(applied bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crash = crashBefore
	if applied {
		m.crash = crashAfter
	}
}

// Reopen returns an open store over what m kept, as a new process would find
// it. m itself is closed by this, if it was not, and stays dead: a commit that
// its old owner still sends is refused.
func (m *Memory) Reopen() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &Memory{limits: m.limits, seq: m.seq, pairs: m.pairs, free: m.free}
	m.pairs = map[string][]byte{}
	if m.dead == nil {
		m.dead = Closed()
	}
	return next
}
