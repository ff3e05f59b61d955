package scopetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/scope"
	"github.com/berth-dev/berth/scope/scopetest"
)

// probe is a test that keeps its errors and its cleanups.
type probe struct {
	testing.TB
	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
	errs     []string
}

func newProbe(t *testing.T) *probe {
	p := &probe{TB: t}
	p.ctx, p.cancel = context.WithCancel(t.Context())
	return p
}

func (p *probe) Context() context.Context { return p.ctx }

func (p *probe) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *probe) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Sprintf(format, args...))
}

// end ends the probe as the testing package ends a test.
func (p *probe) end() {
	p.cancel()
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func TestNewClosesItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(t)
		s := scopetest.New(p, scope.Config{})
		_ = s.Go(p.ctx, "child", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		p.end()
		if len(p.errs) != 0 {
			t.Errorf("a test that cleans up failed: %q", p.errs)
		}
		if err := s.Go(t.Context(), "late", nil); !errors.Is(err, scope.ErrClosed) {
			t.Errorf("after the test Go returned %v", err)
		}
	})
}

func TestNewNamesWhoStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(t)
		s := scopetest.New(p, scope.Config{})
		_ = s.Go(p.ctx, "stubborn", func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		p.end()
		if len(p.errs) != 1 || !strings.Contains(p.errs[0], "stubborn for 5s") || !strings.Contains(p.errs[0], "scopetest_test.go:") {
			t.Errorf("the test said %q", p.errs)
		}
		time.Sleep(time.Minute)
	})
}

func TestGoroutinesLeftBehind(t *testing.T) {
	p := newProbe(t)
	scopetest.Goroutines(p)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-stop
	}()
	p.end()
	close(stop)
	<-ended
	if len(p.errs) != 1 || !strings.Contains(p.errs[0], "1 goroutines are left") || !strings.Contains(p.errs[0], "TestGoroutinesLeftBehind") {
		t.Errorf("the test said %q", p.errs)
	}
}

// TestGoroutinesAboutToEnd get the processor to do so.
func TestGoroutinesAboutToEnd(t *testing.T) {
	p := newProbe(t)
	scopetest.Goroutines(p)
	go func() {
		for range 100_000 {
			runtime.Gosched()
		}
	}()
	p.end()
	if len(p.errs) != 0 {
		t.Errorf("the test said %q", p.errs)
	}
}

// TestGoroutinesOfTests: a parallel test that waits for its parent is nobody's leak.
func TestGoroutinesOfTests(t *testing.T) {
	p := newProbe(t)
	scopetest.Goroutines(p)
	t.Run("waits for its parent", func(t *testing.T) { t.Parallel() })
	p.end()
	if len(p.errs) != 0 {
		t.Errorf("the test said %q", p.errs)
	}
}

func TestNoGoroutinesLeftBehind(t *testing.T) {
	p := newProbe(t)
	scopetest.Goroutines(p)
	s := scopetest.New(p, scope.Config{})
	for range 100 {
		_ = s.Go(p.ctx, "child", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}
	p.end()
	if len(p.errs) != 0 {
		t.Errorf("the test said %q", p.errs)
	}
}
