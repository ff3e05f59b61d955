package simulate

import (
	"context"
	"math"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/store"
)

// A disk is where the broker's store lives.
type disk struct {
	w       *World
	store   *store.Memory
	commits uint64
	// slow and fullUntil are spells of bad behaviour.
	slow, fullUntil time.Duration
	backup          *backup
	// restored says that the next start has to keep all slots back.
	restored bool
}

// A backup is a copy of all records.
type backup struct {
	at    time.Duration
	pairs []store.Change
}

func newDisk(w *World) *disk { return &disk{w: w, store: store.NewMemory(w.plan.limits)} }

// delay is how long the next commit takes.
func (d *disk) delay() time.Duration {
	d.commits++
	dice := newDice(d.w.cfg.Seed, streamDisk, d.commits)
	if d.w.now < d.slow {
		return dice.between(100*time.Millisecond, 7*time.Second)
	}
	return dice.between(500*time.Microsecond, 8*time.Millisecond)
}

func (d *disk) commit(c broker.Commit) error {
	if d.w.cfg.Fault == LoseCommits && d.commits%50 == 0 {
		c.Changes = c.Changes[len(c.Changes)-1:]
	}
	return d.store.Commit(context.Background(), c.Seq, c.Changes)
}

func (d *disk) full() bool {
	if d.w.now < d.fullUntil {
		d.store.SetFree(broker.Reserve - 1)
	} else {
		d.store.SetFree(math.MaxUint64)
	}
	free, err := d.store.Free()
	return err == nil && free < broker.Reserve
}

func (d *disk) reopen() {
	d.store = d.store.Reopen()
}

// takeBackup copies what is durable.
func (d *disk) takeBackup() {
	b := &backup{at: d.w.now}
	_, err := d.store.Load(context.Background(), func(key, value []byte) error {
		b.pairs = append(b.pairs, store.Change{Key: append([]byte{}, key...), Value: append([]byte{}, value...)})
		return nil
	})
	if err == nil {
		d.backup = b
	}
}

// restore puts the backup in the place of everything.
func (d *disk) restore() {
	d.restored = true
	d.store.Close()
	d.store = store.NewMemory(d.w.plan.limits)
	seq := uint64(0)
	step := len(d.backup.pairs)
	if n := d.w.plan.limits.Changes; n > 0 {
		step = n
	}
	for at := 0; at < len(d.backup.pairs); at += step {
		seq++
		if err := d.store.Commit(context.Background(), seq, d.backup.pairs[at:min(at+step, len(d.backup.pairs))]); err != nil {
			d.w.fail("books", "cannot restore a backup: %v", err)
		}
	}
}
