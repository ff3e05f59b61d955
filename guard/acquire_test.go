package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
)

// ways are the two ways in: each acquire rule holds for both.
var ways = map[string]func(ctx context.Context, d *desk) error{
	"Use": func(ctx context.Context, d *desk) error {
		_, err := guard.Use(ctx, d.resource(), func(context.Context, *lease) (string, error) {
			d.note("body")
			return "", nil
		})
		return err
	},
	"Open": func(ctx context.Context, d *desk) error {
		l, err := guard.Open(ctx, d.resource())
		if (l == nil) != (err != nil) {
			return fmt.Errorf("Open gave lease %v and error %w", l, err)
		}
		return err
	},
}

func TestG8_CancelledBeforeAcquire(t *testing.T) {
	for name, way := range ways {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		d := &desk{}
		if err := way(ctx, d); !sameError(err, errCause) {
			t.Errorf("%s: error %v, want the cause", name, err)
		}
		d.wantBook(t)
	}
}

func TestG9_CancelledDuringAcquire(t *testing.T) {
	for name, way := range ways {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := &desk{acquire: func(context.Context) error { cancel(errCause); return nil }}
		if err := way(ctx, d); !sameError(err, errCause) {
			t.Errorf("%s: error %v, want the cause", name, err)
		}
		d.wantBook(t, "acquire", "release", "released")
		if o := d.wantOutcome(t, guard.Cancelled, errCause); !errors.Is(o.Cause, errCause) {
			t.Errorf("%s: cause %v, want the caller's", name, o.Cause)
		}
		if es := d.heard(guard.StepAcquire); len(es) != 1 || es[0].Err != nil {
			t.Errorf("%s: heard %+v, want one acquire that succeeded", name, es)
		}
	}
}

func TestG9_ReleaseErrorIsJoinedToTheCause(t *testing.T) {
	for _, way := range ways {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := &desk{
			acquire: func(context.Context) error { cancel(errCause); return nil },
			release: func(context.Context, guard.Outcome) error { return errRelease },
		}
		wantParts(t, way(ctx, d), errCause, errRelease)
	}
}

func TestG10_FailedAcquireIsNotReleased(t *testing.T) {
	errFull := errors.New("no key left")
	for name, way := range ways {
		d := &desk{
			acquire: func(context.Context) error { return errFull },
			reclaim: func(context.Context, error) error { return nil },
		}
		if err := way(t.Context(), d); !sameError(err, errFull) {
			t.Errorf("%s: error %v, want Acquire's own", name, err)
		}
		d.wantBook(t, "acquire")
		if es := d.heard(guard.StepAcquire); len(es) != 1 || !errors.Is(es[0].Err, errFull) {
			t.Errorf("%s: heard %+v, want one acquire that failed", name, es)
		}
	}
}

func TestG11_UnknownAcquireIsReclaimedOnce(t *testing.T) {
	for _, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), traceKey{}, "t1"))
			errLost := fmt.Errorf("request 7: reply lost: %w", guard.ErrUncertain)
			d := &desk{
				acquire: func(context.Context) error { cancel(errCause); return errLost },
				change:  limits(budget, 0),
			}
			d.reclaim = func(ctx context.Context, cause error) error {
				if !sameError(cause, errLost) {
					t.Errorf("Reclaim was told %v, want the acquire's error", cause)
				}
				wantDetached(t, ctx, budget)
				return errRelease
			}
			wantParts(t, way(ctx, d), errLost, errRelease)
			d.wantBook(t, "acquire", "reclaim")
			if es := d.heard(guard.StepReclaim); len(es) != 1 || !errors.Is(es[0].Err, errRelease) {
				t.Errorf("heard %+v, want one reclaim that failed", es)
			}
		})
	}
}

func TestG11_GoodReclaimLeavesTheCause(t *testing.T) {
	for name, way := range ways {
		d := &desk{
			acquire: func(context.Context) error { return guard.ErrUncertain },
			reclaim: func(context.Context, error) error { return nil },
		}
		if err := way(t.Context(), d); !sameError(err, guard.ErrUncertain) {
			t.Errorf("%s: error %v, want Acquire's own", name, err)
		}
		d.reclaim = nil
		if err := way(t.Context(), d); !sameError(err, guard.ErrUncertain) {
			t.Errorf("%s without a Reclaim: error %v, want Acquire's own", name, err)
		}
	}
}

func TestG11_ReclaimThatHangsHasTheHardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		d := &desk{
			acquire: func(context.Context) error { return guard.ErrUncertain },
			reclaim: func(context.Context, error) error { <-let; return nil },
			change:  limits(budget, time.Second),
		}
		start := time.Now()
		wantParts(t, ways["Use"](t.Context(), d), guard.ErrUncertain, guard.ErrReleaseTimeout)
		if took := time.Since(start); took != budget+time.Second {
			t.Errorf("took %v, want budget and grace", took)
		}
		close(let)
	})
}

func TestG12_PanicOfAcquireGoesOn(t *testing.T) {
	for name, way := range ways {
		d := &desk{
			acquire: func(context.Context) error { panic("no such desk") },
			reclaim: func(context.Context, error) error { return nil },
		}
		if _, p, trace := apart(func() { way(t.Context(), d) }); p != "no such desk" || !strings.Contains(trace, "TestG12") {
			t.Errorf("%s: panic %v, want Acquire's with its frames:\n%s", name, p, trace)
		}
		d.wantBook(t, "acquire")

		d.book, d.acquire = nil, func(context.Context) error { panic(fmt.Errorf("cut off: %w", guard.ErrUncertain)) }
		_, p, _ := apart(func() { way(t.Context(), d) })
		if err, _ := p.(error); !errors.Is(err, guard.ErrUncertain) {
			t.Errorf("%s: panic %v, want Acquire's", name, p)
		}
		d.wantBook(t, "acquire", "reclaim")
	}
}

func TestG12_GoexitOfAcquireGoesOn(t *testing.T) {
	for name, way := range ways {
		d := &desk{acquire: func(context.Context) error { runtime.Goexit(); return nil }}
		if returned, p, _ := apart(func() { way(t.Context(), d) }); returned || p != nil {
			t.Errorf("%s: returned %v, panic %v; want a Goexit that goes on", name, returned, p)
		}
		d.wantBook(t, "acquire")
	}
}

func TestG25_RefusedBeforeAcquire(t *testing.T) {
	bad := map[string]func(*guard.Resource[int]){
		"Acquire":         func(r *guard.Resource[int]) { r.Acquire = nil },
		"Release":         func(r *guard.Resource[int]) { r.Release = nil },
		"Timeout -1ns":    limits(-1, 0),
		"Grace -1ns":      limits(0, -1),
		"Timeout + Grace": limits(math.MaxInt64, 1),
	}
	for word, change := range bad {
		for name, way := range ways {
			d := &desk{change: change}
			if err := way(t.Context(), d); err == nil || !strings.HasPrefix(err.Error(), "guard: key not acquired: "+word) {
				t.Errorf("%s: error %v, want a refusal that names %s", name, err, word)
			}
			d.wantBook(t)
		}
	}
	d := &desk{}
	_, err := guard.Use[int, string](t.Context(), d.resource(), nil)
	if err == nil || !strings.Contains(err.Error(), "body is nil") {
		t.Errorf("error %v, want a refusal that names the body", err)
	}
	d.wantBook(t)
}

func TestG25_ZeroTimeoutIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{release: func(ctx context.Context, _ guard.Outcome) error {
			wantDetached(t, ctx, guard.DefaultTimeout)
			return nil
		}}
		wantNo(t, ways["Use"](context.WithValue(t.Context(), traceKey{}, "t1"), d))
		if guard.DefaultTimeout != 10*time.Second {
			t.Errorf("default %v, want 10 s", guard.DefaultTimeout)
		}
	})
}

// TestBR012_ObserverPanicsBetweenGrantAndBody: nothing may be lost between the two.
func TestBR012_ObserverPanicsBetweenGrantAndBody(t *testing.T) {
	for name, way := range ways {
		d := &desk{change: func(r *guard.Resource[int]) {
			hear := r.Observe
			r.Observe = func(e guard.Event) {
				if hear(e); e.Step == guard.StepAcquire {
					panic("observer")
				}
			}
		}}
		if _, p, _ := apart(func() { way(t.Context(), d) }); p != "observer" {
			t.Errorf("%s: panic %v, want the observer's", name, p)
		}
		d.wantBook(t, "acquire", "release", "released")

		d.book, d.acquire = nil, func(context.Context) error { return guard.ErrUncertain }
		d.reclaim = func(context.Context, error) error { return nil }
		if _, p, _ := apart(func() { way(t.Context(), d) }); p != "observer" {
			t.Errorf("%s: panic %v, want the observer's", name, p)
		}
		d.wantBook(t, "acquire", "reclaim")
	}
}
