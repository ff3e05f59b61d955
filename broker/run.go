package broker

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/scope"
)

// fewAnswers is how many answers a worker gives before it goes on to its next
// commit. More of them are left to the other one.
const fewAnswers = 8

// Run serves until ctx ends or the store fails. It returns nil after an
// orderly stop, when everything that had come in is durable, and the store's
// error otherwise; the process goes on. Whoever still waits is told that the
// outcome is unknown. It waits for a commit under way, however long the store
// takes. It may be called once.
func (b *Broker) Run(ctx context.Context) error {
	if b.began.Swap(true) {
		return lease.Errorf(lease.CodeInternal, "cannot run the broker: Run was called before; open it anew")
	}
	err := b.workInTurns(ctx)
	if err == nil {
		err = b.drain()
	}
	b.finish(err)
	return err
}

// workInTurns runs two workers, which end together. Either takes the engine
// for a round of its step (gather, apply, answer), and the one that has sealed
// a batch commits it itself, while the other goes on: so a call's way to the
// disk and back needs no further goroutine.
func (b *Broker) workInTurns(ctx context.Context) error {
	timer := time.NewTimer(observeEvery)
	defer timer.Stop()
	work := func(ctx context.Context) error { return b.work(ctx, timer) }
	return scope.Run(ctx, scope.Config{Name: "broker"}, func(ctx context.Context, s *scope.Scope) error {
		if err := s.Go(ctx, "second worker", work); err != nil {
			return err
		}
		return work(ctx)
	})
}

// work does one round after the other until ctx ends.
func (b *Broker) work(ctx context.Context, timer *time.Timer) error {
	for tick := true; ; {
		more, err := b.round(ctx, timer, tick)
		if err != nil {
			return err
		}
		if tick = more; more && ctx.Err() == nil {
			continue
		}
		select {
		case <-b.inbox.wake:
		case <-timer.C:
			tick = true
		case <-ctx.Done():
			return nil
		}
	}
}

// round takes in what came, and commits if nobody else does. It reports
// whether the machine had more work.
func (b *Broker) round(ctx context.Context, timer *time.Timer, tick bool) (more bool, err error) {
	<-b.turn
	err = b.step(tick, timer)
	more = b.engine.More()
	c, ok := Commit{}, false
	if err == nil {
		c, ok, err = b.engine.Seal()
	}
	b.deliver()
	b.turn <- struct{}{}
	if ok && more {
		b.inbox.ring()
	}
	for ok && err == nil {
		c, ok, err = b.commit(ctx, c)
	}
	return more, err
}

// step takes what came in and applies it, and after it, where one is due, a
// tick: whatever came before a tick is applied before it.
func (b *Broker) step(tick bool, timer *time.Timer) error {
	got, reading := b.inbox.take(b.room, b.cfg.Reading)
	now := b.clock.Observe(reading)
	if err := b.apply(now, got); err != nil {
		return err
	}
	clear(got)
	b.room = got
	if !tick && !b.engine.More() {
		return nil
	}
	if err := b.engine.Do(now, machine.Tick{}); err != nil {
		return err
	}
	timer.Reset(b.idle())
	if now-b.looked >= observeEvery {
		b.look()
	}
	return nil
}

// apply runs the commands that came in.
func (b *Broker) apply(now time.Duration, got []*call) error {
	for _, c := range got {
		c.arrived = now
		if l, ok := c.cmd.(machine.Leave); ok {
			delete(b.open, l.Call) // neither is answered any more
		} else {
			b.open[c.id] = c
		}
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

// commit makes a commit and returns the next, if there is one by then. A
// commit is never cut off: its outcome would be unknown.
func (b *Broker) commit(ctx context.Context, c Commit) (next Commit, ok bool, err error) {
	if err := b.cfg.Store.Commit(context.Background(), c.Seq, c.Changes); err != nil {
		return Commit{}, false, err
	}
	<-b.turn
	defer func() { b.turn <- struct{}{} }()
	b.engine.Committed()
	if ctx.Err() == nil {
		next, ok, err = b.engine.Seal()
	}
	if ok && b.engine.waiting() > fewAnswers {
		b.inbox.ring()
		return next, ok, err
	}
	b.deliver()
	return next, ok, err
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
func (b *Broker) drain() error {
	left := b.inbox.close(stoppedError())
	if err := b.apply(b.now(), left); err != nil {
		return err
	}
	return b.flush(context.Background())
}

// flush does all work that the machine has left and commits everything.
func (b *Broker) flush(ctx context.Context) error {
	for b.engine.More() {
		if err := b.engine.Do(b.now(), machine.Tick{}); err != nil {
			return err
		}
	}
	for {
		b.deliver()
		c, ok, err := b.engine.Seal()
		if !ok {
			return err
		}
		if err := b.cfg.Store.Commit(ctx, c.Seq, c.Changes); err != nil {
			return err
		}
		b.engine.Committed()
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
