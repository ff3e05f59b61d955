package broker

import (
	"context"
	"maps"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// cancelLimit is how long an acquire that its caller gave up waits for the
// answer to its cancel.
const cancelLimit = 10 * time.Second

// A lender is the broker as one caller sees it.
type lender struct {
	b      *Broker
	caller lease.Caller
}

// As returns the broker as a caller sees it: request ids are scoped to it,
// and only its own leases can be renewed and given back.
func (b *Broker) As(caller lease.Caller) lease.Broker { return lender{b, caller} }

// Acquire implements [lease.Broker] for [lease.Local].
func (b *Broker) Acquire(ctx context.Context, r lease.Request) (lease.Token, error) {
	return lender{b, lease.Local}.Acquire(ctx, r)
}

// Renew implements [lease.Broker] for [lease.Local].
func (b *Broker) Renew(ctx context.Context, t lease.Token) (lease.Token, error) {
	return lender{b, lease.Local}.Renew(ctx, t)
}

// Release implements [lease.Broker] for [lease.Local].
func (b *Broker) Release(ctx context.Context, t lease.Token) error {
	return lender{b, lease.Local}.Release(ctx, t)
}

// Abandon implements [lease.Broker] for [lease.Local].
func (b *Broker) Abandon(ctx context.Context, t lease.Token, reason string) error {
	return lender{b, lease.Local}.Abandon(ctx, t, reason)
}

// Cancel implements [lease.Broker] for [lease.Local].
func (b *Broker) Cancel(ctx context.Context, id lease.RequestID) error {
	return lender{b, lease.Local}.Cancel(ctx, id)
}

func (l lender) Acquire(ctx context.Context, r lease.Request) (lease.Token, error) {
	if ctx.Err() != nil {
		return lease.Token{}, context.Cause(ctx)
	}
	r, err := r.Checked()
	if err != nil {
		return lease.Token{}, err
	}
	digest := r.Body()
	for began := time.Duration(0); ; {
		c := l.b.acquireCall(l.caller, r, digest, lease.MaxPoll)
		c.cmd = &c.acquire
		if err := l.b.inbox.put(c); err != nil {
			return lease.Token{}, since(began, err)
		}
		a, arrived, ok := l.b.inbox.await(ctx, c)
		if !ok {
			return l.giveUp(ctx, r.ID)
		}
		if began == 0 {
			began = arrived
		}
		if a.Err != nil && a.Err.Code() == string(lease.CodeQueued) {
			continue
		}
		if a.Err != nil {
			return lease.Token{}, a.Err
		}
		// The caller counts from its own call, not from the last of ours.
		a.Token.Elapsed += arrived - began
		return own(a.Token), nil
	}
}

// since returns why an acquire cannot ask, or ask again: a call before may
// have left a waiter.
func since(began time.Duration, err error) error {
	if began == 0 {
		return err
	}
	return lease.Errorf(lease.CodeOutcomeUnknown, "the request was queued and cannot be asked for again: %v", err)
}

// own returns the token without what it shares with the machine.
func own(t lease.Token) lease.Token {
	for i := range t.Slots {
		t.Slots[i].Labels = maps.Clone(t.Slots[i].Labels)
	}
	return t
}

// giveUp cancels what the caller no longer wants. The token was not handed
// out and never will be.
func (l lender) giveUp(ctx context.Context, id lease.RequestID) (lease.Token, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	if err := l.b.Drop(limited, l.caller, id, true); err != nil {
		return lease.Token{}, lease.Errorf(lease.CodeOutcomeUnknown, "request %s was given up (%w) and could not be cancelled: %v; what it may hold is taken back by its ttl: ask with a new id", id, context.Cause(ctx), err)
	}
	return lease.Token{}, context.Cause(ctx)
}

func (l lender) Renew(ctx context.Context, t lease.Token) (lease.Token, error) {
	c := l.b.inbox.newCall()
	c.renew = machine.Renew{Call: c.id, Caller: l.caller, Lease: t.LeaseID}
	a, err := l.b.do(ctx, c, &c.renew)
	return own(a.Token), err
}

func (l lender) Release(ctx context.Context, t lease.Token) error {
	c := l.b.inbox.newCall()
	c.release = machine.Release{Call: c.id, Caller: l.caller, Lease: t.LeaseID}
	_, err := l.b.do(ctx, c, &c.release)
	return err
}

func (l lender) Abandon(ctx context.Context, t lease.Token, reason string) error {
	_, err := l.b.ask(ctx, func(call uint64) machine.Command {
		return machine.Abandon{Call: call, Caller: l.caller, Lease: t.LeaseID, Reason: reason}
	})
	return err
}

func (l lender) Cancel(ctx context.Context, id lease.RequestID) error {
	return l.b.Drop(ctx, l.caller, id, false)
}
