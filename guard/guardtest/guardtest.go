package guardtest

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/guard"
)

// Watch returns the resource with its Acquire and Release watched. When the test ends, also
// after a failed assertion, it fails for every value that is still held, with the stack of its
// acquire. It fails at once for a value that is released twice, or was never acquired, and for
// a release whose context has ended or has no limit. Of values that are equal, any is as good
// as another. A failed Release counts as given back.
//
// The check runs with the test's cleanups, the last one first: call Watch before whatever gives
// values back at the end of the test, such as scopetest.New for a scope that owns some.
func Watch[T comparable](t testing.TB, res guard.Resource[T]) guard.Resource[T] {
	w := &watch[T]{t: t, name: cmp.Or(res.Name, "resource"), held: map[T][]acquired{}}
	watched := res
	watched.Acquire = func(ctx context.Context) (T, error) {
		v, err := res.Acquire(ctx)
		if err == nil {
			w.acquired(v)
		}
		return v, err
	}
	watched.Release = func(ctx context.Context, v T, o guard.Outcome) error {
		w.released(ctx, v)
		return res.Release(ctx, v, o)
	}
	t.Cleanup(w.check)
	return watched
}

type watch[T comparable] struct {
	t    testing.TB
	name string
	mu   sync.Mutex // guards the fields below
	held map[T][]acquired
}

type acquired struct {
	at    time.Time
	stack string
}

func (w *watch[T]) acquired(v T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[v] = append(w.held[v], acquired{time.Now(), string(debug.Stack())})
}

func (w *watch[T]) released(ctx context.Context, v T) {
	w.t.Helper()
	if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
		w.t.Errorf("%s %v is released on a context that has ended (%v) or has no limit", w.name, v, ctx.Err())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.held[v]
	if len(all) == 0 {
		w.t.Errorf("%s %v is released and is not held", w.name, v)
		return
	}
	if w.held[v] = all[1:]; len(all) == 1 {
		delete(w.held, v)
	}
}

func (w *watch[T]) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v, all := range w.held {
		for _, a := range all {
			w.t.Errorf("%s %v was not given back, %v after its acquire at\n%s", w.name, v, time.Since(a.at).Round(time.Millisecond), a.stack)
		}
	}
}
