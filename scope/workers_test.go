package scope_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

func workers(t *testing.T, cfg scope.WorkerConfig) *scope.Workers {
	t.Helper()
	w, err := scope.NewWorkers(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestS17_WorkersOutliveTheirTasks(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Name: "hands", Count: 4, Queue: 4})
		for range 4 {
			broken := scope.Async(t.Context(), w, "broken", func(context.Context) (int, error) { panic(errFirst) })
			gone := scope.Async(t.Context(), w, "gone", func(context.Context) (int, error) {
				runtime.Goexit()
				return 1, nil
			})
			_, err := broken.Await(t.Context())
			p, ok := errors.AsType[*guard.PanicError](err)
			if !ok || p.Value != errFirst {
				t.Errorf("the panicked task's error is %v", err)
			}
			_, err = gone.Await(t.Context())
			wantIs(t, err, guard.ErrExited)
			if got := err.Error(); got != "hands: gone: runtime.Goexit was called" {
				t.Errorf("prints %q", got)
			}
		}
		start := time.Now()
		var jobs []*scope.Task[int]
		for range 8 {
			jobs = append(jobs, scope.Async(t.Context(), w, "job", func(context.Context) (int, error) { return 0, stubborn(time.Second)(t.Context()) }))
		}
		synctest.Wait()
		if busy := w.Running(); len(busy) != 4 || busy[0].Name != "job" {
			t.Errorf("there run %v, want 4 jobs", busy)
		}
		for _, job := range jobs {
			<-job.Done()
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("8 jobs of 1s took %v; with 4 workers it is 2s", took)
		}
		synctest.Wait()
		if idle := w.Running(); len(idle) != 0 {
			t.Errorf("there run %v, want none", idle)
		}
		wantNo(t, w.Close(t.Context(), nil)) // the tasks' errors were their awaiters'
	})
}

func TestS17_ErrorsOfPlainFunctionsAreTheWorkers(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		w := workers(t, scope.WorkerConfig{
			Count: 1, Queue: 10, Contain: true, Keep: 2,
			OnFailure: func(name string, err error) { b.note("%s: %v", name, err) },
		})
		mustGo(t, w, "failing", fails(errFirst))
		mustGo(t, w, "broken", func(context.Context) error { panic(errSecond) })
		mustGo(t, w, "gone", func(context.Context) error { runtime.Goexit(); return nil })
		synctest.Wait()
		err := w.Close(t.Context(), nil)
		wantIs(t, err, errFirst, errSecond)
		if all, ok := errors.AsType[*scope.Failures](err); !ok || len(all.Errs) != 2 || all.More != 1 {
			t.Errorf("Close returned %v", err)
		}
		b.want(t, "failing: the first failed", "broken: panic: the second failed", "gone: gone: runtime.Goexit was called")
	})
}

func TestS18_CloseRefusesWhatIsQueued(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Count: 1, Queue: 2})
		var cause error
		mustGo(t, w, "running", func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		synctest.Wait()
		ran := false
		queued := scope.Async(t.Context(), w, "queued", func(context.Context) (int, error) {
			ran = true
			return 1, nil
		})
		wantNo(t, w.Close(t.Context(), errCause))
		_, err := queued.Await(t.Context())
		wantIs(t, err, scope.ErrClosed, errCause)
		if ran || cause != errCause {
			t.Errorf("the queued task ran: %v; the running one's cause: %v", ran, cause)
		}
		wantIs(t, w.Go(t.Context(), "late", fails(nil)), scope.ErrClosed)
		wantNo(t, w.Close(t.Context(), nil))
	})
}

func TestS18_CloseWithDrainRunsWhatIsQueued(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Count: 1, Queue: 5, Drain: true})
		ended := 0
		for range 5 {
			mustGo(t, w, "job", func(ctx context.Context) error {
				time.Sleep(time.Second)
				ended++
				return ctx.Err()
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := w.Close(ctx, nil)
		wantStill(t, err, "job")
		if got := err.Error(); got != "scope has not ended, still running: job: context deadline exceeded" {
			t.Errorf("prints %q", got)
		}
		wantIs(t, w.Go(t.Context(), "late", fails(nil)), scope.ErrClosed)
		wantNo(t, w.Close(t.Context(), nil))
		if ended != 5 {
			t.Errorf("%d jobs ended, want all 5", ended)
		}
	})
}

func TestS18_CancelEndsADrain(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Count: 1, Queue: 5, Drain: true})
		mustGo(t, w, "running", untilDone)
		synctest.Wait()
		queued := scope.Async(t.Context(), w, "queued", func(context.Context) (int, error) { return 1, nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantStill(t, w.Close(ctx, nil), "running")
		w.Cancel(errCause)
		wantNo(t, w.Close(t.Context(), nil))
		_, err := queued.Await(t.Context())
		wantIs(t, err, scope.ErrClosed, errCause)
	})
}

func TestS18_EndOfTheCallerRefusesWhatIsQueued(t *testing.T) {
	in(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		w, err := scope.NewWorkers(ctx, scope.WorkerConfig{Count: 1, Queue: 1})
		wantNo(t, err)
		mustGo(t, w, "running", untilDone)
		synctest.Wait()
		queued := scope.Async(t.Context(), w, "queued", func(context.Context) (int, error) { return 1, nil })
		cancel(errCause)
		_, err = queued.Await(t.Context())
		wantIs(t, err, scope.ErrClosed, errCause)
		wantIs(t, w.Go(t.Context(), "late", fails(nil)), scope.ErrClosed, errCause)
		wantNo(t, w.Close(t.Context(), nil))
	})
}

func TestS19_SenselessWorkersAreRefused(t *testing.T) {
	for _, cfg := range []scope.WorkerConfig{{}, {Count: -1}, {Count: 1, Queue: -1}} {
		if w, err := scope.NewWorkers(t.Context(), cfg); err == nil || w != nil {
			t.Errorf("%+v: got %v, %v", cfg, w, err)
		}
	}
	_, err := scope.NewWorkers(t.Context(), scope.WorkerConfig{Name: "hands"})
	if got := err.Error(); got != "scope: start hands: Count is 0; it must be at least 1" {
		t.Errorf("prints %q", got)
	}
}

func TestS20_CloseWakesWhoWaitsForRoom(t *testing.T) {
	for _, drain := range []bool{false, true} {
		in(t, func(t *testing.T) {
			w := workers(t, scope.WorkerConfig{Count: 1, Drain: drain})
			release := make(chan struct{})
			mustGo(t, w, "running", func(context.Context) error {
				<-release
				return nil
			})
			waiting := make(chan error)
			go func() { waiting <- w.Go(t.Context(), "waiter", fails(nil)) }()
			synctest.Wait()
			closed := make(chan error)
			go func() { closed <- w.Close(t.Context(), nil) }()
			wantIs(t, <-waiting, scope.ErrClosed)
			close(release)
			wantNo(t, <-closed)
		})
	}
}

func TestWaitForRoomEndsWithItsContext(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Count: 1})
		mustGo(t, w, "running", untilDone)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errCause)
		defer cancel()
		err := w.Go(ctx, "waiter", fails(nil))
		wantIs(t, err, errCause)
		if got := err.Error(); got != "scope: start waiter: no room in the queue of 0: the caller went away" {
			t.Errorf("prints %q", got)
		}
		wantNo(t, w.Close(t.Context(), nil))
	})
}

func TestWorkersCloseFromInside(t *testing.T) {
	in(t, func(t *testing.T) {
		w := workers(t, scope.WorkerConfig{Count: 1})
		got := make(chan error, 1)
		mustGo(t, w, "job", func(ctx context.Context) error {
			got <- w.Close(ctx, nil)
			return nil
		})
		wantIs(t, <-got, scope.ErrInside)
		wantNo(t, w.Close(t.Context(), nil))
	})
}

// Real threads: the operating system counts them. In many rounds, for which threads the
// runtime has idle, its main one too, is a matter of chance.
func TestWorkersOnTheirOwnThreads(t *testing.T) {
	for range 50 {
		workersOnTheirOwnThreads(t)
	}
}

func workersOnTheirOwnThreads(t *testing.T) {
	t.Helper()
	const n = 6
	ids := make(chan int, n)
	w := workers(t, scope.WorkerConfig{Count: n, Threads: true})
	all := make(chan struct{})
	for range n {
		mustGo(t, w, "job", func(context.Context) error {
			ids <- threadID()
			<-all
			return nil
		})
	}
	seen := map[int]bool{}
	for range n {
		seen[<-ids] = true
	}
	close(all)
	if len(seen) != n {
		t.Errorf("%d workers ran on %d threads", n, len(seen))
	}
	gone := scope.Async(t.Context(), w, "gone", func(context.Context) (int, error) {
		runtime.Goexit()
		return 0, nil
	})
	<-gone.Done()
	wantNo(t, w.Close(t.Context(), nil))
	for id := range seen {
		if id == os.Getpid() {
			t.Fatal("a worker ran on the main thread, which never ends")
		}
		for alive(id) { // a thread ends just after its goroutine
			runtime.Gosched()
		}
	}
}

// threadID returns the thread that the caller runs on, where the system tells.
func threadID() int {
	link, err := os.Readlink("/proc/thread-self")
	if err != nil {
		return int(fakeThreads.Add(1))
	}
	id, _ := strconv.Atoi(link[strings.LastIndex(link, "/")+1:])
	return id
}

var fakeThreads atomic.Int64

func alive(id int) bool {
	_, err := os.Stat("/proc/self/task/" + strconv.Itoa(id))
	return err == nil
}

// Real threads: hands in from many, while it closes.
func TestEveryFunctionRunsOrIsRefused(t *testing.T) {
	for _, drain := range []bool{false, true} {
		for range 100 {
			w := workers(t, scope.WorkerConfig{Count: 3, Queue: 2, Drain: drain})
			taken, settled := make(chan *scope.Task[int], 200), 0
			var handers = scope.New(t.Context(), scope.Config{})
			for range 4 {
				mustGo(t, handers, "hander", func(ctx context.Context) error {
					for range 50 {
						taken <- scope.Async(ctx, w, "job", func(context.Context) (int, error) { return 1, nil })
					}
					return nil
				})
			}
			wantNo(t, w.Close(t.Context(), nil))
			wantNo(t, handers.Wait(t.Context()))
			wantNo(t, handers.Close(t.Context(), nil))
			close(taken)
			for task := range taken {
				if v, err := task.Await(t.Context()); v == 1 != (err == nil) || err != nil && !errors.Is(err, scope.ErrClosed) {
					t.Errorf("a task ended with %d, %v", v, err)
				}
				settled++
			}
			if settled != 200 {
				t.Fatalf("%d of 200 tasks ended", settled)
			}
		}
	}
}

// TestRunningFollowsTheWorker from one function to the next, and to one without a name.
func TestRunningFollowsTheWorker(t *testing.T) {
	in(t, func(t *testing.T) {
		w, err := scope.NewWorkers(t.Context(), scope.WorkerConfig{Count: 1, Queue: 3})
		wantNo(t, err)
		for _, name := range []string{"a", "b", ""} {
			wantNo(t, w.Go(t.Context(), name, stubborn(time.Second)))
		}
		for _, name := range []string{"a", "b", ""} {
			synctest.Wait()
			if now := w.Running(); len(now) != 1 || now[0].Name != name {
				t.Errorf("running: %v, want %q", now, name)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if now := w.Running(); len(now) != 0 {
			t.Errorf("running: %v, want nothing", now)
		}
		wantNo(t, w.Go(t.Context(), "", stubborn(time.Second)))
		synctest.Wait()
		if now := w.Running(); len(now) != 1 {
			t.Errorf("running: %v, want one without a name", now)
		}
		wantNo(t, w.Close(t.Context(), nil))
	})
}

// TestCancelRefusesAllThatIsQueued by one worker.
func TestCancelRefusesAllThatIsQueued(t *testing.T) {
	in(t, func(t *testing.T) {
		w, err := scope.NewWorkers(t.Context(), scope.WorkerConfig{Count: 1, Queue: 3})
		wantNo(t, err)
		wantNo(t, w.Go(t.Context(), "first", stubborn(time.Second)))
		synctest.Wait()
		var tasks []*scope.Task[int]
		for range 3 {
			tasks = append(tasks, scope.Async(t.Context(), w, "queued", func(context.Context) (int, error) { return 1, nil }))
		}
		w.Cancel(errCause)
		for _, task := range tasks {
			_, err := task.Await(t.Context())
			wantIs(t, err, scope.ErrClosed, errCause)
		}
		wantNo(t, w.Close(t.Context(), nil))
	})
}

// TestRefusedFunctionsAreTold of: they were taken, and nobody awaits them.
func TestRefusedFunctionsAreTold(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		w, err := scope.NewWorkers(t.Context(), scope.WorkerConfig{Count: 1, Queue: 3, OnFailure: func(name string, err error) {
			wantIs(t, err, scope.ErrClosed, errCause)
			b.note("%s", name)
		}})
		wantNo(t, err)
		wantNo(t, w.Go(t.Context(), "runs", stubborn(time.Second)))
		synctest.Wait()
		wantNo(t, w.Go(t.Context(), "a", stubborn(time.Second)))
		task := scope.Async(t.Context(), w, "awaited", func(context.Context) (int, error) { return 1, nil })
		wantNo(t, w.Go(t.Context(), "b", stubborn(time.Second)))
		wantNo(t, w.Close(t.Context(), errCause))
		b.want(t, "a", "b")
		_, err = task.Await(t.Context())
		wantIs(t, err, scope.ErrClosed)
	})
}
