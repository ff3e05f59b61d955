package scope_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

const crashing = "SCOPE_TEST_CRASH"

// TestMain lets the test binary be the process that crashes.
func TestMain(m *testing.M) {
	if os.Getenv(crashing) == "" {
		os.Exit(m.Run())
	}
	s := scope.New(context.Background(), scope.Config{})
	err := s.Go(context.Background(), "broken", func(context.Context) error {
		explode()
		return nil
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	select {} // nobody comes to Close
}

func TestS7_PanicInAComponentCrashes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), crashing+"=1")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
		t.Fatalf("the process ended with %v, want the exit of a crash:\n%s", err, out)
	}
	for _, want := range []string{"at the seams", "scope_test.explode"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the crash does not show %q:\n%s", want, out)
		}
	}
}

func TestS7_ContainedInAComponent(t *testing.T) {
	in(t, func(t *testing.T) {
		heard := make(chan error, 1)
		s := scope.New(t.Context(), scope.Config{Contain: true, Supervise: true, OnFailure: func(_ string, err error) { heard <- err }})
		mustGo(t, s, "broken", func(context.Context) error { panic(errFirst) })
		wantIs(t, <-heard, errFirst) // long before Close
		wantIs(t, s.Close(t.Context(), nil), errFirst)
	})
}

func TestS9_SupervisedSiblingsGoOn(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		s := scope.New(t.Context(), scope.Config{Supervise: true, OnFailure: func(child string, err error) { b.note("%s: %v", child, err) }})
		mustGo(t, s, "failing", fails(errFirst))
		mustGo(t, s, "sibling", func(ctx context.Context) error {
			time.Sleep(time.Second)
			b.note("sibling's context: %v", ctx.Err())
			return nil
		})
		wantNo(t, s.Wait(t.Context()))
		if err := s.Close(t.Context(), nil); err != errFirst {
			t.Errorf("Close returned %v", err)
		}
		b.want(t, "failing: the first failed", "sibling's context: <nil>")
	})
}

// The children's context must never be found open when the scope's own has ended. Real
// threads: the two ends follow each other at once.
func TestS10_ChildrenEndBeforeTheScope(t *testing.T) {
	for range 2000 {
		s := scope.New(t.Context(), scope.Config{})
		var children context.Context
		started := make(chan struct{})
		own := s.Context()
		mustGo(t, s, "probe", func(ctx context.Context) error {
			children = ctx
			close(started)
			for own.Err() == nil {
				runtime.Gosched()
			}
			if ctx.Err() == nil {
				return errors.New("the scope's own context ended before the children's")
			}
			return nil
		})
		<-started
		wantNo(t, s.Close(t.Context(), errCause))
		if context.Cause(children) != errCause || context.Cause(own) != errCause {
			t.Fatalf("causes are %v and %v, want that of Close", context.Cause(children), context.Cause(own))
		}
	}
}

func TestOwnContextOutlivesAFailure(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		mustGo(t, s, "failing", fails(errFirst))
		wantNo(t, s.Wait(t.Context()))
		if err := s.Context().Err(); err != nil {
			t.Errorf("the scope's own context has ended with %v", err)
		}
		wantIs(t, s.Go(t.Context(), "late", fails(nil)), scope.ErrClosed, errFirst)
		if err := s.Close(t.Context(), errCause); err != errFirst {
			t.Errorf("Close returned %v", err)
		}
		if got := context.Cause(s.Context()); got != errFirst {
			t.Errorf("its cause is %v, want the first one", got)
		}
	})
}

func TestS11_CloseByMany(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		mustGo(t, s, "slow", func(context.Context) error {
			time.Sleep(time.Second)
			return errFirst
		})
		var together sync.WaitGroup
		for range 10 {
			together.Go(func() {
				if err := s.Close(t.Context(), nil); err != errFirst {
					t.Errorf("Close returned %v", err)
				}
			})
		}
		together.Wait()
		if err := s.Close(t.Context(), errCause); err != errFirst {
			t.Errorf("a later Close returned %v", err)
		}
	})
}

func TestS11_CloseFromInside(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		inside := make(chan error, 2)
		mustGo(t, s, "child", func(ctx context.Context) error {
			deeper, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			inside <- s.Wait(deeper)
			inside <- s.Close(deeper, errCause)
			return nil
		})
		wantIs(t, <-inside, scope.ErrInside)
		wantIs(t, <-inside, scope.ErrInside)
		wantNo(t, s.Close(t.Context(), nil))
		if got := context.Cause(s.Context()); got != errCause {
			t.Errorf("the cause is %v, want that of the Close from inside", got)
		}
	})
}

func TestS11_CloseOfAnOuterScopeFromInside(t *testing.T) {
	in(t, func(t *testing.T) {
		outer := scope.New(t.Context(), scope.Config{Name: "outer"})
		got := make(chan error, 1)
		mustGo(t, outer, "middle", func(ctx context.Context) error {
			return scope.Run(ctx, scope.Config{}, func(_ context.Context, inner *scope.Scope) error {
				return inner.Go(ctx, "innermost", func(ctx context.Context) error {
					got <- outer.Close(ctx, nil)
					return nil
				})
			})
		})
		wantIs(t, <-got, scope.ErrInside)
		wantNo(t, outer.Close(t.Context(), nil))
	})
}

// Real threads: starts race with the close.
func TestS12_GoRacesClose(t *testing.T) {
	for range 300 {
		s := scope.New(t.Context(), scope.Config{})
		var ran, started atomic.Int64
		var starters sync.WaitGroup
		for range 4 {
			starters.Go(func() {
				for range 20 {
					err := s.Go(t.Context(), "child", func(context.Context) error {
						ran.Add(1)
						return nil
					})
					if err == nil {
						started.Add(1)
					} else if !errors.Is(err, scope.ErrClosed) {
						t.Errorf("Go returned %v", err)
					}
				}
			})
		}
		wantNo(t, s.Close(t.Context(), nil))
		atClose := ran.Load()
		starters.Wait()
		if ran.Load() != started.Load() || atClose != ran.Load() {
			t.Fatalf("%d started, %d ran, of which %d before Close returned", started.Load(), ran.Load(), atClose)
		}
	}
}

func TestS13_CloseNamesWhoStillRuns(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Name: "farm", Ages: true})
		mustGo(t, s, "prompt", untilDone)
		mustGo(t, s, "stubborn", stubborn(time.Minute))
		mustGo(t, s, "deaf", stubborn(time.Minute))
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errCause)
		defer cancel()
		err := s.Close(ctx, nil)
		still := wantStill(t, err, "deaf", "stubborn")
		if still.Children[0].Age != 3*time.Second {
			t.Errorf("age is %v, want 3s", still.Children[0].Age)
		}
		wantIs(t, err, errCause)
		if got, want := err.Error(), "scope farm has not ended, still running: deaf for 3s, stubborn for 3s: the caller went away"; got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
		wantIs(t, s.Go(t.Context(), "late", fails(nil)), scope.ErrClosed)
		wantNo(t, s.Close(t.Context(), nil))
		if left := s.Running(); len(left) != 0 {
			t.Errorf("after Close there run %v", left)
		}
	})
}

// The list of children drops those that have ended, when they are many, and no other.
func TestS13_NamedAmongManyThatEnded(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Limit: 3})
		mustGo(t, s, "first", untilDone)
		for i := range 200 {
			mustGo(t, s, "quick", fails(nil))
			if i == 100 {
				mustGo(t, s, "middle", untilDone)
			}
		}
		synctest.Wait()
		names := map[string]int{}
		for _, c := range s.Running() {
			names[c.Name]++
		}
		if len(names) != 2 || names["first"] != 1 || names["middle"] != 1 {
			t.Errorf("there run %v", names)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestS13_FailuresSoFarAreTold(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Supervise: true})
		mustGo(t, s, "", stubborn(time.Minute))
		mustGo(t, s, "failing", fails(errFirst))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errCause)
		defer cancel()
		err := s.Close(ctx, nil)
		wantIs(t, err, errFirst, errCause)
		if got, want := err.Error(), "scope has not ended, still running: child: the caller went away; failed so far: the first failed"; got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
		wantIs(t, s.Close(t.Context(), nil), errFirst)
	})
}

func TestEndedScopeWinsOverAnEndedContext(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		wantNo(t, s.Close(t.Context(), nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			wantNo(t, s.Close(ctx, nil))
		}
	})
}

func TestS14_GrandchildDuringCancellation(t *testing.T) {
	in(t, func(t *testing.T) {
		ran, refused := false, error(nil)
		s := scope.New(t.Context(), scope.Config{})
		mustGo(t, s, "child", func(ctx context.Context) error {
			<-ctx.Done()
			refused = s.Go(ctx, "grandchild", func(context.Context) error {
				ran = true
				return nil
			})
			return nil
		})
		wantNo(t, s.Close(t.Context(), errCause))
		wantIs(t, refused, scope.ErrClosed, errCause)
		if ran {
			t.Error("the grandchild ran")
		}
	})
}

func TestS14_GrandchildOfACancelledCallerIsJoined(t *testing.T) {
	in(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := scope.New(ctx, scope.Config{})
		var seen error
		mustGo(t, s, "child", func(ctx context.Context) error {
			<-ctx.Done()
			return s.Go(ctx, "grandchild", func(ctx context.Context) error {
				seen = ctx.Err()
				return seen
			})
		})
		cancel()
		synctest.Wait()
		wantNo(t, s.Close(t.Context(), nil))
		wantIs(t, seen, context.Canceled) // admitted, cancelled already, and joined
	})
}

func TestS16_LimitWaitsForAPlace(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		most, now := 0, 0
		var mu sync.Mutex
		err := scope.Run(t.Context(), scope.Config{Limit: 2}, func(_ context.Context, s *scope.Scope) error {
			for range 6 {
				mustGo(t, s, "child", func(context.Context) error {
					mu.Lock()
					now++
					most = max(most, now)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					now--
					mu.Unlock()
					return nil
				})
			}
			return nil
		})
		wantNo(t, err)
		if took := time.Since(start); most != 2 || took != 3*time.Second {
			t.Errorf("%d ran at the same time, in %v; want 2 in 3s", most, took)
		}
	})
}

func TestS16_ChildWaitsForItsParentsPlace(t *testing.T) {
	in(t, func(t *testing.T) {
		err := scope.Run(t.Context(), scope.Config{Limit: 1, Name: "farm"}, func(_ context.Context, s *scope.Scope) error {
			mustGo(t, s, "parent", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errCause)
				defer cancel()
				return s.Go(ctx, "child", fails(nil))
			})
			return nil
		})
		wantIs(t, err, errCause)
		if got, want := err.Error(), "scope: start farm: child: no place within the limit of 1: the caller went away"; got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
	})
}

func TestS16_CloseEndsTheWaitForAPlace(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Limit: 1})
		mustGo(t, s, "holder", untilDone)
		waiting := make(chan error)
		go func() { waiting <- s.Go(t.Context(), "waiter", fails(nil)) }()
		synctest.Wait()
		wantNo(t, s.Close(t.Context(), nil))
		wantIs(t, <-waiting, scope.ErrClosed)
	})
}

func TestRefusedChildGivesItsPlaceBack(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Limit: 1})
		s.Cancel(errCause)
		for range 3 { // the second would wait for the place of the first
			wantIs(t, s.Go(t.Context(), "late", fails(nil)), scope.ErrClosed)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestPanickedChildGivesItsPlaceBack(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Limit: 1, Supervise: true, Contain: true})
		for range 3 {
			mustGo(t, s, "broken", func(context.Context) error { panic(errFirst) })
			mustGo(t, s, "gone", func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		}
		wantIs(t, s.Close(t.Context(), nil), errFirst, guard.ErrExited)
	})
}

func TestS29_ManyChildrenLeaveNothingBehind(t *testing.T) {
	s := scope.New(t.Context(), scope.Config{Supervise: true, Limit: 8, Keep: 3})
	before := heap()
	const n = 1_000_000
	for range n {
		mustGo(t, s, "child", fails(errFirst))
	}
	wantNo(t, s.Wait(t.Context()))
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("a million ended children keep %d bytes", grown)
	}
	all, ok := errors.AsType[*scope.Failures](s.Close(t.Context(), nil))
	if !ok || len(all.Errs) != 3 || all.More != n-3 {
		t.Fatalf("Close returned %v", all)
	}
	if got := all.Error(); got != "the first failed; the first failed; the first failed; and 999997 more" {
		t.Errorf("prints %q", got)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestKeepsSixteenErrors(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{Supervise: true})
		for range 17 {
			mustGo(t, s, "failing", fails(errFirst))
		}
		all, ok := errors.AsType[*scope.Failures](s.Close(t.Context(), nil))
		if !ok || len(all.Errs) != 16 || all.More != 1 {
			t.Errorf("Close returned %v", all)
		}
	})
}

func TestS31_LaterCancelsChangeNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		causes := make(chan error, 1)
		mustGo(t, s, "child", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			causes <- context.Cause(ctx)
			return nil
		})
		s.Cancel(errFirst)
		s.Cancel(errSecond)
		if err := s.Context().Err(); err != nil {
			t.Errorf("Cancel ended the scope's own context: %v", err)
		}
		wantNo(t, s.Close(t.Context(), errCause))
		s.Cancel(errBody)
		wantNo(t, s.Close(t.Context(), errBody))
		if got := <-causes; got != errFirst {
			t.Errorf("the child's cause is %v, want the first one", got)
		}
		if got := context.Cause(s.Context()); got != errFirst {
			t.Errorf("the scope's cause is %v, want the first one", got)
		}
	})
}

func TestCancelWithoutACause(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		s.Cancel(nil)
		wantIs(t, s.Go(t.Context(), "late", fails(nil)), scope.ErrClosed, context.Canceled)
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestWaitEndsNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		wantNo(t, s.Wait(t.Context()))
		for range 2 {
			mustGo(t, s, "child", stubborn(time.Second))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			wantStill(t, s.Wait(ctx), "child")
			cancel()
			wantNo(t, s.Wait(t.Context()))
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestContextAskedForAfterClose(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		wantNo(t, s.Close(t.Context(), errCause))
		if got := context.Cause(s.Context()); got != errCause {
			t.Errorf("its cause is %v", got)
		}
	})
}

func TestContextAskedForWhileClosing(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		mustGo(t, s, "stubborn", stubborn(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantStill(t, s.Close(ctx, errCause), "stubborn")
		if got := context.Cause(s.Context()); got != errCause {
			t.Errorf("its cause is %v", got)
		}
		wantNo(t, s.Close(t.Context(), nil))
	})
}

func TestChildMayCloseAnotherScope(t *testing.T) {
	in(t, func(t *testing.T) {
		other := scope.New(t.Context(), scope.Config{})
		mustGo(t, other, "child", untilDone)
		wantNo(t, run(t, func(ctx context.Context, s *scope.Scope) error {
			return s.Go(ctx, "closes", func(ctx context.Context) error { return other.Close(ctx, nil) })
		}))
	})
}

func TestCloseWithoutACause(t *testing.T) {
	in(t, func(t *testing.T) {
		s := scope.New(t.Context(), scope.Config{})
		var cause error
		mustGo(t, s, "child", func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		})
		wantNo(t, s.Close(t.Context(), nil))
		if cause != scope.ErrClosed {
			t.Errorf("the child's cause is %v", cause)
		}
	})
}
