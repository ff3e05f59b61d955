package hold

import (
	"context"
	"errors"
	"sync"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/scope"
)

// A Keeper holds leases of one broker. It starts with [New] and is ended by
// [Keeper.Close]. All methods may be called from any goroutine.
type Keeper struct {
	cfg Config
	// open ends when Close begins: no lease is asked for any more.
	open context.Context
	shut context.CancelCauseFunc
	// background owns the goroutines that renew leases and give them back.
	background *scope.Scope

	mu     sync.Mutex // guards the fields below
	closed bool
	leases map[*held]struct{} // asked for, held, or on the way back
	empty  chan struct{}      // made by a Close that waits; closed when there are none
}

// New returns a Keeper, or an error that names the field of cfg that is wrong.
func New(cfg Config) (*Keeper, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		cfg: cfg, leases: map[*held]struct{}{},
		background: scope.New(context.Background(), scope.Config{Name: "keeper", Ages: true}),
	}
	k.open, k.shut = context.WithCancelCause(context.Background())
	return k, nil
}

// With acquires a lease, runs work under it on the caller's goroutine, and
// gives it back on every way out of work; see [guard.Use] for what becomes of
// errors, panics and Goexit, and [Lease.Release] for the release. It blocks
// for as long as the acquire, the work and the release take. An empty r.ID
// means a fresh one.
//
// The context of work is ctx, which also ends when the lease is lost. When
// work returns only that its context was cancelled, and that was by the loss,
// the error of With says so. A work that may still run when it returns says
// so with [StillRunning].
func (k *Keeper) With(ctx context.Context, r lease.Request, work func(ctx context.Context, l *Lease) error) error {
	if work == nil {
		return errors.New("cannot hold a lease: the work is nil")
	}
	r = withID(r)
	h := k.newHeld(ctx, r)
	_, err := guard.Use(ctx, h.resource(r), func(ctx context.Context, g *guard.Lease[*held]) (none struct{}, err error) {
		if h.refusal != nil {
			return none, h.refusal
		}
		return none, h.cause(ctx, work(h.work, &Lease{held: h, guard: g}))
	})
	return err
}

// Acquire acquires a lease for a hold that is no block of code: whoever has
// it must call Release or Abandon. ctx bounds only the acquire. A lease that
// is dropped without is abandoned, some time after the garbage collector has
// seen it. An empty r.ID means a fresh one.
func (k *Keeper) Acquire(ctx context.Context, r lease.Request) (*Lease, error) {
	r = withID(r)
	h := k.newHeld(context.WithoutCancel(ctx), r)
	g, err := guard.Open(ctx, h.resource(r))
	if err != nil {
		return nil, err
	}
	if h.refusal != nil {
		return nil, refused(h.refusal, g.Close(ctx, guard.Outcome{Kind: guard.Failed, Err: h.refusal}))
	}
	return &Lease{held: h, guard: g}, nil
}

// refused joins why a lease was refused with how its return went.
func refused(refusal, back error) error {
	var failed *guard.Error
	if errors.As(back, &failed) {
		return &guard.Error{Name: failed.Name, Body: refusal, Release: failed.Release}
	}
	return refusal
}

func withID(r lease.Request) lease.Request {
	if r.ID == "" {
		r.ID = lease.NewRequestID()
	}
	return r
}

// resource is the lease as a guard sees it.
func (h *held) resource(r lease.Request) guard.Resource[*held] {
	return guard.Resource[*held]{
		Name:    "the lease of request " + r.ID.String(),
		Acquire: func(ctx context.Context) (*held, error) { return h, h.acquire(ctx, r) },
		Release: h.release,
		Timeout: h.keeper.cfg.ReleaseLimit,
		Observe: h.observe,
	}
}

// observe turns the guard's events into ours.
func (h *held) observe(e guard.Event) {
	switch e.Step {
	case guard.StepAcquire:
		about := Event{Kind: Acquired, Err: e.Err, Took: e.Took}
		if about.Err == nil {
			about.Err = h.refusal
		}
		if about.Err != nil {
			about.Kind = Refused
		}
		h.tell(about)
	case guard.StepRelease:
		if !h.late() {
			h.tell(Event{Kind: Released, Err: e.Err, Took: e.Took, Held: e.Held})
		}
	case guard.StepLeak:
		h.leaked(e.Err)
	}
}

func (h *held) late() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.back.late
}

// leaked gives up a lease that nobody can release any more. Its work may run.
func (h *held) leaked(err error) {
	h.begin()
	h.stopWork(closedError(h.granted()))
	h.letGo()
	h.tell(Event{Kind: Leaked, Err: err})
	close(h.delayed)
	h.start("give back", func() {
		h.giveBack(h.life, h.now(), guard.Outcome{Err: errors.New("it was dropped without a release")})
	})
}

// cause returns the error of work that ended with err: where it was cancelled
// by the loss of the lease and by nothing else, the loss.
func (h *held) cause(ctx context.Context, err error) error {
	_, _, lost := h.trusted()
	if lost == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) || errors.Is(err, lost) {
		return err
	}
	return lease.Errorf(lease.CodeLeaseLost, "%w; its work ended: %v", lost, err)
}
