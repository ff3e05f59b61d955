package broker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store"
)

func TestClockNeverCatchesUp(t *testing.T) {
	clock := broker.NewClock(time.Hour, 5*time.Second)
	now := time.Hour
	for _, step := range []struct{ reading, adds time.Duration }{
		{5 * time.Second, 0},
		{5250 * time.Millisecond, 250 * time.Millisecond},
		{45 * time.Second, broker.MaxLeap},
		{45100 * time.Millisecond, 100 * time.Millisecond},
		{time.Second, 0},
		{1500 * time.Millisecond, 500 * time.Millisecond},
	} {
		now += step.adds
		if got := clock.Observe(step.reading); got != now {
			t.Fatalf("at %v it is %v, want %v", step.reading, got, now)
		}
	}
}

// A frozen store keeps Run, which asks for its free space, as a stopped
// process would be kept, while somebody has its turn.
type frozen struct {
	store.Store
	turn chan struct{}
}

func newFrozen() *frozen { return &frozen{memory(), make(chan struct{}, 1)} }

func (s *frozen) Free() (uint64, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.Store.Free()
}

// The broker is stopped for 40 s while renewals wait for it. Nobody is
// expired, not even those whose time would have been over within the second
// that a stall counts for.
func TestK23AStallExpiresNobody(t *testing.T) {
	for round := range 18 {
		bubble(t, func(t *testing.T) {
			s := newFrozen()
			f := open(t, s, poolWith("g", lease.Settings{TTL: time.Second}, names(16)...))
			tokens := make([]lease.Token, 16)
			for i := range tokens {
				tokens[i] = f.take(t)
			}
			time.Sleep(time.Duration(round) * 40 * time.Millisecond)
			s.turn <- struct{}{}
			// Here the broker stops, within a quarter of a second.
			time.Sleep(260 * time.Millisecond)
			var waiting sync.WaitGroup
			for _, token := range tokens {
				waiting.Go(func() {
					if _, err := f.Renew(t.Context(), token); err != nil {
						t.Errorf("after a stall: %v", err)
					}
				})
			}
			synctest.Wait()
			time.Sleep(40 * time.Second)
			<-s.turn
			waiting.Wait()
			if s := f.audit(t); s.Held != 16 || s.Orphaned != 0 {
				t.Fatalf("after a stall %+v", s)
			}
		})
	}
}

// A stall counts for a second, and quick observations after it for no more.
func TestK4StallAndQuickObservations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFrozen()
		f := open(t, s, pool("g", "g-0"))
		token := f.take(t)
		s.turn <- struct{}{}
		time.Sleep(40 * time.Second)
		<-s.turn
		for range 1000 {
			f.audit(t)
		}
		time.Sleep(28 * time.Second)
		if _, err := f.Renew(t.Context(), token); err != nil {
			t.Fatalf("28 s after a stall: %v", err)
		}
	})
}

// The holder was killed; the broker is started again every 2 s. The lease gets
// one TTL for all restarts together, not one each.
func TestK4RestartsDoNotKeepADeadLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, poolWith("g", lease.Settings{TTL: 3 * time.Second}, "g-0"))
		f.take(t)
		served := time.Duration(0)
		for restarts := 0; f.audit(t).Held == 1; restarts++ {
			if restarts == 10 {
				t.Fatal("the lease of a dead holder still lives after 10 restarts")
			}
			time.Sleep(2 * time.Second)
			served += 2 * time.Second
			mustDo(t, f.stop())
			f = open(t, s)
		}
		// Its own TTL, one more, and what the last commit before each stop
		// may have been behind.
		if served > 10*time.Second {
			t.Fatalf("it lived for %v of broker time", served)
		}
	})
}

// Renewed after the first restart, not yet after the second: not ended early.
func TestK4SecondRestartCountsARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, poolWith("g", lease.Settings{TTL: 3 * time.Second}, "g-0"))
		token := f.take(t)
		for range 5 {
			mustDo(t, f.stop())
			f = open(t, s)
			time.Sleep(2500 * time.Millisecond)
			_, err := f.Renew(t.Context(), token)
			mustDo(t, err)
		}
	})
}

// While a lease lives its time is kept, whatever else happens: after a crash
// the next start goes on from within the last second.
func TestBrokerTimeIsCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, poolWith("g", lease.Settings{TTL: time.Hour}, "g-0"))
		f.take(t)
		for range 20 {
			time.Sleep(1730 * time.Millisecond)
			before := f.audit(t).Now
			crashed := s.Reopen()
			f.stop()
			s, f = crashed, open(t, crashed)
			if after := f.audit(t).Now; before-after > time.Second {
				t.Fatalf("it was %v before the crash and %v after", before, after)
			}
		}
	})
}

// Where nothing lives nothing is written.
func TestIdleBrokerDoesNotCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		mustDo(t, f.Release(t.Context(), f.take(t)))
		time.Sleep(time.Second)
		before := commits(t, s)
		time.Sleep(time.Minute)
		if after := commits(t, s); after != before {
			t.Fatalf("%d commits in an idle minute", after-before)
		}
	})
}

func commits(t *testing.T, s store.Store) uint64 {
	t.Helper()
	seq, err := s.Load(t.Context(), func(_, _ []byte) error { return nil })
	mustDo(t, err)
	return seq
}
