package guard_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/guard"
)

var (
	errBody    = errors.New("body failed")
	errRelease = errors.New("slot not given back")
	errCommit  = errors.New("commit refused")
	errCause   = errors.New("the caller went away")
)

// desk is a desk with one numbered key for each acquire; it keeps a book of all that happened.
type desk struct {
	acquire func(ctx context.Context) error                  // runs inside Acquire
	commit  func(ctx context.Context) error                  // runs inside Commit, when set
	release func(ctx context.Context, o guard.Outcome) error // runs inside Release
	reclaim func(ctx context.Context, cause error) error     // runs inside Reclaim, when set
	change  func(r *guard.Resource[int])                     // changes it before it is used

	mu       sync.Mutex
	book     []string
	outcomes []guard.Outcome
	events   []guard.Event
	next     int
}

func (d *desk) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book = append(d.book, line)
}

func (d *desk) resource() guard.Resource[int] {
	r := guard.Resource[int]{Name: "key", Acquire: d.give, Release: d.take, Observe: d.hear}
	if d.commit != nil {
		r.Commit = func(ctx context.Context, _ int) error {
			d.note("commit")
			return d.commit(ctx)
		}
	}
	if d.reclaim != nil {
		r.Reclaim = func(ctx context.Context, cause error) error {
			d.note("reclaim")
			return d.reclaim(ctx, cause)
		}
	}
	if d.change != nil {
		d.change(&r)
	}
	return r
}

func (d *desk) give(ctx context.Context) (int, error) {
	d.note("acquire")
	if d.acquire != nil {
		if err := d.acquire(ctx); err != nil {
			return 99, err // a value beside an error is nobody's
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.next, nil
}

func (d *desk) take(ctx context.Context, v int, o guard.Outcome) (err error) {
	d.note("release")
	d.mu.Lock()
	d.outcomes = append(d.outcomes, o)
	d.mu.Unlock()
	defer d.note("released")
	if v < 1 || v > 98 {
		return errors.New("a key that was never given out")
	}
	if d.release != nil {
		return d.release(ctx, o)
	}
	return nil
}

func (d *desk) hear(e guard.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

func (d *desk) wantBook(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.book, want) {
		t.Errorf("what happened: %q, want %q", d.book, want)
	}
}

// wantOutcome checks the one outcome that Release was told; err nil stands for any error where
// there must be one.
func (d *desk) wantOutcome(t *testing.T, kind guard.Kind, err error) guard.Outcome {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.outcomes) != 1 {
		t.Fatalf("Release was called %d times, want once", len(d.outcomes))
	}
	o := d.outcomes[0]
	clean := kind == guard.Completed || kind == guard.Abandoned
	if o.Kind != kind || clean != (o.Err == nil) || err != nil && !errors.Is(o.Err, err) {
		t.Errorf("Release was told %v, %v; want %v, %v", o.Kind, o.Err, kind, err)
	}
	return o
}

// heard returns the events of one step.
func (d *desk) heard(step guard.Step) (es []guard.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Step == step {
			es = append(es, e)
		}
	}
	return es
}

// apart runs f on its own goroutine, waits for its end and says how it ended.
func apart(f func()) (returned bool, panicked any, trace string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil {
				buf := make([]byte, 1<<16)
				trace = string(buf[:runtime.Stack(buf, false)])
			}
		}()
		f()
		returned = true
	}()
	<-done
	return returned, panicked, trace
}

type lease = guard.Lease[int]

// with is a body that returns v and err.
func with(v string, err error) func(context.Context, *lease) (string, error) {
	return func(context.Context, *lease) (string, error) { return v, err }
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q does not hold %q", err, target)
		}
	}
}

func wantNo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("error %q, want none", err)
	}
}

// wantParts checks that err is an *Error with exactly these parts.
func wantParts(t *testing.T, err, body, release error) {
	t.Helper()
	e, ok := errors.AsType[*guard.Error](err)
	if !ok {
		t.Fatalf("error %v is no *guard.Error", err)
	}
	if !errors.Is(e.Body, body) || (body == nil) != (e.Body == nil) {
		t.Errorf("Body is %v, want %v", e.Body, body)
	}
	if !errors.Is(e.Release, release) {
		t.Errorf("Release is %v, want %v", e.Release, release)
	}
}

func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

const budget = 3 * time.Second

func limits(timeout, grace time.Duration) func(*guard.Resource[int]) {
	return func(r *guard.Resource[int]) { r.Timeout, r.Grace = timeout, grace }
}

// sameError says that err is that very error, not one that wraps it.
func sameError(err, that error) bool { return any(err) == any(that) }
