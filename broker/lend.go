package broker

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// cancelLimit is how long an acquire that its caller gave up waits for the
// answer to its cancel.
const cancelLimit = 10 * time.Second

// An lender is the broker as one caller sees it.
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
	for {
		id := lease.NewLeaseID()
		p, err := l.b.submit(func(call uint64, full bool) machine.Command {
			return machine.Acquire{Call: call, Caller: l.caller, Request: r, Digest: digest, Poll: lease.MaxPoll, LeaseID: id, StoreFull: full}
		})
		if err != nil {
			return lease.Token{}, err
		}
		select {
		case a := <-p.answer:
			if a.Err != nil && a.Err.Code() == string(lease.CodeQueued) {
				continue
			}
			return a.Token, orNil(a.Err)
		case <-ctx.Done():
			return l.giveUp(ctx, r.ID)
		}
	}
}

// giveUp cancels what the caller no longer wants. The token was not handed
// out and never will be.
func (l lender) giveUp(ctx context.Context, id lease.RequestID) (lease.Token, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	_, err := l.b.ask(limited, func(call uint64, _ bool) machine.Command {
		return machine.Cancel{Call: call, Caller: l.caller, ID: id, Unused: true}
	})
	if err != nil {
		return lease.Token{}, lease.Errorf(lease.CodeOutcomeUnknown, "request %s was given up (%v) and could not be cancelled: %v; what it may hold is taken back by its ttl", id, context.Cause(ctx), err)
	}
	return lease.Token{}, context.Cause(ctx)
}

func (l lender) Renew(ctx context.Context, t lease.Token) (lease.Token, error) {
	a, err := l.b.ask(ctx, func(call uint64, _ bool) machine.Command {
		return machine.Renew{Call: call, Caller: l.caller, Lease: t.LeaseID}
	})
	return a.Token, err
}

func (l lender) Release(ctx context.Context, t lease.Token) error {
	_, err := l.b.ask(ctx, func(call uint64, _ bool) machine.Command {
		return machine.Release{Call: call, Caller: l.caller, Lease: t.LeaseID}
	})
	return err
}

func (l lender) Abandon(ctx context.Context, t lease.Token, reason string) error {
	_, err := l.b.ask(ctx, func(call uint64, _ bool) machine.Command {
		return machine.Abandon{Call: call, Caller: l.caller, Lease: t.LeaseID, Reason: reason}
	})
	return err
}

func (l lender) Cancel(ctx context.Context, id lease.RequestID) error {
	if !lease.ValidName(string(id)) {
		return lease.Errorf(lease.CodeNameInvalid, "cannot cancel: the request id must match [A-Za-z0-9_.:-]{1,128}")
	}
	_, err := l.b.ask(ctx, func(call uint64, _ bool) machine.Command {
		return machine.Cancel{Call: call, Caller: l.caller, ID: id}
	})
	return err
}

// ask submits a command and waits for its answer.
func (b *Broker) ask(ctx context.Context, cmd func(call uint64, full bool) machine.Command) (machine.Answer, error) {
	if ctx.Err() != nil {
		return machine.Answer{}, context.Cause(ctx)
	}
	p, err := b.submit(cmd)
	if err != nil {
		return machine.Answer{}, err
	}
	select {
	case a := <-p.answer:
		return a, orNil(a.Err)
	case <-ctx.Done():
		return machine.Answer{}, lease.Errorf(lease.CodeOutcomeUnknown, "the broker was not waited for (%w); what was asked may have happened: repeat it with the same id", context.Cause(ctx))
	}
}

// orNil keeps a nil pointer from becoming an error.
func orNil(err *lease.Error) error {
	if err == nil {
		return nil
	}
	return err
}
