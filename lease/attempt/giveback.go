package attempt

import (
	"math"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A GiveBack is one release or abandon, repeated until it is answered. Its
// result is nil where the broker has it or had it already, else the broker's
// answer (how the lease ended before, in the end) or [lease.CodeOutcomeUnknown].
type GiveBack struct {
	ref     lease.Ref
	abandon bool
	limits  Limits
	phase   phase
	ends    time.Duration
	calls   calls
	result  Action
}

// NewRelease returns the attempt to release the lease: its work has stopped.
func NewRelease(id lease.LeaseID, limits Limits) GiveBack {
	return GiveBack{ref: id.Ref(), limits: limits.withDefaults()}
}

// NewAbandon returns the attempt to abandon the lease: its work may still run.
func NewAbandon(id lease.LeaseID, limits Limits) GiveBack {
	return GiveBack{ref: id.Ref(), abandon: true, limits: limits.withDefaults()}
}

// Step takes in what happened and returns what to do now. After [Done] it
// returns the same Done whatever comes.
func (g *GiveBack) Step(e Event) Action {
	switch g.phase {
	case ended:
		return g.result
	case fresh:
		g.phase, g.ends = asking, e.At.Mono+g.limits.GiveBack
		if g.limits.GiveBack < 0 {
			g.ends = math.MaxInt64
		}
		g.calls.restart(e.At)
	}
	switch {
	case e.Kind == Stop:
		return g.end(g.unknown(e.Err))
	case e.Kind == Reply:
		return g.answered(e)
	case e.At.Mono >= g.ends:
		return g.end(g.unknown(nil))
	case g.calls.overdue(e.At):
		g.calls.fail(e, errNoAnswer)
	}
	return g.calls.next(e.At, SendGiveBack, g.limits.Reply, g.ends)
}

// answered takes in an answer. Any call's answer counts; that a call failed
// counts of the last one.
func (g *GiveBack) answered(e Event) Action {
	if e.Err == nil || g.done(e) {
		return g.end(nil)
	}
	if !again(e.Err) {
		return g.end(e.Err)
	}
	if e.Try == g.calls.try {
		g.calls.fail(e, e.Err)
	}
	return g.Step(e.tick())
}

// done reports whether the error says that the lease was given back before,
// by an earlier call whose answer was lost or by another process.
func (g *GiveBack) done(e Event) bool {
	switch codeOf(e.Err) {
	case lease.CodeLeaseReleased:
		return true
	case lease.CodeLeaseAbandoned:
		return g.abandon
	case lease.CodeLeaseUnknown:
		return e.Try > 1
	}
	return false
}

func (g *GiveBack) end(err error) Action {
	g.phase, g.result = ended, Action{Do: Done, Try: g.calls.try, Err: err}
	return g.result
}

// unknown is the error of a give-back that was not answered. It holds only
// the caller's own cause: that a call ran out of its time is no cancellation.
func (g *GiveBack) unknown(cause error) error {
	why := g.calls.last
	if cause == nil {
		return lease.Errorf(lease.CodeOutcomeUnknown, "cannot give back lease %s: %v; it ends by itself when its time is over", g.ref, why)
	}
	return lease.Errorf(lease.CodeOutcomeUnknown, "cannot give back lease %s: %w (%v); it ends by itself when its time is over", g.ref, cause, why)
}
