package hold

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// Close ends the Keeper. New leases are refused with [lease.CodeStopped], and
// acquires that wait are cancelled with it. Then it waits until every lease
// is given back, at most until ctx ends: then the contexts of work that still
// runs end, renewals and releases in the background stop, and the error names
// what was not given back, by ref and slots; the broker takes it back by
// itself. Close may be called any number of times.
func (k *Keeper) Close(ctx context.Context) error {
	k.shut(keeperClosed())
	empty := k.wait()
	select {
	case <-empty:
	case <-ctx.Done():
	}
	left := k.left()
	if len(left) == 0 {
		k.join(ctx)
		return nil
	}
	names := make([]string, len(left))
	for i, h := range left {
		names[i] = h.describe()
	}
	slices.Sort(names)
	for _, h := range left {
		h.drop()
	}
	k.join(ctx)
	return lease.Errorf(lease.CodeOutcomeUnknown, "cannot give back everything before the keeper closes (%w): %s; the broker takes it back when its time is over", context.Cause(ctx), strings.Join(names, "; "))
}

// enter counts h among the keeper's leases, unless the Keeper is closed.
func (k *Keeper) enter(h *held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return keeperClosed()
	}
	k.leases[h] = struct{}{}
	return nil
}

func (k *Keeper) forget(h *held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leases, h)
	if k.empty != nil && len(k.leases) == 0 {
		close(k.empty)
		k.empty = nil
	}
}

// wait closes the Keeper for new leases and returns a channel that is closed
// when there are none.
func (k *Keeper) wait() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	empty := k.empty
	if empty == nil {
		empty = make(chan struct{})
		if len(k.leases) == 0 {
			close(empty)
		} else {
			k.empty = empty
		}
	}
	return empty
}

func (k *Keeper) left() []*held {
	k.mu.Lock()
	defer k.mu.Unlock()
	var left []*held
	for h := range k.leases {
		left = append(left, h)
	}
	return left
}

// describe names the lease and what hinders its return.
func (h *held) describe() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.core.token
	if t.LeaseID == "" {
		return "request " + h.request.String() + " is not answered yet"
	}
	name := "lease " + t.LeaseID.String() + " on " + slotsOf(t)
	if !h.back.began {
		return name + " is still held"
	}
	if h.back.failed != nil {
		return name + " could not be given back: " + h.back.failed.Error()
	}
	return name + " is being given back"
}

// drop gives the lease up: its work has to stop, and nobody renews it or
// tries to release it any more.
func (h *held) drop() {
	h.update(func(c *core, _ attempt.Instant) {
		if c.token.LeaseID != "" {
			c.lose(keeperClosed())
		}
	})
	h.end(keeperClosed())
}

// A broker's calls end with their contexts; closeGrace is what they get to
// notice.
const closeGrace = time.Second

// join waits for the goroutines of leases, which have nothing left to do but
// to notice that. A broker whose calls ignore their contexts keeps its own.
func (k *Keeper) join(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	_ = k.background.Close(ctx, keeperClosed())
}
