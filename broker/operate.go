package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Apply declares all pools and slots of one source. It is checked whole before
// anything changes; what the source no longer names is removed, or marked
// while its units are in use. With dryRun it only says what would change. It
// keeps nothing of pools.
func (b *Broker) Apply(ctx context.Context, source lease.Source, pools []lease.PoolSpec, dryRun bool) (lease.Diff, error) {
	pools = copySpecs(pools)
	a, err := b.ask(ctx, func(call uint64) machine.Command {
		return machine.Apply{Call: call, Source: source, Pools: pools, DryRun: dryRun, StoreFull: b.full.Load()}
	})
	if err != nil {
		return lease.Diff{}, err
	}
	return *a.Diff, nil
}

// copySpecs returns what an apply may read after its caller has gone.
func copySpecs(pools []lease.PoolSpec) []lease.PoolSpec {
	pools = slices.Clone(pools)
	for i, p := range pools {
		if p.Settings != nil {
			settings := *p.Settings
			settings.Clean = slices.Clone(settings.Clean)
			pools[i].Settings = &settings
		}
		pools[i].Slots = slices.Clone(p.Slots)
		for j, s := range p.Slots {
			pools[i].Slots[j].Labels = maps.Clone(s.Labels)
		}
	}
	return pools
}

// Status returns what people may see; brief leaves the pools out. Its maps and
// lists must not be changed.
func (b *Broker) Status(ctx context.Context, brief bool) (lease.Status, error) {
	a, err := b.ask(ctx, func(call uint64) machine.Command { return machine.Show{Call: call, Brief: brief} })
	switch {
	case err == nil:
		return *a.Status, nil
	case ctx.Err() != nil:
		return lease.Status{}, context.Cause(ctx)
	}
	return lease.Status{}, err
}

// Drain stops grants from a slot, or with slot empty from a whole pool. What
// is held stays held.
func (b *Broker) Drain(ctx context.Context, pool, slot string) error {
	return b.order(ctx, func(call uint64) machine.Command { return machine.Drain{Call: call, Pool: pool, Slot: slot} })
}

// Undrain lets grants go on.
func (b *Broker) Undrain(ctx context.Context, pool, slot string) error {
	return b.order(ctx, func(call uint64) machine.Command { return machine.Undrain{Call: call, Pool: pool, Slot: slot} })
}

// Revoke ends a live lease. Its units go on as after every end that was no
// release.
func (b *Broker) Revoke(ctx context.Context, ref lease.Ref, reason string) error {
	return b.order(ctx, func(call uint64) machine.Command { return machine.Revoke{Call: call, Lease: ref, Reason: reason} })
}

// Clear ends the quarantine of the units that a lease had on a slot; with an
// empty ref it ends the slot's waiting after a restore. It is refused where
// another lease is there now.
func (b *Broker) Clear(ctx context.Context, pool, slot string, ref lease.Ref) error {
	return b.order(ctx, func(call uint64) machine.Command {
		return machine.Clear{Call: call, Pool: pool, Slot: slot, Lease: ref}
	})
}

// Health says how a slot is: with why empty it is well, else it is granted to
// nobody.
func (b *Broker) Health(ctx context.Context, pool, slot, why string) error {
	return b.order(ctx, func(call uint64) machine.Command {
		return machine.Health{Call: call, Pool: pool, Slot: slot, Why: why}
	})
}

// ReportBoot takes in the boot id that a machine's agent reports. A new one
// proves that work under the old one has stopped. was is what [Broker.Status]
// showed for the machine when the agent began, empty for nothing: a report
// that was overtaken on its way is refused by it.
func (b *Broker) ReportBoot(ctx context.Context, machineID, boot, was string) error {
	return b.order(ctx, func(call uint64) machine.Command {
		return machine.ProveBoot{Call: call, Machine: machineID, Boot: boot, Was: was}
	})
}

// A Tree is what an agent has seen of the process tree under a lease; see
// [machine.ProveTree].
type Tree = machine.ProveTree

// ReportTree takes in what an agent has seen of a tree. It is refused where
// that proves nothing.
func (b *Broker) ReportTree(ctx context.Context, t Tree) error {
	return b.order(ctx, func(call uint64) machine.Command {
		t.Call = call
		return t
	})
}

// Progress says that the work under a lease goes on.
func (b *Broker) Progress(ctx context.Context, t lease.Token, note string) error {
	return b.order(ctx, func(call uint64) machine.Command {
		return machine.Progress{Call: call, Caller: lease.Local, Lease: t.LeaseID, Note: note}
	})
}

// A Cleaning names quarantined units that a cleaner wants to take over.
type Cleaning struct {
	// Request gives the id, TTL, holder and note; its claims are not read.
	Request    lease.Request
	Pool, Slot string
	Lease      lease.Ref
}

// Clean takes quarantined units over under a lease of the cleaner's own.
// Releasing it means that the slot is clean; a cleaner that failed abandons.
func (b *Broker) Clean(ctx context.Context, c Cleaning) (lease.Token, error) {
	c.Request.Claims = []lease.Claim{{Pool: c.Pool}}
	r, err := c.Request.Checked()
	if err != nil {
		return lease.Token{}, err
	}
	digest, id := r.Body(), lease.NewLeaseID()
	a, err := b.ask(ctx, func(call uint64) machine.Command {
		return machine.Clean{
			Call: call, Caller: lease.Local, ID: r.ID, Digest: digest, Pool: c.Pool, Slot: c.Slot, Lease: c.Lease,
			TTL: r.TTL, Holder: r.Holder, Note: r.Note, LeaseID: id, StoreFull: b.full.Load(),
		}
	})
	return a.Token, err
}

// order asks for something that has no answer but done or refused.
func (b *Broker) order(ctx context.Context, cmd func(call uint64) machine.Command) error {
	_, err := b.ask(ctx, func(call uint64) machine.Command { return cmd(call) })
	return err
}
