package scope_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

// seat is a resource that notes what happens to it.
func seat(b *book, name string, release error) guard.Resource[string] {
	return guard.Resource[string]{
		Name:    name,
		Timeout: time.Second,
		Acquire: func(context.Context) (string, error) {
			b.note("acquire %s", name)
			return name, nil
		},
		Release: func(ctx context.Context, v string, o guard.Outcome) error {
			b.note("release %s: %v", v, o.Kind)
			return release
		},
	}
}

func own(t *testing.T, s *scope.Scope, res guard.Resource[string]) *guard.Lease[string] {
	t.Helper()
	l, err := scope.Own(t.Context(), s, res)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOwnedIsReleasedAfterTheLastChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		wantNo(t, run(t, func(_ context.Context, s *scope.Scope) error {
			l := own(t, s, seat(&b, "a", nil))
			own(t, s, seat(&b, "b", nil))
			mustGo(t, s, "child", func(context.Context) error {
				time.Sleep(time.Second)
				_, err := l.Value()
				b.note("used: %v", err)
				return nil
			})
			return nil
		}))
		b.want(t, "acquire a", "acquire b", "used: <nil>", "release b: completed", "release a: completed")
	})
}

func TestOwnedHearsHowTheScopeEnded(t *testing.T) {
	for _, c := range []struct {
		kind guard.Kind
		body func(ctx context.Context, cancel func(), s *scope.Scope) error
	}{
		{guard.Completed, func(context.Context, func(), *scope.Scope) error { return nil }},
		{guard.Failed, func(context.Context, func(), *scope.Scope) error { return errBody }},
		{guard.Cancelled, func(ctx context.Context, cancel func(), _ *scope.Scope) error { cancel(); return untilDone(ctx) }},
		{guard.Completed, func(_ context.Context, _ func(), s *scope.Scope) error { s.Cancel(errCause); return nil }},
		{guard.Cancelled, func(ctx context.Context, _ func(), s *scope.Scope) error {
			defer s.Cancel(errCause)
			return s.Go(ctx, "gives up", untilDone)
		}},
		{guard.Completed, func(ctx context.Context, _ func(), s *scope.Scope) error {
			defer s.Cancel(errCause)
			return s.Go(ctx, "heartbeat", func(ctx context.Context) error { <-ctx.Done(); return nil })
		}},
		{guard.Cancelled, func(ctx context.Context, cancel func(), s *scope.Scope) error {
			cancel()
			return s.Go(ctx, "gives up", untilDone)
		}},
		{guard.Completed, func(_ context.Context, cancel func(), _ *scope.Scope) error { cancel(); return nil }},
		{guard.Panicked, func(context.Context, func(), *scope.Scope) error { panic(errBody) }},
		{guard.Panicked, func(ctx context.Context, _ func(), s *scope.Scope) error {
			return s.Go(ctx, "broken", func(context.Context) error { panic(errBody) })
		}},
		{guard.Exited, func(context.Context, func(), *scope.Scope) error { runtime.Goexit(); return nil }},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b book
			apart(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_ = scope.Run(ctx, scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
					own(t, s, seat(&b, "a", nil))
					return c.body(ctx, cancel, s)
				})
			})
			b.want(t, "acquire a", "release a: "+c.kind.String())
		})
	}
}

// TestCloseThatCutsWorkOffDoesNotCommit: a child that gives up at a Close has not failed, but
// what it worked on is not complete.
func TestCloseThatCutsWorkOffDoesNotCommit(t *testing.T) {
	for _, c := range []struct {
		child func(context.Context) error
		cause error
		want  []string
	}{
		{untilDone, nil, []string{"acquire a", "release a: cancelled, the scope is closed"}},
		{untilDone, errCause, []string{"acquire a", "release a: cancelled, the caller went away"}},
		{func(context.Context) error { return nil }, errCause, []string{"acquire a", "commit a", "release a: completed, the caller went away"}},
	} {
		in(t, func(t *testing.T) {
			var b book
			s := scope.New(t.Context(), scope.Config{})
			res := seat(&b, "a", nil)
			res.Commit = func(context.Context, string) error { b.note("commit a"); return nil }
			res.Release = func(_ context.Context, _ string, o guard.Outcome) error {
				b.note("release a: %v, %v", o.Kind, o.Cause)
				return nil
			}
			own(t, s, res)
			mustGo(t, s, "child", c.child)
			synctest.Wait()
			wantNo(t, s.Close(t.Context(), c.cause))
			b.want(t, c.want...)
		})
	}
}

func TestBR056_OneFailingReleaseStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		start := time.Now()
		slow := seat(&b, "d", nil)
		slow.Grace = time.Second
		release := slow.Release
		slow.Release = func(ctx context.Context, v string, o guard.Outcome) error {
			_ = release(ctx, v, o)
			time.Sleep(time.Minute) // ignores its context
			return nil
		}
		broken := seat(&b, "b", nil)
		broken.Release = func(_ context.Context, v string, o guard.Outcome) error {
			b.note("release b: %v", o.Kind)
			panic(errFirst)
		}
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			for _, res := range []guard.Resource[string]{seat(&b, "a", nil), broken, seat(&b, "c", nil), slow, seat(&b, "e", errSecond)} {
				own(t, s, res)
			}
			b.lines = nil
			return nil
		})
		b.want(t, "release e: completed", "release d: completed", "release c: completed", "release b: completed", "release a: completed")
		wantIs(t, err, errFirst, errSecond, guard.ErrReleaseTimeout)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want the slow one's limit of 2s", took)
		}
		time.Sleep(time.Hour) // lets the slow one end
	})
}

func TestOwnInAClosedScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		s := scope.New(t.Context(), scope.Config{})
		wantNo(t, s.Close(t.Context(), nil))
		_, err := scope.Own(t.Context(), s, seat(&b, "a", nil))
		wantIs(t, err, scope.ErrClosed)
		b.want(t)
	})
}

func TestCloseWaitsForAnAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		s := scope.New(t.Context(), scope.Config{})
		res := seat(&b, "a", nil)
		acquiring := make(chan struct{})
		res.Acquire = func(context.Context) (string, error) {
			close(acquiring)
			time.Sleep(time.Second)
			return "a", nil
		}
		go func() { _, _ = scope.Own(t.Context(), s, res) }()
		<-acquiring
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wantStill(t, s.Close(ctx, nil), "acquire a")
		wantNo(t, s.Close(t.Context(), nil))
		b.want(t, "release a: completed")
	})
}

func TestFailedAcquireOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		res := seat(&b, "a", nil)
		res.Acquire = func(context.Context) (string, error) { return "", errFirst }
		broken := seat(&b, "b", nil)
		broken.Acquire = func(context.Context) (string, error) { panic(errSecond) }
		s := scope.New(t.Context(), scope.Config{})
		if _, err := scope.Own(t.Context(), s, res); err != errFirst {
			t.Errorf("got %v", err)
		}
		if _, p, _ := apart(func() { _, _ = scope.Own(t.Context(), s, broken) }); p != errSecond {
			t.Errorf("panicked with %v", p)
		}
		wantNo(t, s.Close(t.Context(), nil))
		b.want(t)
	})
}

func TestCloseWhileReleasing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		s := scope.New(t.Context(), scope.Config{Name: "farm"})
		res := seat(&b, "a", nil)
		res.Release = func(context.Context, string, guard.Outcome) error {
			time.Sleep(500 * time.Millisecond)
			return nil
		}
		own(t, s, res)
		first := make(chan error)
		go func() { first <- s.Close(t.Context(), nil) }()
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errCause)
		defer cancel()
		err := s.Close(ctx, nil)
		wantStill(t, err)
		if got := err.Error(); got != "scope farm has not ended, it releases what it owns: the caller went away" {
			t.Errorf("prints %q", got)
		}
		wantNo(t, <-first)
	})
}

func TestOwnedCanBeGivenBackEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		wantNo(t, run(t, func(ctx context.Context, s *scope.Scope) error {
			l := own(t, s, seat(&b, "a", nil))
			if err := l.Close(ctx, guard.Outcome{Kind: guard.Completed}); err != nil {
				return err
			}
			b.note("closed")
			return nil
		}))
		b.want(t, "acquire a", "release a: completed", "closed")
		if _, err := scope.Own(t.Context(), scope.New(t.Context(), scope.Config{}), guard.Resource[string]{}); errors.Is(err, scope.ErrClosed) || err == nil {
			t.Errorf("a resource without Acquire: %v", err)
		}
	})
}

// TestNothingStartsWhileReleasing: what would be started then could use what is released.
func TestNothingStartsWhileReleasing(t *testing.T) {
	var b book
	var late error
	wantNo(t, run(t, func(_ context.Context, s *scope.Scope) error {
		res := seat(&b, "a", nil)
		res.Release = func(context.Context, string, guard.Outcome) error {
			late = s.Go(t.Context(), "late", func(context.Context) error {
				t.Error("a child ran while the scope released")
				return nil
			})
			return nil
		}
		own(t, s, res)
		return nil
	}))
	wantIs(t, late, scope.ErrClosed)
}

// TestRunWaitsForTheReleaseOfAClose: whoever closes the scope of a Run releases what it owns,
// once, and Run does not return before that.
func TestRunWaitsForTheReleaseOfAClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		var closed error
		ended := make(chan struct{})
		err := run(t, func(_ context.Context, s *scope.Scope) error {
			res := seat(&b, "a", nil)
			res.Release = func(context.Context, string, guard.Outcome) error {
				time.Sleep(time.Second / 2)
				b.note("released")
				return errFirst
			}
			own(t, s, res)
			go func() {
				defer close(ended)
				closed = s.Close(context.Background(), nil)
			}()
			synctest.Wait()
			b.note("the body ends")
			return nil
		})
		b.note("run returned")
		<-ended
		if _, one := err.(*guard.Error); !one || closed != err {
			t.Errorf("Run returned %v, Close %v; want the one error of the release", err, closed)
		}
		b.want(t, "acquire a", "the body ends", "released", "run returned")
	})
}
