package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

// Two children of one block: none outlives it, and the failure of one is the other's cause.
func ExampleRun() {
	err := scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		if err := s.Go(ctx, "profile", func(ctx context.Context) error {
			<-ctx.Done() // a call that honours its context
			fmt.Println("profile gives up:", context.Cause(ctx))
			return ctx.Err()
		}); err != nil {
			return err
		}
		return s.Go(ctx, "notices", func(context.Context) error { return errors.New("no route to notices") })
	})
	fmt.Println("dashboard:", err)
	// Output:
	// profile gives up: no route to notices
	// dashboard: no route to notices
}

// Results of different types, and a background job that ends with the body.
func ExampleRun_results() {
	err := scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		if err := s.Go(ctx, "heartbeat", func(ctx context.Context) error {
			<-ctx.Done() // beats until then
			return ctx.Err()
		}); err != nil {
			return err
		}
		name := scope.Async(ctx, s, "name", func(context.Context) (string, error) { return "harbour", nil })
		size := scope.Async(ctx, s, "size", func(context.Context) (int, error) { return 512, nil })
		n, err := name.Await(ctx)
		if err != nil {
			return err
		}
		pixels, err := size.Await(ctx)
		fmt.Println(n, pixels)
		s.Cancel(nil) // the heartbeat is not needed any more, and its end is no failure
		return err
	})
	fmt.Println(err)
	// Output:
	// harbour 512
	// <nil>
}

// One batch after the other: the body waits with a context from outside its scope.
func ExampleScope_Wait() {
	ctx := context.Background()
	err := scope.Run(ctx, scope.Config{}, func(inner context.Context, s *scope.Scope) error {
		for _, batch := range []string{"first", "second"} {
			if err := s.Go(inner, batch, func(context.Context) error { fmt.Println(batch, "batch"); return nil }); err != nil {
				return err
			}
			if err := s.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// first batch
	// second batch
	// <nil>
}

// A child that calls runtime.Goexit, as t.FailNow does, has not succeeded.
func ExampleRun_goexit() {
	err := scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		return s.Go(ctx, "check", func(context.Context) error {
			runtime.Goexit()
			return nil
		})
	})
	fmt.Println(err, errors.Is(err, guard.ErrExited))
	// Output: check: runtime.Goexit was called true
}

// A component owns its background work from New to Close.
func ExampleNew() {
	s := scope.New(context.Background(), scope.Config{Name: "thumbnails", Supervise: true})
	_ = s.Go(context.Background(), "a.png", func(ctx context.Context) error {
		<-ctx.Done()
		fmt.Println("a.png stops:", context.Cause(ctx))
		return ctx.Err() // its own context's error is no failure
	})
	fmt.Println("closed:", s.Close(context.Background(), errors.New("shutdown")))
	fmt.Println(s.Go(context.Background(), "b.png", func(context.Context) error { return nil }))
	// Output:
	// a.png stops: shutdown
	// closed: <nil>
	// scope: start thumbnails: b.png: the scope is closed: shutdown
}

// Close names who ignores the cancel, and can be asked again.
func ExampleScope_Close() {
	s := scope.New(context.Background(), scope.Config{Name: "farm"})
	release := make(chan struct{})
	_ = s.Go(context.Background(), "frame 12", func(context.Context) error {
		<-release
		return nil
	})
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	still, _ := errors.AsType[*scope.StillRunning](s.Close(impatient, nil))
	fmt.Println("still running:", still.Children[0].Name)
	close(release)
	fmt.Println(s.Close(context.Background(), nil))
	// Output:
	// still running: frame 12
	// <nil>
}

// A resource that several tasks share is released by the scope that owns them, after the last.
func ExampleOwn() {
	slot := guard.Resource[string]{
		Name:    "slot",
		Acquire: func(context.Context) (string, error) { return "gpu-3", nil },
		Release: func(_ context.Context, v string, o guard.Outcome) error {
			fmt.Println("released", v, "after work that", o.Kind)
			return nil
		},
	}
	err := scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		l, err := scope.Own(ctx, s, slot)
		if err != nil {
			return err
		}
		return s.Go(ctx, "left half", func(context.Context) error {
			v, err := l.Value()
			fmt.Println("rendering on", v)
			return err
		})
	})
	fmt.Println(err)
	// Output:
	// rendering on gpu-3
	// released gpu-3 after work that completed
	// <nil>
}

func ExampleAsync() {
	err := scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		sum := scope.Async(ctx, s, "sum", func(context.Context) (int, error) { return 1 + 2 + 3, nil })
		v, err := sum.Await(ctx)
		fmt.Println(v)
		return err
	})
	fmt.Println(err)
	// Output:
	// 6
	// <nil>
}

// Results in the order in which they come. Leaving the loop leaves the rest to their scope.
func ExampleCompletions() {
	_ = scope.Run(context.Background(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
		first := make(chan struct{})
		slow := scope.Async(ctx, s, "slow", func(context.Context) (string, error) { <-first; return "slow", nil })
		quick := scope.Async(ctx, s, "quick", func(context.Context) (string, error) { return "quick", nil })
		for i, r := range scope.Completions(ctx, slow, quick) {
			fmt.Println(i, r.Value)
			if i == 1 {
				close(first)
			}
		}
		return nil
	})
	// Output:
	// 1 quick
	// 0 slow
}

func ExampleAll() {
	square := func(n int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n * n, nil }
	}
	fmt.Println(scope.All(context.Background(), square(3), square(4)))
	// Output: [9 16] <nil>
}

func ExampleFirst() {
	fmt.Println(scope.First(context.Background(),
		func(context.Context) (string, error) { return "", errors.New("mirror 1 is down") },
		func(context.Context) (string, error) { return "from mirror 2", nil },
	))
	// Output: from mirror 2 <nil>
}

// The loser ignores its context and comes back with a connection. It is waited for, and its
// connection is closed and not lost.
func ExampleRace() {
	late := make(chan struct{})
	race := scope.Race[string]{Discard: func(_ context.Context, conn string) { fmt.Println("closed", conn) }}
	conn, err := race.Run(context.Background(),
		func(context.Context) (string, error) { defer close(late); return "the first connection", nil },
		func(context.Context) (string, error) { <-late; return "a late connection", nil },
	)
	fmt.Println("use", conn, err)
	// Output:
	// closed a late connection
	// use the first connection <nil>
}

// Hedging: the second request starts only when the first takes too long, or fails.
func ExampleRace_stagger() {
	race := scope.Race[string]{Stagger: time.Hour}
	v, err := race.Run(context.Background(),
		func(context.Context) (string, error) { return "", errors.New("refused") },
		func(context.Context) (string, error) { return "the second, at once", nil },
		func(context.Context) (string, error) { return "never started", nil },
	)
	fmt.Println(v, err)
	// Output: the second, at once <nil>
}

// Some of several results cannot be had, so none is returned: those that came are disposed of.
func ExampleGather() {
	files := scope.Gather[string]{Limit: 1, Discard: func(_ context.Context, f string) { fmt.Println("closed", f) }}
	all, err := files.Run(context.Background(),
		func(context.Context) (string, error) { return "a.exr", nil },
		func(context.Context) (string, error) { return "", errors.New("b.exr is missing") },
	)
	fmt.Println(all, err)
	// Output:
	// closed a.exr
	// [] b.exr is missing
}

// Four goroutines on threads of their own, gone after Close.
func ExampleWorkers() {
	w, err := scope.NewWorkers(context.Background(), scope.WorkerConfig{Name: "legacy", Count: 4, Queue: 16, Threads: true, Drain: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := scope.Async(context.Background(), w, "call", func(context.Context) (int, error) { return 7, nil })
	fmt.Println(call.Await(context.Background()))
	fmt.Println(w.Close(context.Background(), nil))
	// Output:
	// 7 <nil>
	// <nil>
}
