package inflighttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

var errCause = errors.New("enough")

// recorder is a test that notes its errors, and runs its cleanups when told.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// want checks that there was one error, with these words, and forgets it.
func (r *recorder) want(t *testing.T, words ...string) {
	t.Helper()
	if len(r.errors) != min(1, len(words)) {
		t.Fatalf("reported %q, want %q", r.errors, words)
	}
	for _, w := range words {
		if !strings.Contains(r.errors[0], w) {
			t.Errorf("reported %q, which does not say %q", r.errors[0], w)
		}
	}
	r.errors = nil
}

func TestScripts(t *testing.T) {
	type script = inflighttest.Script
	want := map[script][]string{
		inflighttest.OnCall:             {"register", "registered", "complete true"},
		inflighttest.Inline:             {"register", "complete true", "registered", "complete false"},
		inflighttest.BeforeReturn:       {"register", "complete true", "registered", "complete false"},
		inflighttest.FailedRegistration: {"register", "registered", "complete false"},
		inflighttest.FailedAndCompleted: {"register", "complete true", "registered", "complete false"},
		inflighttest.Panicking:          {"register", "registered", "complete true"},
		inflighttest.Never:              {"register", "registered", "cancel: enough"},
		inflighttest.Twice:              {"register", "complete true", "complete false", "registered", "complete false"},
		inflighttest.AfterCancel:        {"register", "registered", "cancel: enough", "complete true", "complete false"},
		inflighttest.IgnoringCancel:     {"register", "registered", "cancel: enough", "complete true"},
		inflighttest.AfterClose:         {"register", "registered", "cancel: enough", "complete true", "complete false"},
	}
	for script, book := range want {
		synctest.Test(t, func(t *testing.T) {
			s, set := &inflighttest.Source[int]{Script: script}, &inflight.Set{}
			func() {
				defer func() { recover() }()
				inflight.Start(set, inflight.Config[int]{}, nil, s.Register)
			}()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			set.Drain(ctx, errCause)
			synctest.Wait()
			s.Complete()
			if got := s.Book(); !slices.Equal(got, book) {
				t.Errorf("script %d: %q, want %q", script, got, book)
			}
		})
	}
}

// TestF16_SourceWritesAfterItCompleted: the next Get names the operation.
func TestF16_SourceWritesAfterItCompleted(t *testing.T) {
	r := &recorder{TB: t}
	pool, set := inflighttest.NewPool(r, 8), &inflight.Set{}
	s := &inflighttest.Source[int]{}
	o, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, pool.Get(), s.Register)
	if err != nil {
		t.Fatal(err)
	}
	kept := s.Bytes()
	kept[0] = 1 // still allowed
	s.Complete()
	o.Abandon()
	r.want(t)
	kept[0] = 42
	again := pool.Get()
	r.want(t, "byte 0 of a released buffer was written to", "read #1")
	if err := again.Release(); err != nil {
		t.Error(err)
	}
	kept[5] = 42 // and when nobody gets it again, at the end
	r.end()
	r.want(t, "byte 5 of a released buffer")
}

func TestF16_WriteOutsideTheBuffer(t *testing.T) {
	r := &recorder{TB: t}
	pool := inflighttest.NewPool(r, 8)
	for _, at := range []int{-1, 8} {
		b := pool.Get()
		if cap(b.Bytes()) != 8 {
			t.Errorf("an append could run out of the buffer: capacity %d", cap(b.Bytes()))
		}
		*(*byte)(unsafe.Add(unsafe.Pointer(&b.Bytes()[0]), at)) = 1 // as a kernel would
		if err := b.Release(); err != nil {
			t.Error(err)
		}
		r.want(t, fmt.Sprintf("byte %d of a buffer of 8 was written to, outside of it", at), "none: its owner wrote")
	}
	r.end()
	r.want(t)
}

func TestF15_BufferThatNeverCameBack(t *testing.T) {
	r := &recorder{TB: t}
	pool := inflighttest.NewPool(r, 8)
	pool.Get()
	if pool.Out() != 1 {
		t.Errorf("%d out, want 1", pool.Out())
	}
	r.end()
	r.want(t, "1 buffers never came back")
}

func TestF8_WatchReportsWhatIsLeftOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		set := inflighttest.Watch(r, &inflight.Set{Name: "disk"})
		s := &inflighttest.Source[int]{Script: inflighttest.AfterCancel}
		if _, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, nil, s.Register); err != nil {
			t.Fatal(err)
		}
		r.end()
		r.want(t, "read #1 was left open (not completed, 0s old)", "inflighttest_test.TestF8")
		if set.Stats().Open != 0 {
			t.Error("the set was not drained")
		}
	})
}

func TestF8_WatchReportsWhatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		set := inflighttest.Watch(r, &inflight.Set{Name: "disk"})
		s := &inflighttest.Source[int]{Script: inflighttest.Never}
		if _, err := inflight.Start(set, inflight.Config[int]{}, nil, s.Register); err != nil {
			t.Fatal(err)
		}
		r.end()
		if len(r.errors) != 2 || !strings.Contains(r.errors[1], "after the test: inflight: disk is not drained") {
			t.Errorf("reported %q", r.errors)
		}
	})
}

// TestErrBelongsToTheScript: it is the completion's, but where the registration fails the
// registration's.
func TestErrBelongsToTheScript(t *testing.T) {
	for script, want := range map[inflighttest.Script]error{inflighttest.OnCall: errCause, inflighttest.FailedRegistration: nil} {
		s, set := &inflighttest.Source[int]{Script: script, Err: errCause}, &inflight.Set{}
		completed := make(chan error, 1)
		config := inflight.Config[int]{OnComplete: func(_ int, _ []byte, err error) { completed <- err }}
		_, err := inflight.Start(set, config, nil, func(c inflight.Completer[int]) (func(error), error) {
			cancel, err := s.Register(c)
			s.Complete()
			return cancel, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-completed; got != want {
			t.Errorf("script %d completed with %v, want %v", script, got, want)
		}
	}
}
