package broker

import (
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/record"
)

// A batch is what one commit will make durable, and who waits for it.
type batch struct {
	// last is the machine's last step with changes in the batch, and ledger
	// the summary record as of then.
	last   uint64
	ledger lease.Ledger
	// changes are in the order in which they were made; of two to one key the
	// later counts. Their bytes lie in arena.
	changes []store.Change
	arena   []byte
	bytes   int
	answers []machine.Answer
	events  []machine.Event
}

// add appends changes.
func (b *batch) add(changes []machine.Change) error {
	for _, c := range changes {
		if err := b.addOne(c); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) addOne(c machine.Change) error {
	from := len(b.arena)
	to, err := record.AppendKey(b.arena, c.Record)
	if err != nil {
		return err
	}
	mid := len(to)
	if !c.Delete {
		if to, err = record.AppendValue(to, c.Record); err != nil {
			return err
		}
	}
	change := store.Change{Key: to[from:mid:mid]}
	if !c.Delete {
		change.Value = to[mid:len(to):len(to)]
	}
	b.arena = to
	b.changes = append(b.changes, change)
	b.bytes += change.Size()
	return nil
}

// cut takes back all changes but the first n.
func (b *batch) cut(n int) {
	for _, c := range b.changes[n:] {
		b.bytes -= c.Size()
	}
	clear(b.changes[n:])
	b.changes = b.changes[:n]
}

// fits reports whether the store takes the batch, the ledger included.
func (b *batch) fits(l store.Limits) bool {
	const ledger, ledgerBytes = 1, 128
	return (l.Changes == 0 || len(b.changes)+ledger <= l.Changes) &&
		(l.Bytes == 0 || b.bytes+ledgerBytes <= l.Bytes)
}

// seal adds the ledger.
func (b *batch) seal() error { return b.addOne(machine.Change{Record: &b.ledger}) }

// reset empties the batch and keeps its room.
func (b *batch) reset() {
	clear(b.changes)
	clear(b.answers)
	clear(b.events)
	*b = batch{changes: b.changes[:0], arena: b.arena[:0], answers: b.answers[:0], events: b.events[:0]}
}
