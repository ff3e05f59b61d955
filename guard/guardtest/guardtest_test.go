package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/guard/guardtest"
)

// probe is a test that keeps its errors and its cleanups.
type probe struct {
	testing.TB
	cleanups []func()
	errs     []string
}

func (p *probe) Helper() {}

func (p *probe) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *probe) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Sprintf(format, args...))
}

func (p *probe) want(t *testing.T, parts ...string) {
	t.Helper()
	for _, f := range p.cleanups {
		f()
	}
	if len(p.errs) != len(parts) {
		t.Fatalf("the test said %q, want %d lines", p.errs, len(parts))
	}
	for i, part := range parts {
		if !strings.Contains(p.errs[i], part) {
			t.Errorf("the test said %q, want %q", p.errs[i], part)
		}
	}
}

var seat = guard.Resource[int]{
	Acquire: func(context.Context) (int, error) { return 7, nil },
	Release: func(context.Context, int, guard.Outcome) error { return nil },
}

func TestGivenBack(t *testing.T) {
	p := &probe{}
	res := guardtest.Watch(p, seat)
	_, err := guard.Use(t.Context(), res, func(_ context.Context, l *guard.Lease[int]) (int, error) { return l.Value() })
	if err != nil {
		t.Fatal(err)
	}
	p.want(t)
}

func TestNotGivenBack(t *testing.T) {
	p := &probe{}
	res := guardtest.Watch(p, seat)
	for range 2 {
		if _, err := guard.Open(t.Context(), res); err != nil {
			t.Fatal(err)
		}
	}
	p.want(t, "7 was not given back", "TestNotGivenBack")
}

func TestFailedAcquireHoldsNothing(t *testing.T) {
	p := &probe{}
	res := seat
	res.Acquire = func(context.Context) (int, error) { return 7, errors.New("no seat") }
	if _, err := guard.Open(t.Context(), guardtest.Watch(p, res)); err == nil {
		t.Fatal("no error")
	}
	p.want(t)
}

func TestReleasedWithoutBeingHeld(t *testing.T) {
	p := &probe{}
	res := guardtest.Watch(p, seat)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := res.Release(ended, 8, guard.Outcome{}); err != nil {
		t.Fatal(err)
	}
	p.want(t, "8 is released on a context that has ended", "8 is released and is not held")
}

func TestOneOfTwoEqualValuesGivenBack(t *testing.T) {
	p := &probe{}
	res := guardtest.Watch(p, seat)
	var leases []*guard.Lease[int]
	for range 3 {
		l, err := guard.Open(t.Context(), res)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	for _, l := range leases[:2] {
		if err := l.Close(t.Context(), guard.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	p.want(t, "7 was not given back")
}

func TestReleasedOnAContextThatCannotCarryIt(t *testing.T) {
	unlimited := t.Context()
	ended, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()
	for _, ctx := range []context.Context{unlimited, ended} {
		p := &probe{}
		res := guardtest.Watch(p, seat)
		v, err := res.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Release(ctx, v, guard.Outcome{}); err != nil {
			t.Fatal(err)
		}
		p.want(t, "7 is released on a context that has ended")
	}
}
