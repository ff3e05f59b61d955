package hold

import (
	"log/slog"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A Kind says what an [Event] is about.
type Kind string

// The kinds of events.
const (
	Acquired Kind = "acquired" // a lease is held
	Refused  Kind = "refused"  // an acquire failed with Err, or its lease is given back at once
	Missed   Kind = "missed"   // a renewal failed with Err; the lease is still trusted
	Lost     Kind = "lost"     // a lease was lost while it was held, because of Err
	Released Kind = "released" // a lease was given back, with Err where the broker says that it had ended before
	Delayed  Kind = "delayed"  // a release did not get through within its limit and goes on
	Late     Kind = "late"     // such a release ended, with Err where it was given up
	Leaked   Kind = "leaked"   // a lease was dropped without a release; it is renewed no more. Err says where it came from
)

// An Event is one step in the life of a lease. It names nothing secret.
type Event struct {
	Kind    Kind
	Request lease.Ref
	// Pool is that of the request's first claim.
	Pool string
	// Lease and Slots ("pool/slot") are empty where nothing was granted.
	Lease lease.Ref
	Slots []string
	Err   error
	// Took is how long the acquire or release took.
	Took time.Duration
	// Held is, once it is released, for how long the lease was held.
	Held time.Duration
}

// tell reports the event, and logs it where no caller gets to know of it.
func (h *held) tell(e Event) {
	t := h.granted()
	e.Request, e.Pool, e.Lease, e.Slots = h.request.Ref(), h.pool, t.LeaseID.Ref(), slotNames(t)
	k := h.keeper
	switch e.Kind {
	case Missed, Lost, Delayed, Late, Leaked:
		attrs := []any{slog.String("request", string(e.Request)), slog.String("lease", string(e.Lease)), slog.Any("slots", e.Slots)}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		k.cfg.Logger.Warn("lease "+string(e.Kind), attrs...)
	}
	k.cfg.Observe(e)
}
