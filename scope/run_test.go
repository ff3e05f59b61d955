package scope_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

func TestS1_RunWithoutChildren(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		wantNo(t, run(t, func(context.Context, *scope.Scope) error { return nil }))
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestRunWaitsForChildren(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		wantNo(t, run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "slow", func(ctx context.Context) error {
				time.Sleep(time.Second)
				return s.Go(ctx, "grandchild", stubborn(time.Second)) // after the body has ended
			})
			return nil
		}))
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want 2s", took)
		}
	})
}

func TestS2_FailureIsTheSiblingsCause(t *testing.T) {
	in(t, func(t *testing.T) {
		var cause error
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "sibling", func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			})
			mustGo(t, s, "failing", fails(errFirst))
			return nil
		})
		if err != errFirst || cause != errFirst {
			t.Errorf("Run returned %v, the sibling's cause was %v, want %v for both", err, cause, errFirst)
		}
	})
}

func TestS2_BodyGivesUpToo(t *testing.T) {
	in(t, func(t *testing.T) {
		err := run(t, func(ctx context.Context, s *scope.Scope) error {
			mustGo(t, s, "failing", fails(errFirst))
			<-ctx.Done()
			return s.Go(ctx, "late", fails(errSecond)) // refused with the cause, which is no failure
		})
		if err != errFirst {
			t.Errorf("Run returned %v, want %v", err, errFirst)
		}
	})
}

func TestS3_TwoFailuresAtOnce(t *testing.T) {
	in(t, func(t *testing.T) {
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "first", func(context.Context) error {
				time.Sleep(time.Second)
				return errFirst
			})
			mustGo(t, s, "second", func(ctx context.Context) error {
				<-ctx.Done() // the first one's failure
				return errSecond
			})
			return nil
		})
		all, ok := errors.AsType[*scope.Failures](err)
		if !ok || len(all.Errs) != 2 || all.Errs[0] != errFirst || all.Errs[1] != errSecond || all.More != 0 {
			t.Fatalf("Run returned %v, want both, the first one first", err)
		}
		if got := err.Error(); got != "the first failed; the second failed" {
			t.Errorf("prints %q", got)
		}
		wantIs(t, err, errFirst, errSecond)
	})
}

func TestS4_BodyFailsBeforeItsChildren(t *testing.T) {
	in(t, func(t *testing.T) {
		var cause error
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "child", func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				time.Sleep(time.Second)
				return nil
			})
			return errBody
		})
		if err != errBody || cause != errBody {
			t.Errorf("Run returned %v, the child's cause was %v", err, cause)
		}
	})
}

func TestS4_BodyFailsInASupervisingScope(t *testing.T) {
	in(t, func(t *testing.T) {
		err := scope.Run(t.Context(), scope.Config{Supervise: true}, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "child", untilDone)
			return errBody
		})
		if err != errBody {
			t.Errorf("Run returned %v", err)
		}
	})
}

func explode() { panic("at the seams") }

func TestS5_BodyPanics(t *testing.T) {
	in(t, func(t *testing.T) {
		ended := false
		returned, p, trace := apart(func() {
			_ = run(t, func(_ context.Context, s *scope.Scope) error {
				mustGo(t, s, "child", func(ctx context.Context) error {
					<-ctx.Done()
					_, ok := errors.AsType[*guard.PanicError](context.Cause(ctx))
					ended = ok
					return nil
				})
				explode()
				return nil
			})
		})
		if returned || p != "at the seams" || !ended {
			t.Errorf("returned %v, panicked with %v, child joined with the panic as cause: %v", returned, p, ended)
		}
		if !strings.Contains(trace, "scope_test.explode") {
			t.Errorf("the frames of the panic are gone:\n%s", trace)
		}
	})
}

func TestS5_BodyExits(t *testing.T) {
	in(t, func(t *testing.T) {
		var cause error
		returned, p, _ := apart(func() {
			_ = run(t, func(_ context.Context, s *scope.Scope) error {
				mustGo(t, s, "child", func(ctx context.Context) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil
				})
				runtime.Goexit()
				return nil
			})
		})
		if returned || p != nil {
			t.Errorf("returned %v, panicked with %v, want the Goexit to go on", returned, p)
		}
		wantIs(t, cause, guard.ErrExited)
	})
}

func TestS6_ChildPanicsInRun(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		var cancelled time.Duration
		var heard []string
		cfg := scope.Config{OnFailure: func(child string, err error) { heard = append(heard, child+" "+err.Error()) }}
		returned, p, _ := apart(func() {
			_ = scope.Run(t.Context(), cfg, func(_ context.Context, s *scope.Scope) error {
				mustGo(t, s, "sibling", func(ctx context.Context) error {
					<-ctx.Done()
					cancelled = time.Since(start)
					return ctx.Err()
				})
				mustGo(t, s, "broken", func(context.Context) error {
					time.Sleep(time.Second)
					explode()
					return nil
				})
				time.Sleep(time.Minute) // a body that does not look
				return nil
			})
		})
		panicked, ok := p.(*scope.ChildPanic)
		if returned || !ok {
			t.Fatalf("returned %v, panicked with %v, want a *ChildPanic", returned, p)
		}
		if panicked.Child != "broken" || panicked.Value != "at the seams" {
			t.Errorf("the panic is %q of %q", panicked.Value, panicked.Child)
		}
		if !strings.Contains(panicked.Error(), "scope_test.explode") {
			t.Errorf("the child's stack is missing:\n%v", panicked)
		}
		if cancelled != time.Second {
			t.Errorf("the sibling was cancelled after %v, want at once, after 1s", cancelled)
		}
		if len(heard) != 1 || heard[0] != "broken panic: at the seams" {
			t.Errorf("OnFailure heard %q", heard)
		}
	})
}

func TestS6_OnlyTheFirstPanicGoesOn(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		cfg := scope.Config{OnFailure: func(child string, err error) { b.note("%s: %v", child, err) }}
		_, p, _ := apart(func() {
			_ = scope.Run(t.Context(), cfg, func(_ context.Context, s *scope.Scope) error {
				mustGo(t, s, "one", func(context.Context) error { panic(1) })
				mustGo(t, s, "two", func(ctx context.Context) error {
					<-ctx.Done()
					panic(2)
				})
				return nil
			})
		})
		if got, ok := p.(*scope.ChildPanic); !ok || got.Value != 1 {
			t.Errorf("panicked with %v", p)
		}
		b.want(t, "one: panic: 1", "two: panic: 2")
	})
}

func TestS6_ContainedPanicIsAnError(t *testing.T) {
	in(t, func(t *testing.T) {
		err := scope.Run(t.Context(), scope.Config{Contain: true}, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "sibling", untilDone)
			mustGo(t, s, "broken", func(context.Context) error { panic(errFirst) })
			return nil
		})
		p, ok := errors.AsType[*guard.PanicError](err)
		if !ok || p.Value != errFirst || len(p.Stack) == 0 {
			t.Errorf("Run returned %v, want the panic as an error", err)
		}
		wantIs(t, err, errFirst)
	})
}

func TestS8_ChildExits(t *testing.T) {
	in(t, func(t *testing.T) {
		var task *scope.Task[int]
		err := scope.Run(t.Context(), scope.Config{Name: "farm"}, func(ctx context.Context, s *scope.Scope) error {
			mustGo(t, s, "sibling", untilDone)
			task = scope.Async(ctx, s, "gone", func(context.Context) (int, error) {
				runtime.Goexit()
				return 1, nil
			})
			return nil
		})
		wantIs(t, err, guard.ErrExited)
		if got := err.Error(); got != "farm: gone: runtime.Goexit was called" {
			t.Errorf("prints %q", got)
		}
		_, taskErr := task.Await(t.Context())
		wantIs(t, taskErr, guard.ErrExited)
	})
}

func TestS15_WhoseCancellationItIs(t *testing.T) {
	in(t, func(t *testing.T) {
		foreign, cancel := context.WithCancel(t.Context())
		cancel()
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "foreign", func(context.Context) error { return foreign.Err() })
			return nil
		})
		wantIs(t, err, context.Canceled)

		wantNo(t, run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "own", untilDone)
			s.Cancel(errCause)
			return nil
		}))

		err = run(t, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "other", func(ctx context.Context) error {
				<-ctx.Done()
				return context.DeadlineExceeded // not what its own context says
			})
			s.Cancel(errCause)
			return nil
		})
		wantIs(t, err, context.DeadlineExceeded)
	})
}

func TestRunOfAnEndedCaller(t *testing.T) {
	in(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := scope.Run(ctx, scope.Config{}, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "child", untilDone)
			cancel(errCause)
			return nil
		})
		if err != errCause {
			t.Errorf("Run returned %v, want the caller's cause", err)
		}
		err = scope.Run(ctx, scope.Config{}, func(ctx context.Context, s *scope.Scope) error { return nil })
		wantNo(t, err) // nothing was cut short
	})
}

func TestBodyGivesUpAfterItsOwnCancel(t *testing.T) {
	in(t, func(t *testing.T) {
		err := run(t, func(ctx context.Context, s *scope.Scope) error {
			s.Cancel(errCause)
			return ctx.Err()
		})
		wantIs(t, err, context.Canceled) // never nil for a body that said it failed
	})
}

func TestS30_ContextAfterRun(t *testing.T) {
	in(t, func(t *testing.T) {
		var kept, own context.Context
		wantNo(t, run(t, func(ctx context.Context, s *scope.Scope) error {
			kept, own = ctx, s.Context()
			return nil
		}))
		for _, ctx := range []context.Context{kept, own} {
			if ctx.Err() == nil || context.Cause(ctx) != scope.ErrClosed {
				t.Errorf("after Run the context's error is %v, its cause %v", ctx.Err(), context.Cause(ctx))
			}
		}
	})
}

func TestStartAfterRun(t *testing.T) {
	in(t, func(t *testing.T) {
		var kept *scope.Scope
		wantNo(t, run(t, func(_ context.Context, s *scope.Scope) error {
			kept = s
			return nil
		}))
		err := kept.Go(t.Context(), "late", fails(errFirst))
		wantIs(t, err, scope.ErrClosed)
		if got := err.Error(); got != "scope: start late: the scope is closed" {
			t.Errorf("prints %q", got)
		}
		wantNo(t, kept.Close(t.Context(), nil))
		synctest.Wait()
	})
}

// TestRefusalOfAScopeThatFailed is one, whichever context its starter gave for the wait.
func TestRefusalOfAScopeThatFailed(t *testing.T) {
	for range 50 { // either case of a select may come first
		in(t, func(t *testing.T) {
			err := scope.Run(t.Context(), scope.Config{Limit: 1}, func(ctx context.Context, s *scope.Scope) error {
				mustGo(t, s, "first", func(context.Context) error { time.Sleep(time.Second); return errFirst })
				err := s.Go(ctx, "second", func(context.Context) error { return nil })
				wantIs(t, err, scope.ErrClosed, errFirst)
				return nil
			})
			wantIs(t, err, errFirst)
		})
	}
}
