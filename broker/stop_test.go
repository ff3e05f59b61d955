package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

func TestStopAnswersThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		token := f.take(t)
		var waiters []<-chan outcome
		for range 10 {
			waiters = append(waiters, begin(t.Context(), f, wish(time.Hour)))
		}
		synctest.Wait()
		began := time.Now()
		mustDo(t, f.stop())
		for _, w := range waiters {
			got := <-w
			got.exactlyOne(t)
			wantCode(t, got.err, lease.CodeOutcomeUnknown)
		}
		if took := time.Since(began); took != 0 {
			t.Fatalf("they were told after %v", took)
		}
		_, err := f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeStopped)
		_, err = f.Acquire(t.Context(), wish(0))
		wantCode(t, err, lease.CodeStopped)
		wantCode(t, f.Drain(t.Context(), "g", ""), lease.CodeStopped)
		if s := open(t, s).audit(t); s.Queued != 10 || s.Held != 1 {
			t.Fatalf("after the restart %+v", s)
		}
	})
}

// A waiter asks again after 30 s, and the broker stops at about that moment:
// the waiter is in the queue, and must not be told otherwise.
func TestStopBetweenTwoCalls(t *testing.T) {
	for range 200 {
		bubble(t, func(t *testing.T) {
			f := open(t, memory(), poolWith("g", lease.Settings{TTL: time.Minute}, "g-0"))
			f.take(t)
			waiter := begin(t.Context(), f, wish(time.Hour))
			time.Sleep(lease.MaxPoll)
			mustDo(t, f.stop())
			wantCode(t, (<-waiter).err, lease.CodeOutcomeUnknown)
		})
	}
}

// Whatever came in before the stop is done and answered.
func TestStopFinishesWhatCameIn(t *testing.T) {
	for range 50 {
		s := memory()
		f := open(t, uneven{s}, pool("g", names(64)...))
		var all sync.WaitGroup
		heard := make([]outcome, 64)
		for i := range heard {
			all.Go(func() {
				dawdle(20)
				heard[i] = <-begin(t.Context(), f, wish(0))
			})
		}
		dawdle(200)
		mustDo(t, f.stop())
		all.Wait()
		f = open(t, s)
		granted := uint64(0)
		for _, o := range heard {
			o.exactlyOne(t)
			if o.err != nil {
				wantCode(t, o.err, lease.CodeStopped)
				continue
			}
			granted++
			mustDo(t, f.Release(t.Context(), o.token))
		}
		if s := f.audit(t); s.Acquired != granted || s.Free != 64 {
			t.Fatalf("%d were granted, the broker says %+v", granted, s)
		}
		mustDo(t, f.stop())
	}
}

func TestRunTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		wantCode(t, f.Run(t.Context()), lease.CodeInternal)
		f.take(t)
		mustDo(t, f.stop())
		wantCode(t, f.Run(t.Context()), lease.CodeInternal)
	})
}

func TestCallsBeforeRunWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		mustDo(t, open(t, s, pool("g", "g-0")).stop())
		b, err := broker.Open(t.Context(), broker.Config{Store: s})
		mustDo(t, err)
		early := begin(t.Context(), b, wish(0))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errMind)
		defer cancel()
		if _, err := b.Status(ctx, true); !errors.Is(err, errMind) {
			t.Fatalf("a read that was not answered returned %v", err)
		}
		err = b.Release(ctx, lease.Token{})
		if !errors.Is(err, errMind) {
			t.Fatalf("with a context that has ended: %v", err)
		}
		synctest.Wait()
		run(t, b)
		mustDo(t, (<-early).err)
	})
}

// A call whose context ends before its answer says that it may have happened,
// and why it was not waited for.
func TestAnswerThatIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &gated{Store: memory(), gate: make(chan struct{})}
		f := open(t, slow, pool("g", "g-0"))
		token := f.take(t)
		slow.shut()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errMind)
		defer cancel()
		waiter := begin(ctx, f, wish(time.Hour))
		err := f.Release(ctx, token)
		wantCode(t, err, lease.CodeOutcomeUnknown)
		if !errors.Is(err, errMind) {
			t.Fatalf("the error does not say why: %v", err)
		}
		// The acquire's cancel is not answered within its own limit either.
		began := time.Now()
		got := <-waiter
		wantCode(t, got.err, lease.CodeOutcomeUnknown)
		if !errors.Is(got.err, errMind) || time.Since(began) > 10*time.Second {
			t.Fatalf("after %v: %v", time.Since(began), got.err)
		}
		slow.open()
		mustDo(t, f.Release(t.Context(), token))
		if s := f.audit(t); s.Free != 1 || s.Queued != 0 || s.Released != s.Acquired {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

// While a commit takes its time, renewals of other leases go on.
func TestRenewalsDoNotWaitForCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &gated{Store: memory(), gate: make(chan struct{})}
		f := open(t, slow, pool("g", "g-0", "g-1"))
		token := f.take(t)
		slow.shut()
		second := begin(t.Context(), f, wish(0))
		synctest.Wait()
		for range 10 {
			time.Sleep(20 * time.Second)
			again, err := f.Renew(t.Context(), token)
			mustDo(t, err)
			if again.Left != again.TTL {
				t.Fatalf("renewed to %+v", again)
			}
		}
		select {
		case got := <-second:
			t.Fatalf("an acquire was answered before it was durable: %+v", got)
		default:
		}
		slow.open()
		mustDo(t, (<-second).err)
	})
}

// A gated store holds commits back while it is shut.
type gated struct {
	store.Store
	mu   sync.Mutex
	held bool
	gate chan struct{}
}

func (s *gated) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

func (s *gated) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	close(s.gate)
}

func (s *gated) Commit(ctx context.Context, seq uint64, changes []store.Change) error {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held {
		<-s.gate
	}
	return s.Store.Commit(ctx, seq, changes)
}

// Goroutines belong to Run, which waits for them: the bubble would not end
// with one left.
func TestRunWaitsForItsGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 3 {
			s := memory()
			b, err := broker.Open(t.Context(), broker.Config{Store: s})
			mustDo(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			mustDo(t, b.Run(ctx))
		}
	})
}
