package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/berth-dev/berth/guard"
)

// The release of cancelled work has a context of its own: alive, limited, with the caller's
// values. Its error does not hide the work's, and Use waits for it.
func ExampleUse_cancelled() {
	seat := seats(1)
	seat.Timeout = time.Minute
	seat.Release = func(ctx context.Context, _ int, o guard.Outcome) error {
		_, limited := ctx.Deadline()
		fmt.Println("work", o.Kind, "because", o.Cause, "- release may run:", ctx.Err() == nil, "- limited:", limited)
		return errors.New("the broker does not answer")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := guard.Use(ctx, seat, func(ctx context.Context, _ *guard.Lease[int]) (int, error) {
		cancel(errors.New("the user pressed stop"))
		return 0, ctx.Err()
	})
	both, _ := errors.AsType[*guard.Error](err)
	fmt.Println("body:", both.Body)
	fmt.Println("release:", both.Release)
	// Output:
	// work cancelled because the user pressed stop - release may run: true - limited: true
	// body: context canceled
	// release: the broker does not answer
}

// The caller gives up while the seat is on its way. It comes all the same, and goes back.
func ExampleUse_late() {
	ctx, cancel := context.WithCancelCause(context.Background())
	seat := seats(1)
	acquire := seat.Acquire
	seat.Acquire = func(ctx context.Context) (int, error) {
		v, err := acquire(ctx)
		cancel(errors.New("the user pressed stop"))
		return v, err
	}
	_, err := guard.Use(ctx, seat, func(context.Context, *guard.Lease[int]) (int, error) {
		fmt.Println("never printed")
		return 0, nil
	})
	fmt.Println(err)
	// Output:
	// seat 1 comes back, the work cancelled
	// the user pressed stop
}

// Work that ends by runtime.Goexit, as t.FailNow does, gives its seat back and says so.
func ExampleUse_goexit() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = guard.Use(context.Background(), seats(1), func(context.Context, *guard.Lease[int]) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
		fmt.Println("never printed: the Goexit goes on")
	}()
	<-ended
	// Output: seat 1 comes back, the work exited
}

// account is a store with transactions.
type account struct{ balance, pending int }

// A transaction is committed after work that succeeded, on the caller's context, and rolled
// back after all other.
func ExampleUse_transaction() {
	a := &account{balance: 100}
	transaction := guard.Resource[*account]{
		Name:    "transaction",
		Acquire: func(context.Context) (*account, error) { a.pending = a.balance; return a, nil },
		Commit:  func(_ context.Context, a *account) error { a.balance = a.pending; return nil },
		Release: func(_ context.Context, a *account, o guard.Outcome) error {
			if o.Kind != guard.Completed {
				fmt.Println("rolled back")
			}
			a.pending = 0
			return nil
		},
	}
	pay := func(sum int) error {
		_, err := guard.Use(context.Background(), transaction, func(_ context.Context, l *guard.Lease[*account]) (int, error) {
			a, err := l.Value()
			if err != nil {
				return 0, err
			}
			if a.pending -= sum; a.pending < 0 {
				return 0, errors.New("not enough")
			}
			return a.pending, nil
		})
		return err
	}
	fmt.Println(pay(30), a.balance)
	fmt.Println(pay(500), a.balance)
	// Output:
	// <nil> 70
	// rolled back
	// not enough 70
}

// The request for a permit was sent and its answer is lost: nobody has the permit, but it may
// have been given out. Reclaim takes it back by the request's id.
func ExampleResource_reclaim() {
	given := map[string]bool{}
	permit := guard.Resource[string]{
		Name: "permit",
		Acquire: func(context.Context) (string, error) {
			given["request-7"] = true
			return "", fmt.Errorf("connection lost: %w", guard.ErrUncertain)
		},
		Release: func(_ context.Context, id string, _ guard.Outcome) error { delete(given, id); return nil },
		Reclaim: func(context.Context, error) error { delete(given, "request-7"); return nil },
	}
	_, err := guard.Use(context.Background(), permit, func(context.Context, *guard.Lease[string]) (int, error) {
		return 0, errors.New("never called")
	})
	fmt.Println(err)
	fmt.Println("still given out:", len(given))
	// Output:
	// connection lost: outcome unknown
	// still given out: 0
}

// An upload session is completed after work that succeeded; any other end removes its parts.
func ExampleUse_upload() {
	dir, err := os.MkdirTemp("", "upload")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	session := guard.Resource[string]{
		Name:    "upload",
		Acquire: func(context.Context) (string, error) { return os.MkdirTemp(dir, "session-") },
		Commit:  func(_ context.Context, parts string) error { return os.Rename(parts, filepath.Join(dir, "object")) },
		Release: func(_ context.Context, parts string, o guard.Outcome) error {
			if o.Kind == guard.Completed {
				return nil
			}
			return os.RemoveAll(parts)
		},
	}
	_, err = guard.Use(context.Background(), session, func(_ context.Context, l *guard.Lease[string]) (int, error) {
		parts, err := l.Value()
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(parts, "1"), []byte("half"), 0o600); err != nil {
			return 0, err
		}
		return 0, errors.New("part 2 was refused")
	})
	left, _ := os.ReadDir(dir)
	fmt.Println(err, "- left over:", len(left))
	// Output: part 2 was refused - left over: 0
}

// A consumer hands messages to a function from Acquire on. Its release stops it and waits until
// the function that runs has returned.
func ExampleOpen_consumer() {
	messages := make(chan string)
	type consumer struct {
		stop    chan struct{}
		running sync.WaitGroup
	}
	subscription := guard.Resource[*consumer]{
		Name: "consumer",
		Acquire: func(context.Context) (*consumer, error) {
			c := &consumer{stop: make(chan struct{})}
			c.running.Go(func() {
				for {
					select {
					case m := <-messages:
						fmt.Println("handled", m)
					case <-c.stop:
						return
					}
				}
			})
			return c, nil
		},
		Release: func(_ context.Context, c *consumer, _ guard.Outcome) error {
			close(c.stop)
			c.running.Wait()
			return nil
		},
	}
	l, err := guard.Open(context.Background(), subscription)
	if err != nil {
		fmt.Println(err)
		return
	}
	messages <- "one"
	messages <- "two"
	fmt.Println("closed:", l.Close(context.Background(), guard.Outcome{Kind: guard.Completed}))
	// Output:
	// handled one
	// handled two
	// closed: <nil>
}

// What a writer still buffers counts only once it is flushed, so flushing is the Commit, whose
// error is the work's; closing the file is the Release.
func ExampleUse_writer() {
	full := &limited{room: 4}
	writer := guard.Resource[*bufio.Writer]{
		Name:    "log",
		Acquire: func(context.Context) (*bufio.Writer, error) { return bufio.NewWriter(full), nil },
		Commit:  func(_ context.Context, w *bufio.Writer) error { return w.Flush() },
		Release: func(context.Context, *bufio.Writer, guard.Outcome) error { fmt.Println("file closed"); return nil },
	}
	n, err := guard.Use(context.Background(), writer, func(_ context.Context, l *guard.Lease[*bufio.Writer]) (int, error) {
		w, err := l.Value()
		if err != nil {
			return 0, err
		}
		return w.WriteString("more than fits")
	})
	fmt.Println("buffered", n, "bytes:", err)
	// Output:
	// file closed
	// buffered 14 bytes: no space left
}

// limited is a file on a disk that is nearly full.
type limited struct{ room int }

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.room {
		return 0, errors.New("no space left")
	}
	l.room -= len(b)
	return len(b), nil
}
