package broker

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Queued tells where a waiter stands; see [machine.Queued].
type Queued = machine.Queued

// Ask is one acquire call of a caller that asks again by itself, as one beyond
// a network does: it is answered with a token, an error, or within poll with
// [lease.CodeQueued] and where the request stands. A poll beyond
// [lease.MaxPoll] is that.
//
// When ctx ends first, nobody listens to the call any more: the waiter is
// absent unless another call of it is open, and a token that the call would
// have brought is had again by the same request. The error is then
// [lease.CodeOutcomeUnknown].
func (b *Broker) Ask(ctx context.Context, caller lease.Caller, r lease.Request, poll time.Duration) (lease.Token, Queued, error) {
	if ctx.Err() != nil {
		return lease.Token{}, Queued{}, context.Cause(ctx)
	}
	r, err := r.Checked()
	if err != nil {
		return lease.Token{}, Queued{}, err
	}
	c := b.acquireCall(caller, r, r.Body(), min(poll, lease.MaxPoll))
	id := c.id
	a, err := b.do(ctx, c, &c.acquire)
	if err != nil && lease.CodeOf(err) == lease.CodeOutcomeUnknown {
		b.leave(caller, r.ID, id)
	}
	return own(a.Token), a.Queued, err
}

// acquireCall returns a call with its acquire filled in, of a request that was checked.
func (b *Broker) acquireCall(caller lease.Caller, r lease.Request, digest lease.Digest, poll time.Duration) *call {
	c := b.inbox.newCall()
	c.acquire = machine.Acquire{
		Call: c.id, Caller: caller, Request: r, Digest: digest, Poll: poll,
		LeaseID: lease.NewLeaseID(), StoreFull: b.full.Load(),
	}
	return c
}

// leave says that nobody listens to a call any more. It has no answer; a
// broker that has stopped need not hear of it.
func (b *Broker) leave(caller lease.Caller, id lease.RequestID, call uint64) {
	c := b.inbox.newCall()
	c.cmd = machine.Leave{Caller: caller, ID: id, Call: call}
	_ = b.inbox.put(c)
}

// Drop cancels a request of a caller by its id. With unused, which only who
// made the id can say, no token of it was or will be handed to anybody: then
// the units of a lease that was never renewed are free at once.
func (b *Broker) Drop(ctx context.Context, caller lease.Caller, id lease.RequestID, unused bool) error {
	if !lease.ValidName(string(id)) {
		return lease.Errorf(lease.CodeNameInvalid, "cannot cancel: the request id must match [A-Za-z0-9_.:-]{1,128}")
	}
	return b.order(ctx, func(call uint64) machine.Command {
		return machine.Cancel{Call: call, Caller: caller, ID: id, Unused: unused}
	})
}
