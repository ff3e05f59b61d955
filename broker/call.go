package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A call is a command on its way to Run, and the place of its answer.
type call struct {
	id  uint64
	cmd machine.Command
	// arrived is the broker time at which the command was taken in. It is set
	// before the answer.
	arrived time.Duration
	// answer has room for the one answer, so that Run never waits for a caller.
	answer chan machine.Answer
	// The commands that come all the time lie in the call itself.
	acquire machine.Acquire
	renew   machine.Renew
	release machine.Release
}

// An inbox holds the calls that came in and were not yet taken.
type inbox struct {
	// wake has room for one: a sign that the inbox is empty no more.
	wake chan struct{}
	// last is the id of the newest call; spare are calls to use again.
	last  atomic.Uint64
	spare sync.Pool

	mu sync.Mutex
	// The fields below are guarded by mu.
	calls []*call
	// closed is why no more calls are taken, or nil.
	closed error
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// newCall returns a call with a fresh id.
func (in *inbox) newCall() *call {
	c, ok := in.spare.Get().(*call)
	if !ok {
		c = &call{answer: make(chan machine.Answer, 1)}
	}
	c.id = in.last.Add(1)
	return c
}

// put hands a call over. It is refused once the inbox is closed.
func (in *inbox) put(c *call) error {
	in.mu.Lock()
	if in.closed != nil {
		defer in.mu.Unlock()
		return in.closed
	}
	in.calls = append(in.calls, c)
	first := len(in.calls) == 1
	in.mu.Unlock()
	if first {
		in.ring()
	}
	return nil
}

// ring wakes Run. Whoever puts the first call in rings for all.
func (in *inbox) ring() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take returns what has come in before the reading of the clock that it
// returns; whatever comes in later has come after that reading. It uses room
// for the calls to come.
func (in *inbox) take(room []*call, read func() time.Duration) ([]*call, time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	got := in.calls
	in.calls = room[:0]
	return got, read()
}

// close refuses all calls from now on, because of err, and returns those not
// yet taken.
func (in *inbox) close(err error) []*call {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = err
	left := in.calls
	in.calls = nil
	return left
}

// await returns the call's answer and when the call arrived, or false where ctx
// ended before there was one. After an answer the call is spent.
func (in *inbox) await(ctx context.Context, c *call) (a machine.Answer, arrived time.Duration, ok bool) {
	select {
	case a = <-c.answer:
	case <-ctx.Done():
		select {
		case a = <-c.answer:
		default:
			return a, 0, false
		}
	}
	arrived, c.cmd = c.arrived, nil
	in.spare.Put(c)
	return a, arrived, true
}

// ask runs a command and waits for its answer.
func (b *Broker) ask(ctx context.Context, cmd func(call uint64) machine.Command) (machine.Answer, error) {
	c := b.inbox.newCall()
	return b.do(ctx, c, cmd(c.id))
}

// do runs a call's command and waits for its answer.
func (b *Broker) do(ctx context.Context, c *call, cmd machine.Command) (machine.Answer, error) {
	if ctx.Err() != nil {
		return machine.Answer{}, context.Cause(ctx)
	}
	c.cmd = cmd
	if err := b.inbox.put(c); err != nil {
		return machine.Answer{}, err
	}
	a, _, ok := b.inbox.await(ctx, c)
	if !ok {
		return machine.Answer{}, lease.Errorf(lease.CodeOutcomeUnknown, "the broker was not waited for (%w); what was asked may have happened: repeat it with the same id", context.Cause(ctx))
	}
	return a, orNil(a.Err)
}

// orNil keeps a nil pointer from becoming an error.
func orNil(err *lease.Error) error {
	if err == nil {
		return nil
	}
	return err
}
