package hold

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// A held is one lease of a Keeper, from before it is asked for until its
// release has ended. It owns the goroutine that renews the lease and the one
// that gives it back; both are children of the keeper's scope.
type held struct {
	keeper  *Keeper
	request lease.RequestID
	pool    string

	// life carries the calls to the broker; end cuts them off, because the
	// Keeper gives the lease up. beat is the part of it in which the lease is
	// renewed, and work is the context of the caller's work.
	life     context.Context
	end      context.CancelCauseFunc
	beat     context.Context
	stopBeat context.CancelFunc
	work     context.Context
	stopWork context.CancelCauseFunc

	// refusal is why the lease must not be used, and invalid that it cannot
	// be named either. Both are set before anybody else has the lease.
	refusal error
	invalid bool
	since   attempt.Instant // the answer to the acquire

	kept    chan struct{} // closed when the renewals have ended
	delayed chan struct{} // closed when it was told that the release goes on
	gone    chan struct{} // closed when the release has ended, after kept

	mu   sync.Mutex // guards the fields below
	core core
	told bool // that it was lost
	back back
}

// A back is what is known of a lease's way back.
type back struct {
	began  bool
	failed error // why the last call failed
	late   bool  // nobody waits for it any more
	done   bool
	err    error // how it ended
}

// newHeld returns what is to become a lease for the request. Its work ends
// with ctx.
func (k *Keeper) newHeld(ctx context.Context, r lease.Request) *held {
	h := &held{
		keeper: k, request: r.ID,
		kept: make(chan struct{}), delayed: make(chan struct{}), gone: make(chan struct{}),
	}
	if len(r.Claims) > 0 {
		h.pool = r.Claims[0].Pool
	}
	h.work, h.stopWork = context.WithCancelCause(ctx)
	h.life, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	h.beat, h.stopBeat = context.WithCancel(h.life)
	return h
}

func (h *held) now() attempt.Instant { return h.keeper.cfg.Clock.Now() }

func (h *held) granted() lease.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.core.token
}

// acquire asks the broker and takes what it gives. It returns an error where
// nothing is held.
func (h *held) acquire(ctx context.Context, r lease.Request) error {
	taken := false
	defer func() {
		if !taken {
			h.leave()
		}
	}()
	if err := h.keeper.enter(h); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	open := h.keeper.open
	defer context.AfterFunc(open, func() { cancel(context.Cause(open)) })()
	sent := h.now()
	token, err := h.keeper.cfg.Broker.Acquire(ctx, r)
	if err != nil {
		return h.notAcquired(err)
	}
	taken = true
	h.take(sent, token)
	return nil
}

// notAcquired returns the error of an acquire: where the Keeper was closed
// under it, that, unless more is to be said.
func (h *held) notAcquired(err error) error {
	if h.keeper.open.Err() == nil || lease.CodeOf(err) == lease.CodeOutcomeUnknown {
		return err
	}
	return lease.Errorf(lease.CodeStopped, "cannot acquire a lease for request %s: %w: %v", h.request, keeperClosed(), err)
}

// take makes the lease of an answer. One that cannot be used is refused, which
// its caller has to see to: it is given back like any other.
func (h *held) take(sent attempt.Instant, token lease.Token) {
	h.since = h.now()
	c, err := begin(h.keeper.cfg, h.since, sent, token)
	if bad := token.Check(h.request); bad != nil {
		err, h.invalid = bad, true
	} else if h.keeper.open.Err() != nil {
		err = keeperClosed()
	}
	h.mu.Lock()
	h.core = c
	h.mu.Unlock()
	if h.refusal = err; err != nil {
		close(h.kept)
		return
	}
	h.start("renew", h.keep)
}

// start runs f in the background, owned by the keeper. Once the Keeper has
// closed that, it has given the lease up as well: what f does then ends at
// once, or with the context of the release that waits for it.
func (h *held) start(what string, f func()) {
	err := h.keeper.background.Go(context.Background(), what+" "+h.request.String(), func(context.Context) error {
		f()
		return nil
	})
	if err != nil {
		f()
	}
}

// leave ends a held that never was a lease.
func (h *held) leave() {
	close(h.kept)
	h.end(nil)
	h.stopWork(nil)
	h.keeper.forget(h)
}

// update changes the core, and says so when the lease was lost by that.
func (h *held) update(change func(c *core, now attempt.Instant)) {
	h.mu.Lock()
	change(&h.core, h.now())
	lost := h.core.lost
	first := lost != nil && !h.told
	h.told = h.told || first
	h.mu.Unlock()
	if first {
		h.stopWork(lost)
		h.stopBeat()
		h.tell(Event{Kind: Lost, Err: lost})
	}
}

// trusted returns the token and the trust that is left, or why there is none.
func (h *held) trusted() (token lease.Token, left time.Duration, err error) {
	h.update(func(c *core, now attempt.Instant) {
		token, left, err = c.token, c.left(now), c.lost
	})
	return token, left, err
}

// keep renews the lease until it is lost or beat ends.
func (h *held) keep() {
	defer close(h.kept)
	answers := make(chan answer, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var p plan
		h.update(func(c *core, now attempt.Instant) { p = c.plan(now) })
		if p.over {
			break
		}
		if p.renew > 0 {
			h.start("renewal", func() { h.renew(p.renew, answers) })
		}
		timer.Reset(p.wake)
		select {
		case a := <-answers:
			h.answered(a)
		case <-timer.C:
		case <-h.beat.Done():
			h.update(func(c *core, _ attempt.Instant) { c.stop() })
		}
	}
	h.stopBeat()
	if h.renewing() {
		<-answers
	}
}

type answer struct {
	token lease.Token
	err   error
}

// renew makes one call; keep waits for its answer.
func (h *held) renew(limit time.Duration, answers chan<- answer) {
	ctx, cancel := context.WithTimeout(h.beat, limit)
	defer cancel()
	token, err := h.keeper.cfg.Broker.Renew(ctx, h.granted())
	answers <- answer{token, err}
}

func (h *held) answered(a answer) {
	var missed error
	h.update(func(c *core, now attempt.Instant) {
		missed = c.answered(now, a.token, a.err, rand.Float64())
	})
	if missed != nil {
		h.tell(Event{Kind: Missed, Err: missed})
	}
}

func (h *held) renewing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.core.open
}
