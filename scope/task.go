package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// A Starter starts children: a [Scope] or [Workers].
type Starter interface {
	start(ctx context.Context, j job) error
	supervises() bool
}

func (s *Scope) start(ctx context.Context, j job) error {
	c := &child{name: j.name, run: j.run}
	if j.awaiter != nil {
		c.part = &part{awaiter: j.awaiter}
	}
	return s.launch(ctx, c)
}

func (s *Scope) supervises() bool { return s.cfg.Supervise }

// Task is a child with a result. It starts with [Async] and ends by itself, by Cancel or with
// its scope; its result stays, and may be asked for any number of times.
type Task[T any] struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the result is set

	mu       sync.Mutex // guards the fields below
	result   Result[T]
	over     bool
	watchers []watcher
}

// Result is what a task or a racer came to.
type Result[T any] struct {
	Value T
	Err   error
}

type watcher struct {
	index int
	ended chan<- int
}

// Async starts f in where and returns its task. ctx bounds only the wait for a place. Where f
// could not be started, the task has ended with that error. The task's error, panic or Goexit
// is a failure of the scope like any other child's; in a scope that supervises, and in
// Workers, it is nothing but the task's result. A task that was cancelled by its own Cancel and
// returns that has not failed.
func Async[T any](ctx context.Context, where Starter, name string, f func(ctx context.Context) (T, error)) *Task[T] {
	t := &Task[T]{name: name, done: make(chan struct{})}
	var v T
	alone := where.supervises()
	stop, cancel := context.WithCancelCause(context.Background())
	t.cancel = cancel
	var given error // up by the task because it was cancelled itself: no failure of the scope
	err := where.start(ctx, job{
		name: name,
		run: func(ctx context.Context) (err error) {
			own, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })()
			v, err = f(own)
			if stop.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(stop))) {
				given, err = err, nil
			}
			return err
		},
		awaiter: &awaiter{
			settled: func(err error) { t.settle(v, cmp.Or(err, given)) },
			alone:   alone, contained: alone,
		},
	})
	if err != nil {
		t.settle(v, err)
	}
	return t
}

func (t *Task[T]) settle(v T, err error) {
	t.mu.Lock()
	t.result, t.over = Result[T]{v, err}, true
	watchers := t.watchers
	t.watchers = nil
	t.mu.Unlock()
	close(t.done)
	for _, w := range watchers {
		w.ended <- w.index // has room for each of its tasks
	}
}

// Done is closed when the task has ended.
func (t *Task[T]) Done() <-chan struct{} { return t.done }

// Await waits for the result. When ctx ends first it returns the cause of that; the task runs
// on. A result that is there wins over a context that has ended.
func (t *Task[T]) Await(ctx context.Context) (T, error) {
	select {
	case <-t.done:
	case <-ctx.Done():
		select {
		case <-t.done:
		default:
			var none T
			return none, fmt.Errorf("scope: await %s: %w", t.name, context.Cause(ctx))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.result.Value, t.result.Err
}

// Cancel cancels the task's context with the cause and does not wait.
func (t *Task[T]) Cancel(cause error) { t.cancel(cause) }

// Completions yields the tasks' results as they come, each with its place among the tasks. It
// ends when all have come, when the loop breaks, or when ctx ends: what is left then goes on
// in its scope. It starts no goroutine.
func Completions[T any](ctx context.Context, tasks ...*Task[T]) iter.Seq2[int, Result[T]] {
	return func(yield func(int, Result[T]) bool) {
		ended := make(chan int, len(tasks))
		for i, t := range tasks {
			t.watch(watcher{i, ended})
		}
		for range tasks {
			select {
			case i := <-ended:
				if !yield(i, tasks[i].result) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (t *Task[T]) watch(w watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		w.ended <- w.index
		return
	}
	t.watchers = append(t.watchers, w)
}
