package scope_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

func TestTaskGivesItsResultToAll(t *testing.T) {
	in(t, func(t *testing.T) {
		wantNo(t, run(t, func(ctx context.Context, s *scope.Scope) error {
			task := scope.Async(ctx, s, "answer", func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 42, nil
			})
			for range 2 {
				if v, err := task.Await(ctx); v != 42 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			}
			return nil
		}))
	})
}

func TestAwaitGivesUpAndTheTaskGoesOn(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		task := scope.Async(t.Context(), s, "answer", func(context.Context) (int, error) {
			time.Sleep(time.Minute)
			return 42, nil
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errCause)
		defer cancel()
		_, err := task.Await(ctx)
		wantIs(t, err, errCause)
		if got := err.Error(); got != "scope: await answer: the caller went away" {
			t.Errorf("prints %q", got)
		}
		<-task.Done()
		if v, err := task.Await(ctx); v != 42 || err != nil { // a result wins over an ended context
			t.Errorf("got %d, %v", v, err)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestTaskErrorIsTheScopesToo(t *testing.T) {
	in(t, func(t *testing.T) {
		err := run(t, func(ctx context.Context, s *scope.Scope) error {
			mustGo(t, s, "sibling", untilDone)
			scope.Async(ctx, s, "failing", func(context.Context) (int, error) { return 7, errFirst })
			return nil
		})
		if err != errFirst {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestTaskErrorInASupervisingScopeIsItsAwaiters(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Supervise: true})
		failing := scope.Async(t.Context(), s, "failing", func(context.Context) (int, error) { return 7, errFirst })
		broken := scope.Async(t.Context(), s, "broken", func(context.Context) (int, error) { panic(errSecond) })
		if v, err := failing.Await(t.Context()); v != 7 || err != errFirst {
			t.Errorf("got %d, %v", v, err)
		}
		_, err := broken.Await(t.Context())
		if _, ok := errors.AsType[*guard.PanicError](err); !ok {
			t.Errorf("got %v, want the panic", err)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestPanickedTaskInRun(t *testing.T) {
	in(t, func(t *testing.T) {
		var task *scope.Task[int]
		_, p, _ := apart(func() {
			_ = run(t, func(ctx context.Context, s *scope.Scope) error {
				task = scope.Async(ctx, s, "broken", func(context.Context) (int, error) { panic(errFirst) })
				return nil
			})
		})
		if got, ok := p.(*scope.ChildPanic); !ok || got.Child != "broken" {
			t.Errorf("panicked with %v", p)
		}
		_, err := task.Await(t.Context())
		wantIs(t, err, errFirst)
	})
}

func TestCancelOfATaskLeavesItsSiblings(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Supervise: true})
		var cause error
		task := scope.Async(t.Context(), s, "cancelled", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return 0, cause
		})
		sibling := scope.Async(t.Context(), s, "sibling", func(ctx context.Context) (int, error) { return 1, untilDone(ctx) })
		task.Cancel(errCause)
		_, err := task.Await(t.Context())
		if err != errCause || cause != errCause {
			t.Errorf("its error is %v, its cause was %v", err, cause)
		}
		synctest.Wait()
		select {
		case <-sibling.Done():
			t.Error("the sibling ended too")
		default:
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

// A task that is not needed any more costs its siblings nothing.
func TestCancelledTaskIsNoFailureOfItsScope(t *testing.T) {
	for _, gives := range []func(ctx context.Context) error{context.Context.Err, context.Cause} {
		in(t, func(t *testing.T) {
			err := run(t, func(ctx context.Context, s *scope.Scope) error {
				task := scope.Async(ctx, s, "not needed", func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, gives(ctx)
				})
				task.Cancel(errCause)
				if _, err := task.Await(ctx); err == nil || !errors.Is(err, context.Canceled) && err != errCause {
					t.Errorf("its own error is %v", err)
				}
				return ctx.Err()
			})
			wantNo(t, err)
		})
	}
	in(t, func(t *testing.T) {
		err := run(t, func(ctx context.Context, s *scope.Scope) error {
			task := scope.Async(ctx, s, "failing", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, errFirst // not for the cancel
			})
			task.Cancel(errCause)
			return nil
		})
		wantIs(t, err, errFirst)
	})
}

func TestTaskOfAClosedScope(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		wantNo(t, s.Close(t.Context(), nil))
		task := scope.Async(t.Context(), s, "late", func(context.Context) (int, error) { return 1, nil })
		v, err := task.Await(t.Context())
		wantIs(t, err, scope.ErrClosed)
		if v != 0 {
			t.Errorf("its value is %d", v)
		}
		task.Cancel(errCause) // changes nothing
	})
}

func slowTask(ctx context.Context, s *scope.Scope, d time.Duration) *scope.Task[time.Duration] {
	return scope.Async(ctx, s, d.String(), func(ctx context.Context) (time.Duration, error) {
		time.Sleep(d)
		return d, nil
	})
}

func TestCompletionsAsTheyCome(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		wantNo(t, run(t, func(ctx context.Context, s *scope.Scope) error {
			ready := slowTask(ctx, s, 0)
			<-ready.Done()
			for i, r := range scope.Completions(ctx, slowTask(ctx, s, 2*time.Second), slowTask(ctx, s, time.Second), ready) {
				b.note("%d: %v %v", i, r.Value, r.Err)
			}
			return nil
		}))
		b.want(t, "2: 0s <nil>", "1: 1s <nil>", "0: 2s <nil>")
	})
}

func TestS28_BreakOutOfCompletions(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		s := scope.New(t.Context(), scope.Config{})
		for _, r := range scope.Completions(t.Context(), slowTask(t.Context(), s, 2*time.Second), slowTask(t.Context(), s, time.Second)) {
			if r.Value != time.Second {
				t.Errorf("first came %v", r.Value)
			}
			break
		}
		wantNo(t, s.Wait(t.Context()))
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the scope waited until %v, want 2s", took)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestCompletionsEndWithTheirContext(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		n := 0
		for range scope.Completions(ctx, slowTask(t.Context(), s, time.Second), slowTask(t.Context(), s, time.Minute)) {
			n++
		}
		if n != 1 {
			t.Errorf("%d results came, want 1", n)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}
