package inflight_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

var (
	errCause = errors.New("the caller went away")
	errDisk  = errors.New("disk failed")
)

type (
	source = inflighttest.Source[int]
	op     = inflight.Op[int]
)

// probe keeps a book of what happened, and hears the events of a set.
type probe struct {
	mu     sync.Mutex
	book   []string
	events []inflight.Event
}

func (p *probe) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book = append(p.book, line)
}

func (p *probe) hear(e inflight.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

func (p *probe) wantBook(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.book, want) {
		t.Errorf("what happened: %q, want %q", p.book, want)
	}
}

// wantEvent checks that the one event heard is of that kind.
func (p *probe) wantEvent(t *testing.T, kind inflight.Kind) inflight.Event {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) != 1 || p.events[0].Kind != kind {
		t.Fatalf("heard %+v, want one event %q", p.events, kind)
	}
	return p.events[0]
}

// config notes OnComplete and Dispose of an operation called read.
func (p *probe) config() inflight.Config[int] {
	return inflight.Config[int]{
		Name:       "read",
		OnComplete: func(v int, _ []byte, err error) { p.note("complete") },
		Dispose:    func(v int) { p.note("dispose") },
	}
}

// bench is a set with a pool and a probe; everything is looked at when the test ends.
type bench struct {
	probe
	set  *inflight.Set
	pool *inflighttest.Pool
}

func newBench(t *testing.T) *bench {
	b := &bench{pool: inflighttest.NewPool(t, 8)}
	b.set = inflighttest.Watch(t, &inflight.Set{Name: "disk", Observe: b.hear})
	return b
}

// start begins an operation with a buffer of the pool.
func (b *bench) start(t *testing.T, s *source) (op, *inflight.Buffer) {
	t.Helper()
	buf := b.pool.Get()
	o, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantNo(t, err)
	return o, buf
}

// ended is a context that ended with errCause.
func ended() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errCause)
	return ctx
}

// wantTake takes the result and gives the buffer back.
func wantTake(t *testing.T, o op, want int, wantErr error) {
	t.Helper()
	v, b, err := o.Take(t.Context())
	if v != want || !errors.Is(err, wantErr) || (wantErr == nil) != (err == nil) {
		t.Errorf("took %d, %v; want %d, %v", v, err, want, wantErr)
	}
	if b == nil {
		t.Error("took no buffer")
	} else {
		wantNo(t, b.Release())
	}
}

func wantStats(t *testing.T, s *inflight.Set, want inflight.Stats) {
	t.Helper()
	if got := s.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func wantSource(t *testing.T, s *source, want ...string) {
	t.Helper()
	if got := s.Book(); !slices.Equal(got, want) {
		t.Errorf("the source saw %q, want %q", got, want)
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

func wantText(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not say %q", err, w)
		}
	}
}

func wantNo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("error %q, want none", err)
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

// apart runs f on its own goroutine and says how it ended.
func apart(f func()) (returned bool, panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
		returned = true
	}()
	<-done
	return returned, panicked
}

// wantPanic checks that f panics with an error that is target.
func wantPanic(t *testing.T, target error, f func()) error {
	t.Helper()
	_, p := apart(f)
	err, _ := p.(error)
	if !errors.Is(err, target) {
		t.Errorf("panic %v, want %v", p, target)
	}
	return err
}
