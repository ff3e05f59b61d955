package guard_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
)

// during runs f on the context of a release, and then returns that context.
func during(t *testing.T, f func(ctx context.Context)) (kept context.Context) {
	t.Helper()
	d := &desk{change: limits(budget, 0)}
	d.release = func(ctx context.Context, _ guard.Outcome) error {
		kept = ctx
		f(ctx)
		return nil
	}
	_, err := guard.Use(context.WithValue(t.Context(), traceKey{}, "t1"), d.resource(), with("", nil))
	wantNo(t, err)
	return kept
}

func TestReleaseContextEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := during(t, func(ctx context.Context) {
			time.Sleep(budget - time.Nanosecond)
			wantNo(t, ctx.Err())
			time.Sleep(time.Nanosecond)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || isOpen(ctx.Done()) {
				t.Errorf("at its deadline: %v, done open %v", ctx.Err(), isOpen(ctx.Done()))
			}
		})
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("the error changed to %v", ctx.Err())
		}
	})
}

func TestReleaseContextAskedOnlyAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		during(t, func(ctx context.Context) {
			time.Sleep(2 * budget)
			wantIs(t, ctx.Err(), context.DeadlineExceeded)
		})
	})
}

func TestReleaseContextEndsWithTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uses := map[string]func(context.Context){
			"not at all": func(context.Context) {},
			"later":      func(context.Context) {},
			"by Done":    func(ctx context.Context) { ctx.Done() },
			"by Err":     func(ctx context.Context) { wantNo(t, ctx.Err()) },
			"by both":    func(ctx context.Context) { ctx.Done(); wantNo(t, ctx.Err()) },
		}
		for how, use := range uses {
			ctx := during(t, use)
			if how != "later" && !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("used %s: after the release %v, want it cancelled", how, ctx.Err())
			}
			time.Sleep(2 * budget) // a deadline that passes later changes nothing
			if !errors.Is(ctx.Err(), context.Canceled) || isOpen(ctx.Done()) || !errors.Is(context.Cause(ctx), context.Canceled) {
				t.Errorf("used %s: afterwards %v, done open %v", how, ctx.Err(), isOpen(ctx.Done()))
			}
			if ctx.Value(traceKey{}) != "t1" {
				t.Errorf("used %s: the caller's value is gone", how)
			}
		}
	})
}

// TestReleaseContextHasCheapChildren: the context package must recognise it, else each child
// costs a goroutine.
func TestReleaseContextHasCheapChildren(t *testing.T) {
	during(t, func(ctx context.Context) {
		before := runtime.NumGoroutine()
		for range 100 {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			wantNo(t, child.Err())
		}
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("100 children started %d goroutines", more)
		}
	})
}

func TestReleaseContextDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := time.Now().Add(budget)
		kept := during(t, func(ctx context.Context) {
			time.Sleep(budget / 2)
			for range 2 {
				if at, ok := ctx.Deadline(); !ok || !at.Equal(want) {
					t.Errorf("the deadline is %v, %v; want %v", at, ok, want)
				}
			}
		})
		time.Sleep(budget)
		if at, ok := kept.Deadline(); !ok || !at.Equal(want) {
			t.Errorf("after the release the deadline is %v, %v; want %v", at, ok, want)
		}
	})
}

func TestLongestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{change: limits(math.MaxInt64, 0)}
		d.release = func(ctx context.Context, _ guard.Outcome) error {
			time.Sleep(time.Hour)
			wantNo(t, ctx.Err())
			if !isOpen(ctx.Done()) {
				t.Error("the context has ended")
			}
			return nil
		}
		_, err := guard.Use(t.Context(), d.resource(), with("", nil))
		wantNo(t, err)
	})
}
