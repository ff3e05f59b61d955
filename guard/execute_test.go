package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
)

// codeOf returns the code that the error itself carries.
func codeOf(err error) string {
	if c, ok := any(err).(interface{ Code() string }); ok {
		return c.Code()
	}
	return ""
}

func TestExecuteCodes(t *testing.T) {
	type desks = func(t *testing.T, cancel context.CancelCauseFunc) *desk
	plain := func(*testing.T, context.CancelCauseFunc) *desk { return &desk{} }
	releasing := func(f func(ctx context.Context) error) desks {
		return func(*testing.T, context.CancelCauseFunc) *desk {
			return &desk{
				release: func(ctx context.Context, _ guard.Outcome) error { return f(ctx) },
				change:  limits(budget, 0),
			}
		}
	}
	acquiring := func(f func(cancel context.CancelCauseFunc) error) desks {
		return func(_ *testing.T, cancel context.CancelCauseFunc) *desk {
			return &desk{acquire: func(context.Context) error { return f(cancel) }}
		}
	}
	late := func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("desk: %w", ctx.Err()) }

	cases := []struct {
		name string
		desk desks
		body func(cancel context.CancelCauseFunc) (string, error)
		code string
		is   []error
	}{
		{"all well", plain, nil, "", nil},
		{"cancelled before", func(_ *testing.T, cancel context.CancelCauseFunc) *desk { cancel(errCause); return &desk{} },
			nil, guard.CodeAcquireCancelled, []error{errCause}},
		{"acquire cancelled", acquiring(func(cancel context.CancelCauseFunc) error { cancel(errCause); return context.Canceled }),
			nil, guard.CodeAcquireCancelled, []error{context.Canceled}},
		{"cancelled during a good acquire", acquiring(func(cancel context.CancelCauseFunc) error { cancel(errCause); return nil }),
			nil, guard.CodeAcquireCancelled, []error{errCause}},
		{"acquire panics", acquiring(func(context.CancelCauseFunc) error { panic(errBody) }),
			nil, guard.CodeAcquireThrown, []error{errBody}},
		{"acquire fails", acquiring(func(context.CancelCauseFunc) error { return errBody }),
			nil, "", []error{errBody}},
		{"body fails", plain,
			func(context.CancelCauseFunc) (string, error) { return "", errBody }, "", []error{errBody}},
		{"body cancelled", plain,
			func(cancel context.CancelCauseFunc) (string, error) { cancel(errCause); return "", context.Canceled },
			guard.CodeBodyCancelled, []error{context.Canceled}},
		{"body panics", plain,
			func(context.CancelCauseFunc) (string, error) { panic(errBody) }, guard.CodeBodyThrown, []error{errBody}},
		{"release fails", releasing(func(context.Context) error { return errRelease }),
			nil, "", []error{errRelease}},
		{"release late", releasing(late), nil, guard.CodeCleanupTimeout, []error{context.DeadlineExceeded}},
		{"release panics", releasing(func(context.Context) error { panic(errRelease) }),
			nil, guard.CodeCleanupThrown, []error{errRelease}},
		{"foreign deadline in release", releasing(func(context.Context) error { return context.DeadlineExceeded }),
			nil, "", []error{context.DeadlineExceeded}},
		{"body and release fail", releasing(func(context.Context) error { return errRelease }),
			func(context.CancelCauseFunc) (string, error) { return "", errBody },
			guard.CodeBodyAndCleanupFailed, []error{errBody, errRelease}},
		{"commit panics", func(*testing.T, context.CancelCauseFunc) *desk {
			return &desk{commit: func(context.Context) error { panic(errCommit) }}
		}, nil, guard.CodeBodyThrown, []error{errCommit}},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			d := c.desk(t, cancel)
			v, err := guard.Execute(ctx, d.resource(), func(context.Context, *lease) (string, error) {
				if c.body != nil {
					return c.body(cancel)
				}
				return "done", nil
			})
			if codeOf(err) != c.code || (err == nil) != (c.is == nil) {
				t.Errorf("%s: error %v with code %q, want code %q", c.name, err, codeOf(err), c.code)
			}
			for _, is := range c.is {
				if !errors.Is(err, is) {
					t.Errorf("%s: error %v does not hold %v", c.name, err, is)
				}
			}
			completed := len(d.outcomes) == 1 && d.outcomes[0].Kind == guard.Completed
			if completed && v != "done" {
				t.Errorf("%s: value %q, want the body's", c.name, v)
			}
			if want := min(d.next, 1); len(d.outcomes) != want {
				t.Errorf("%s: %d releases, want %d", c.name, len(d.outcomes), want)
			}
		})
	}
}

func TestExecuteTellsReleaseOfThePanic(t *testing.T) {
	d := &desk{}
	_, err := guard.Execute(t.Context(), d.resource(), bodyThatPanics("x"))
	pe, ok := errors.AsType[*guard.PanicError](err)
	if !ok || pe.Value != "x" || len(pe.Stack) == 0 {
		t.Errorf("error %v, want the panic with its stack", err)
	}
	d.wantOutcome(t, guard.Panicked, nil)
}

func TestExecuteKeepsBothCodes(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { panic(errRelease) }}
	_, err := guard.Execute(t.Context(), d.resource(), bodyThatPanics(errBody))
	e, ok := errors.AsType[*guard.Error](err)
	if !ok || codeOf(err) != guard.CodeBodyAndCleanupFailed {
		t.Fatalf("error %v, want both failures", err)
	}
	if codeOf(e.Body) != guard.CodeBodyThrown || codeOf(e.Release) != guard.CodeCleanupThrown {
		t.Errorf("codes %q and %q, want those of body and release", codeOf(e.Body), codeOf(e.Release))
	}
}

func TestExecuteHardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		d := &desk{release: func(context.Context, guard.Outcome) error { <-let; return nil }}
		d.change = limits(budget, time.Second)
		v, err := guard.Execute(t.Context(), d.resource(), with("done", nil))
		wantParts(t, err, nil, guard.ErrReleaseTimeout)
		if v != "done" || codeOf(err) != guard.CodeCleanupTimeout {
			t.Errorf("Execute gave %q, code %q; want the value and a cleanup timeout", v, codeOf(err))
		}
		close(let)
	})
}

func TestExecuteGoexitOfReleaseUnderAHardLimit(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { runtime.Goexit(); return nil }}
	d.change = limits(budget, time.Second)
	_, err := guard.Execute(t.Context(), d.resource(), with("", nil))
	if wantIs(t, err, guard.ErrExited); codeOf(err) != guard.CodeCleanupThrown {
		t.Errorf("code %q, want a cleanup that was thrown out", codeOf(err))
	}
}

func TestExecuteGoexitGoesOn(t *testing.T) {
	d := &desk{}
	returned, p, _ := apart(func() {
		guard.Execute(t.Context(), d.resource(), func(context.Context, *lease) (string, error) {
			runtime.Goexit()
			return "", nil
		})
	})
	if returned || p != nil {
		t.Errorf("returned %v, panic %v; want a Goexit that goes on", returned, p)
	}
	d.wantOutcome(t, guard.Exited, guard.ErrExited)
}

func TestCodesAreAll(t *testing.T) {
	want := []string{
		"LEASE_ACQUIRE_CANCELLED", "LEASE_ACQUIRE_THROWN", "LEASE_BODY_CANCELLED", "LEASE_BODY_THROWN",
		"LEASE_CLEANUP_TIMEOUT", "LEASE_CLEANUP_THROWN", "LEASE_BODY_AND_CLEANUP_FAILED",
	}
	if got := guard.Codes(); !slices.Equal(got, want) {
		t.Errorf("codes %q, want %q", got, want)
	}
}
