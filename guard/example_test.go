package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/guard"
)

// seats is a small real pool: a channel with one entry for each free seat.
func seats(n int) guard.Resource[int] {
	free := make(chan int, n)
	for seat := range n {
		free <- seat + 1
	}
	return guard.Resource[int]{
		Name: "seat",
		Acquire: func(ctx context.Context) (int, error) {
			select {
			case seat := <-free:
				return seat, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		},
		Release: func(_ context.Context, seat int, o guard.Outcome) error {
			fmt.Println("seat", seat, "comes back, the work", o.Kind)
			free <- seat
			return nil
		},
	}
}

func ExampleUse() {
	frames, err := guard.Use(context.Background(), seats(2), func(_ context.Context, l *guard.Lease[int]) (int, error) {
		seat, err := l.Value()
		if err != nil {
			return 0, err
		}
		fmt.Println("rendering on seat", seat)
		return 24, nil
	})
	fmt.Println(frames, err)
	// Output:
	// rendering on seat 1
	// seat 1 comes back, the work completed
	// 24 <nil>
}

// Two resources are two blocks: the inner one is given back first, and an error of either
// release is in the result.
func ExampleUse_nested() {
	ctx := context.Background()
	licence := guard.Resource[string]{
		Name:    "licence",
		Acquire: func(context.Context) (string, error) { return "nuke", nil },
		Release: func(context.Context, string, guard.Outcome) error {
			fmt.Println("licence comes back")
			return errors.New("the server is away")
		},
	}
	frames, err := guard.Use(ctx, licence, func(ctx context.Context, _ *guard.Lease[string]) (int, error) {
		return guard.Use(ctx, seats(1), func(context.Context, *guard.Lease[int]) (int, error) {
			return 24, nil
		})
	})
	fmt.Println(frames, err)
	fmt.Println("the work succeeded:", guard.WorkSucceeded(err))
	// Output:
	// seat 1 comes back, the work completed
	// licence comes back
	// 24 release licence: the server is away
	// the work succeeded: true
}

func ExampleOpen() {
	ctx := context.Background()
	work := func() error {
		l, err := guard.Open(ctx, seats(1))
		if err != nil {
			return err
		}
		defer l.Close(ctx, guard.Outcome{}) // does nothing after the Close below

		seat, err := l.Value()
		if err != nil {
			return err
		}
		fmt.Println("sitting on", seat)
		return l.Close(ctx, guard.Outcome{Kind: guard.Completed})
	}
	fmt.Println(work())
	// Output:
	// sitting on 1
	// seat 1 comes back, the work completed
	// <nil>
}

// staged is a file that appears under its name whole or not at all.
func staged(path string) guard.Resource[*os.File] {
	return guard.Resource[*os.File]{
		Name:    filepath.Base(path),
		Acquire: func(context.Context) (*os.File, error) { return os.CreateTemp(filepath.Dir(path), ".staged-*") },
		Commit: func(_ context.Context, f *os.File) error {
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				return err
			}
			return os.Rename(f.Name(), path)
		},
		Release: func(_ context.Context, f *os.File, o guard.Outcome) error {
			if o.Kind == guard.Completed {
				return nil // it was renamed
			}
			f.Close() // already closed when the rename failed
			return os.Remove(f.Name())
		},
	}
}

func ExampleResource_commit() {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	write := func(name string, failure error) {
		_, err := guard.Use(context.Background(), staged(filepath.Join(dir, name)),
			func(_ context.Context, l *guard.Lease[*os.File]) (int, error) {
				f, err := l.Value()
				if err != nil {
					return 0, err
				}
				n, err := f.WriteString("a whole frame")
				return n, errors.Join(err, failure)
			})
		fmt.Println(name, "error:", err)
	}
	write("good.png", nil)
	write("bad.png", errors.New("scene unreadable"))

	files, err := os.ReadDir(dir)
	fmt.Println(len(files), files[0].Name(), err)
	// Output:
	// good.png error: <nil>
	// bad.png error: scene unreadable
	// 1 good.png <nil>
}

func ExampleLease_Transfer() {
	ctx := context.Background()
	// Check the seat inside Use, where every failure gives it back, and take it out when it is fine.
	kept, err := guard.Use(ctx, seats(1), func(_ context.Context, l *guard.Lease[int]) (*guard.Lease[int], error) {
		if seat, err := l.Value(); err != nil || seat != 1 {
			return nil, fmt.Errorf("seat %d is broken: %w", seat, err)
		}
		return l.Transfer()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("still held after Use")
	fmt.Println(kept.Close(ctx, guard.Outcome{Kind: guard.Completed}))
	// Output:
	// still held after Use
	// seat 1 comes back, the work completed
	// <nil>
}

func ExampleExecute() {
	_, err := guard.Execute(context.Background(), seats(1), func(context.Context, *guard.Lease[int]) (int, error) {
		panic("out of memory")
	})
	fmt.Println(err)
	if f, ok := errors.AsType[*guard.Failure](err); ok {
		fmt.Println(f.Code())
	}
	// Output:
	// seat 1 comes back, the work panicked
	// LEASE_BODY_THROWN: panic: out of memory
	// LEASE_BODY_THROWN
}
