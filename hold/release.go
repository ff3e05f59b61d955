package hold

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// release is the guard's: it ends the work's context, starts the give-back
// and waits for it, at most as long as ctx lives. Then the give-back goes on,
// and the renewals end.
func (h *held) release(ctx context.Context, _ *held, o guard.Outcome) error {
	start := h.now()
	h.begin()
	h.stopWork(closedError(h.granted()))
	h.start("give back", func() { h.giveBack(h.lifeOr(ctx), start, o) })
	select {
	case <-h.gone:
		return h.back.err
	case <-ctx.Done():
	}
	h.stopBeat()
	err, late := h.letGo()
	if late {
		defer close(h.delayed)
		h.tell(Event{Kind: Delayed, Err: err, Took: h.now().Mono - start.Mono, Held: start.Mono - h.since.Mono})
	}
	return err
}

// lifeOr returns what bounds the give-back: the lease's life, or, once the
// Keeper has given the lease up, the time in which somebody waits for it.
func (h *held) lifeOr(ctx context.Context) context.Context {
	if h.life.Err() != nil {
		return ctx
	}
	return h.life
}

// begin says that the lease is on its way back: from here on the answers to
// renewals that this makes fail are no loss.
func (h *held) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back.began = true
	h.core.close()
}

// giveBack tells the broker until it answers or life ends, and ends the
// renewals after that: they do no harm, and the lease lasts meanwhile.
func (h *held) giveBack(life context.Context, start attempt.Instant, o guard.Outcome) {
	step, call := h.goal(o)
	err := h.meaning(h.drive(life, step, call))
	late := h.finish(err)
	h.stopBeat()
	<-h.kept
	h.end(nil)
	if late {
		<-h.delayed
		h.tell(Event{Kind: Late, Err: err, Took: h.now().Mono - start.Mono})
	}
	h.keeper.forget(h)
	close(h.gone)
}

// goal returns what the outcome of the work makes of the lease, and the call
// to the broker that does it.
func (h *held) goal(o guard.Outcome) (attempt.GiveBack, func(context.Context) error) {
	token, broker := h.granted(), h.keeper.cfg.Broker
	limits := attempt.Limits{GiveBack: -1, Reply: h.keeper.cfg.ReleaseLimit / 3}
	if reason, runs := mayRun(o); runs {
		return attempt.NewAbandon(token.LeaseID, limits), func(ctx context.Context) error {
			return broker.Abandon(ctx, token, reason)
		}
	}
	release := attempt.NewRelease(token.LeaseID, limits)
	if h.invalid {
		return release, func(ctx context.Context) error { return broker.Cancel(ctx, h.request) }
	}
	return release, func(ctx context.Context) error { return broker.Release(ctx, token) }
}

// mayRun reports whether the work may still run, and why that is so.
func mayRun(o guard.Outcome) (reason string, runs bool) {
	var still *stillRunning
	if errors.As(o.Err, &still) {
		return clip(still.Error()), true
	}
	if o.Kind != guard.Abandoned {
		return "", false
	}
	if o.Err != nil {
		reason = clip(o.Err.Error())
	}
	return reason, true
}

// clip bounds a reason to what a broker keeps.
func clip(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), lease.MaxNote)], "")
}

// drive is the shell of an attempt to give a lease back.
func (h *held) drive(life context.Context, g attempt.GiveBack, call func(context.Context) error) error {
	e := attempt.Event{At: h.now()}
	for {
		a := g.Step(e)
		e = attempt.Event{Try: a.Try, Jitter: rand.Float64()}
		switch a.Do {
		case attempt.Done:
			return a.Err
		case attempt.SendGiveBack:
			e.Kind, e.Err = attempt.Reply, h.call(life, a.Until, call)
		default:
			if !pause(life, a.Until-h.now().Mono) {
				e.Kind, e.Err = attempt.Stop, context.Cause(life)
			}
		}
		e.At = h.now()
	}
}

func (h *held) call(life context.Context, until time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(life, until-h.now().Mono)
	defer cancel()
	err := call(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back.failed = err
	return err
}

// pause waits, and reports false where ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// meaning returns what the end of a give-back means for the caller: of a
// lease that was lost or had ended before, that it was.
func (h *held) meaning(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		return nil
	}
	if h.core.lost != nil {
		return lease.Errorf(lease.CodeLeaseLost, "%w; its release failed: %v", h.core.lost, err)
	}
	switch lease.CodeOf(err) {
	case lease.CodeLeaseExpired, lease.CodeLeaseRevoked, lease.CodeLeaseAbandoned:
		return lostError(h.core.token, err)
	}
	return err
}

// finish records how the give-back ended and reports whether nobody waits for
// it any more.
func (h *held) finish(err error) (late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back.done, h.back.err = true, err
	return h.back.late
}

// letGo returns the result of a give-back that nobody waits for any longer,
// and whether it is late: else it ended at this moment.
func (h *held) letGo() (err error, late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.back.done {
		return h.back.err, false
	}
	h.back.late = true
	return h.notYetLocked(), true
}

// notYetLocked is the error of a give-back that is still under way. It holds
// no error of a call: that one ran out of its time is no cancellation.
func (h *held) notYetLocked() error {
	why := h.back.failed
	if why == nil {
		why = errors.New("the broker has not answered")
	}
	err := lease.Errorf(lease.CodeOutcomeUnknown, "cannot give back lease %s on %s within %v: %v; it is tried on in the background, and the lease ends by itself when its time is over", h.core.token.LeaseID, slotsOf(h.core.token), h.keeper.cfg.ReleaseLimit, why)
	if h.core.lost != nil {
		return lease.Errorf(lease.CodeLeaseLost, "%w; then: %v", h.core.lost, err)
	}
	return err
}
