package lease

import "context"

// A Broker hands out leases. All methods may be called from any goroutine,
// block at most as long as their context, and return an [*Error] or the
// context's cause. A broker is never closed by what it lends.
type Broker interface {
	// Acquire returns a token or an error, exactly one. It waits at most
	// r.Wait of broker time. After an error nothing is held or queued under
	// r.ID, but for [CodeOutcomeUnknown], after which the broker takes back
	// what it may have given. An invalid reply is cancelled by id before the
	// error returns.
	Acquire(ctx context.Context, r Request) (Token, error)
	// Renew returns the token with the time that is left now. An error with
	// a code of an ended lease is final; any other leaves the lease as it was.
	Renew(ctx context.Context, t Token) (Token, error)
	// Release says that the work has stopped. It may be repeated. A release
	// of a lease that ended otherwise ends its quarantine and says how it
	// ended.
	Release(ctx context.Context, t Token) error
	// Abandon gives up a lease whose work may still run: its units wait for a
	// proof or the pool's handover. It may be repeated.
	Abandon(ctx context.Context, t Token, reason string) error
	// Cancel ends a waiter and abandons a lease. It is remembered when it
	// arrives before the request, which is then never granted.
	Cancel(ctx context.Context, id RequestID) error
}
