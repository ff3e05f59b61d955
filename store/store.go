// Package store keeps the broker's records: opaque pairs of bytes, changed in
// numbered commits that are durable when they return.
//
// A store knows nothing about leases. It does not order, expire or check what
// it keeps, it offers no reads but the whole content, and it is not made for
// more data than fits in memory: the broker loads everything once, at its
// start, and from then on only writes.
//
// # Who owns a store
//
// A store that only one process can open (Pebble, by its lock) needs nothing
// more than the numbers: the second opener gets ErrInUse.
//
// A store that several brokers can open at once must give ownership for a
// term, beside this contract. Its broker answers anything, renewals and reads
// included, only while its last successful commit was sent less than one term
// (2 s) ago; it commits at least once a second to keep that true, an empty
// commit if need be; and a successor adds the term to the full TTL it gives to
// every lease it finds. The term is measured on clocks that also run while the
// machine sleeps, never in broker time. The number of a commit alone does not
// replace this: it stops a deposed broker's writes, not its answers.
package store

import "context"

// Store is a durable map of keys to values that changes in numbered commits.
//
// Any goroutine may call any method at any time. Commits run one after
// another; a Load beside them sees one moment between two of them.
type Store interface {
	// Load calls visit for every pair, in the byte order of the keys, and
	// returns the number of the last commit it saw, 0 if there was none.
	// Key and value belong to the store and may be overwritten once visit
	// returns. An error of visit ends the load and is returned as it is. visit
	// must not call the store's Close.
	Load(ctx context.Context, visit func(key, value []byte) error) (seq uint64, err error)

	// Commit makes all changes or none, in their order, and returns nil when
	// they are durable. seq is the number of this commit and must be one more
	// than the last. No changes at all is a commit like any other. The changes
	// may be reused once Commit has returned.
	//
	// ErrConflict (seq is not the next number: somebody else committed since),
	// ErrTooLarge (over Limits), ErrFull and the error of a ctx that had ended
	// before anything was sent mean that nothing was written and the store goes
	// on. ErrFailed means that the outcome is unknown; every later Commit and
	// Load is refused with it at once, and only Open tells what was kept.
	Commit(ctx context.Context, seq uint64, changes []Change) error

	// Limits says how much one commit may hold. It does not change and never
	// blocks.
	Limits() Limits

	// Free is the space, in bytes, that further commits may take where the
	// store lives, less what the store may itself need to keep its files in
	// order. It may ask the operating system, but does not wait for commits.
	Free() (bytes uint64, err error)

	// Close waits for the calls under way, gives everything back and lets
	// somebody else open the store. Later calls are refused with ErrClosed; a
	// second Close does nothing.
	Close() error
}

// Change is one pair to be set, or a key to be deleted.
type Change struct {
	Key []byte
	// Value is what to keep under Key. Nil deletes the key, and is no error if
	// it is not there; a value that is empty but not nil is kept.
	Value []byte
}

// Size is what c counts against Limits.Bytes.
func (c Change) Size() int { return len(c.Key) + len(c.Value) }

// Limits is how much one commit may hold. 0 means no limit.
type Limits struct {
	Changes int // number of changes
	Bytes   int // bytes of all keys and values together
}

// Check returns ErrTooLarge if changes are too much for one commit.
func (l Limits) Check(changes []Change) error {
	if l.Changes > 0 && len(changes) > l.Changes {
		return tooLarge(len(changes), l.Changes, "changes")
	}
	if l.Bytes <= 0 {
		return nil
	}
	size := 0
	for _, c := range changes {
		size += c.Size()
	}
	if size > l.Bytes {
		return tooLarge(size, l.Bytes, "bytes")
	}
	return nil
}
