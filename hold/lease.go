package hold

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/lease"
)

// A Lease is a lease that is held: its Keeper renews it until it is given
// back. It starts held and is ended by the first Release or Abandon, or by
// [Keeper.With] when its function ends. All methods may be called from any
// goroutine. It prints as its ref and never shows its ids.
//
// SlotID, Slots and Fence are refused with [lease.CodeLeaseClosed] from the
// moment the release began, and with [lease.CodeLeaseLost] once the lease is
// lost. What they returned before must not be used after that either: watch
// [Lease.Context].
type Lease struct {
	held  *held
	guard *guard.Lease[*held]
}

// SlotID returns the slot's id. It is refused for a lease on several slots.
func (l *Lease) SlotID() (string, error) {
	token, err := l.use()
	if err != nil {
		return "", err
	}
	if n := len(token.Slots); n != 1 {
		return "", lease.Errorf(lease.CodeRequestInvalid, "lease %s holds %d slots: use Slots", token.LeaseID, n)
	}
	return token.Slots[0].ID, nil
}

// Slots returns what the lease holds, by pool and id. The caller must not
// change the labels in it.
func (l *Lease) Slots() ([]lease.GrantedSlot, error) {
	token, err := l.use()
	if err != nil {
		return nil, err
	}
	return slices.Clone(token.Slots), nil
}

// Fence returns the lease's fence. Sinks may compare it only on slots that
// the lease holds whole.
func (l *Lease) Fence() (lease.Fence, error) {
	token, err := l.use()
	if err != nil {
		return 0, err
	}
	return token.Fence, nil
}

func (l *Lease) use() (lease.Token, error) {
	if _, err := l.guard.Value(); err != nil {
		return lease.Token{}, closedError(l.held.granted())
	}
	token, _, err := l.held.trusted()
	if err != nil {
		return lease.Token{}, err
	}
	return token, nil
}

// Left returns the trust that is left: how long the work may run if no
// renewal succeeds any more. It is 0 for a lease that is lost.
func (l *Lease) Left() time.Duration {
	_, left, _ := l.held.trusted()
	return left
}

// Margin returns how long after the end of trust the lease itself ends at the
// earliest.
func (l *Lease) Margin() time.Duration {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	return l.held.core.margin
}

// Handover returns the shortest time after that in which a slot goes on to
// somebody else without a proof; see [lease.Token.Handover].
func (l *Lease) Handover() (after time.Duration, ok bool) { return l.held.granted().Handover() }

// Ref returns the name by which people know the lease.
func (l *Lease) Ref() lease.Ref { return l.held.granted().LeaseID.Ref() }

// String returns the ref.
func (l *Lease) String() string { return string(l.Ref()) }

// GoString returns the ref, so that %#v shows no id.
func (l *Lease) GoString() string { return l.String() }

// Context returns the context of the work. Its cause is an error with
// [lease.CodeLeaseLost] when the lease is lost, before the lease can be
// granted to anybody else, or with [lease.CodeLeaseClosed] when the release
// began. That of [Keeper.With] also ends with the caller's context; that of
// [Keeper.Acquire] keeps only the values of it.
func (l *Lease) Context() context.Context { return l.held.work }

// Done is closed when nothing of the lease is under way any more: its release
// was answered, or the Keeper gave it up.
func (l *Lease) Done() <-chan struct{} { return l.held.gone }

// Release gives the lease back: its work has stopped. It waits for the
// broker's answer, at most for Config.ReleaseLimit, whatever becomes of ctx,
// of which it keeps the values; then it returns an error with
// [lease.CodeOutcomeUnknown] and goes on in the background. A lease that had
// ended before is [lease.CodeLeaseLost]. Every further call, and an Abandon,
// waits for that one release and returns its result.
func (l *Lease) Release(ctx context.Context) error {
	return l.guard.Close(ctx, guard.Outcome{Kind: guard.Completed})
}

// Abandon gives up the lease of work that may still run: its slots wait for a
// proof or the pool's handover. Else it is like Release.
func (l *Lease) Abandon(ctx context.Context, reason string) error {
	return l.guard.Close(ctx, guard.Outcome{Kind: guard.Abandoned, Err: errors.New(reason)})
}
