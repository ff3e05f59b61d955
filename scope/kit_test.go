package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/scope"
)

var (
	errFirst  = errors.New("the first failed")
	errSecond = errors.New("the second failed")
	errBody   = errors.New("the body failed")
	errCause  = errors.New("the caller went away")
)

// in runs f in a bubble, which fails when a goroutine is left behind.
func in(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// untilDone is a child that waits for its context and returns its error.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func fails(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// stubborn is a child that ignores its context for d.
func stubborn(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

func mustGo(t *testing.T, s interface {
	Go(context.Context, string, func(context.Context) error) error
}, name string, f func(context.Context) error) {
	t.Helper()
	if err := s.Go(t.Context(), name, f); err != nil {
		t.Fatalf("Go %s: %v", name, err)
	}
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v does not hold %q", err, target)
		}
	}
}

func wantNo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("error %v, want none", err)
	}
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

// book keeps lines in the order in which they came.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) want(t *testing.T, lines ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.lines, lines) {
		t.Errorf("what happened: %q, want %q", b.lines, lines)
	}
}

// run is scope.Run with the zero Config.
func run(t *testing.T, body func(ctx context.Context, s *scope.Scope) error) error {
	t.Helper()
	return scope.Run(t.Context(), scope.Config{}, body)
}

// wantStill checks that err names exactly these children.
func wantStill(t *testing.T, err error, names ...string) *scope.StillRunning {
	t.Helper()
	still, ok := errors.AsType[*scope.StillRunning](err)
	if !ok {
		t.Fatalf("error %v is no *StillRunning", err)
	}
	got := make([]string, len(still.Children))
	for i, c := range still.Children {
		got[i] = c.Name
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("still running: %q, want %q", got, names)
	}
	return still
}
