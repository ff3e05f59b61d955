package broker

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Run serves until ctx ends or the store fails. It returns nil after an
// orderly stop, when everything that had come in is durable, and the store's
// error otherwise; the process goes on. Whoever still waits is told that the
// outcome is unknown. It waits for a commit under way, however long the store
// takes. It may be called once.
func (b *Broker) Run(ctx context.Context) error {
	if b.began.Swap(true) {
		return lease.Errorf(lease.CodeInternal, "cannot run the broker: Run was called before; open it anew")
	}
	c := newCommitter(b.cfg.Store)
	defer c.stop()
	err := b.serve(ctx, c)
	b.finish(err)
	return err
}

// serve is the loop: gather, apply, commit, answer.
func (b *Broker) serve(ctx context.Context, c *committer) error {
	timer := time.NewTimer(observeEvery)
	defer timer.Stop()
	var got []*call
	for tick := true; ; {
		var err error
		if got, err = b.step(got, tick, timer); err != nil {
			return err
		}
		if err := b.commit(c); err != nil {
			return err
		}
		b.deliver()
		if tick = b.engine.More(); tick {
			continue
		}
		select {
		case <-b.inbox.wake:
		case err := <-c.done:
			if err := b.committed(c, err); err != nil {
				return err
			}
		case <-timer.C:
			tick = true
		case <-ctx.Done():
			return b.drain(c)
		}
	}
}

// step takes what came in and applies it, and after it, where one is due, a
// tick: whatever came before a tick is applied before it. It returns got,
// emptied, as room for the calls to come.
func (b *Broker) step(got []*call, tick bool, timer *time.Timer) ([]*call, error) {
	got, reading := b.inbox.take(got, b.cfg.Reading)
	now := b.clock.Observe(reading)
	if err := b.apply(now, got); err != nil {
		return nil, err
	}
	clear(got)
	if !tick && !b.engine.More() {
		return got, nil
	}
	if err := b.engine.Do(now, machine.Tick{}); err != nil {
		return nil, err
	}
	timer.Reset(b.idle())
	if now-b.looked >= observeEvery {
		b.look()
	}
	return got, nil
}

// apply runs the commands that came in.
func (b *Broker) apply(now time.Duration, got []*call) error {
	for _, c := range got {
		c.arrived = now
		b.open[c.id] = c
		if err := b.engine.Do(now, c.cmd); err != nil {
			return err
		}
	}
	return nil
}

// idle returns for how long nothing need be looked at where nothing comes in.
func (b *Broker) idle() time.Duration {
	due, ok := b.engine.Next()
	if !ok {
		return observeEvery
	}
	return min(observeEvery, max(due-b.engine.Now(), time.Millisecond))
}

// commit starts a commit if there is something to commit and the committer is
// free.
func (b *Broker) commit(c *committer) error {
	if c.busy {
		select {
		case err := <-c.done:
			if err := b.committed(c, err); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	commit, ok, err := b.engine.Seal()
	if ok {
		c.begin(commit)
	}
	return err
}

// committed takes in the end of a commit.
func (b *Broker) committed(c *committer, err error) error {
	c.busy = false
	if err == nil {
		b.engine.Committed()
	}
	return err
}

// deliver gives out the events and answers that are ready. Events come first:
// who has an answer and watches from then on does not hear of it again.
func (b *Broker) deliver() {
	b.journal.add(b.engine.Told())
	ready := b.engine.Ready()
	for i := range ready {
		if c := b.open[ready[i].Call]; c != nil {
			delete(b.open, c.id)
			c.answer <- ready[i]
		}
	}
}

// drain takes no more calls and commits what was taken in, so that all of it
// can be answered.
func (b *Broker) drain(c *committer) error {
	left := b.inbox.close(stoppedError())
	if err := b.apply(b.now(), left); err != nil {
		return err
	}
	if err := b.carryOn(); err != nil {
		return err
	}
	for {
		if err := b.commit(c); err != nil {
			return err
		}
		b.deliver()
		if !c.busy {
			return nil
		}
		if err := b.committed(c, <-c.done); err != nil {
			return err
		}
	}
}

// finish answers whoever is left.
func (b *Broker) finish(err error) {
	ended := stoppedError()
	if err != nil {
		ended = lease.Errorf(lease.CodeOutcomeUnknown, "the broker has stopped because its store failed; what was asked may have happened: repeat it with the same id once the broker runs again")
	}
	b.cfg.Logger.Info("broker stopped", "failed", err != nil)
	for _, c := range b.inbox.close(ended) {
		b.open[c.id] = c
	}
	unknown := lease.Errorf(lease.CodeOutcomeUnknown, "the broker stopped before it could answer; what was asked may have happened: repeat it with the same id once the broker runs again")
	for _, c := range b.open {
		c.answer <- machine.Answer{Err: unknown}
	}
	clear(b.open)
	b.journal.end(ended)
}

func stoppedError() *lease.Error {
	return lease.Errorf(lease.CodeStopped, "the broker has stopped; start it again and repeat with the same id")
}
