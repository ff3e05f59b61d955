package broker

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Run serves until ctx ends or the store fails. It returns nil after an
// orderly stop, when everything it has said is durable, and the store's error
// otherwise; the process goes on. Whoever still waits is told that the
// outcome is unknown. It may be called once.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer close(b.stopped)
	c := newCommitter(b.cfg.Store)
	defer c.stop()
	err := b.serve(ctx, c)
	b.finish(err)
	return err
}

func (b *Broker) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return lease.Errorf(lease.CodeInternal, "cannot run the broker: Run was called before")
	}
	b.running = true
	return nil
}

// serve is the loop: gather, apply, commit, answer.
func (b *Broker) serve(ctx context.Context, c *committer) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var room []command
	for {
		got := b.take(room)
		if err := b.apply(got); err != nil {
			return err
		}
		clear(got)
		room = got
		if err := b.commit(c); err != nil {
			return err
		}
		b.deliver()
		if b.engine.More() {
			continue
		}
		select {
		case <-b.wake:
		case err := <-c.done:
			if err := b.committed(c, err); err != nil {
				return err
			}
		case <-timer.C:
			wait, err := b.observe()
			if err != nil {
				return err
			}
			timer.Reset(wait)
		case <-ctx.Done():
			return b.drain(c)
		}
	}
}

// apply runs what came in, and a step of the work that is left.
func (b *Broker) apply(got []command) error {
	now := b.now()
	for _, in := range got {
		b.open[in.call.id] = in.call
		if err := b.engine.Do(now, in.cmd(in.call.id, b.full)); err != nil {
			return err
		}
	}
	if b.engine.More() {
		return b.engine.Do(now, machine.Tick{})
	}
	return nil
}

// commit starts a commit if the committer is free.
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
		c.busy = true
		c.todo <- commit
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

// observe lets time pass and returns when to look again.
func (b *Broker) observe() (time.Duration, error) {
	free, err := b.cfg.Store.Free()
	b.setFull(err == nil && free < Reserve)
	if err := b.engine.Do(b.now(), machine.Tick{}); err != nil {
		return 0, err
	}
	if due, ok := b.engine.machine.Next(); ok {
		return min(observeEvery, max(due-b.engine.Now(), time.Millisecond)), nil
	}
	return observeEvery, nil
}

func (b *Broker) setFull(full bool) {
	if full != b.full {
		b.full = full
		b.cfg.Logger.Warn("store space", "full", full, "reserve", Reserve)
	}
}

// deliver gives out the answers and events that are ready.
func (b *Broker) deliver() {
	for _, a := range b.engine.Ready() {
		if p := b.open[a.Call]; p != nil {
			delete(b.open, a.Call)
			p.answer <- a
		}
	}
	b.journal.add(b.engine.Told())
}

// drain commits what was taken in, so that all of it can be answered.
func (b *Broker) drain(c *committer) error {
	if err := b.apply(b.shut(stoppedError())); err != nil {
		return err
	}
	for {
		if err := b.carryOn(); err != nil {
			return err
		}
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
		b.cfg.Logger.Error("broker stopped", "err", err)
	} else {
		b.cfg.Logger.Info("broker stopped")
	}
	for _, in := range b.shut(ended) {
		b.open[in.call.id] = in.call
	}
	unknown := lease.Errorf(lease.CodeOutcomeUnknown, "the broker stopped before it could answer; what was asked may have happened: repeat it with the same id")
	for _, p := range b.open {
		p.answer <- machine.Answer{Err: unknown}
	}
	b.journal.end(ended)
}

func stoppedError() *lease.Error {
	return lease.Errorf(lease.CodeStopped, "the broker has stopped; start it again and repeat with the same id")
}
