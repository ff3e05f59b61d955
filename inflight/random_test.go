package inflight_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

const (
	crowd  = 64
	rounds = 150 // for each of them
)

// storm counts what 64 goroutines at once have done and seen.
type storm struct {
	set  *inflight.Set
	pool *inflighttest.Pool
	work sync.WaitGroup // completions on goroutines of their own

	created, completed, callbacks, values, disposed, taken atomic.Uint64
}

// TestF26_ManyAtRandom needs real threads.
func TestF26_ManyAtRandom(t *testing.T) {
	s := &storm{pool: inflighttest.NewPool(t, 16)}
	s.set = inflighttest.Watch(t, &inflight.Set{Name: "storm"})
	var all sync.WaitGroup
	for g := range crowd {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range rounds {
				s.round(t, r)
			}
		})
	}
	all.Wait()
	wantNo(t, s.set.Drain(t.Context(), errCause))
	s.work.Wait()
	stats := s.set.Stats()
	if n := s.created.Load(); n == 0 || stats.Started != n || stats.Settled != n || s.callbacks.Load() != n || s.completed.Load() != n || stats.Open != 0 {
		t.Errorf("created %d, completed %d, callbacks %d, stats %+v", n, s.completed.Load(), s.callbacks.Load(), stats)
	}
	if s.values.Load() != s.taken.Load()+s.disposed.Load() {
		t.Errorf("%d values, %d taken, %d disposed of", s.values.Load(), s.taken.Load(), s.disposed.Load())
	}
	if s.pool.Out() != 0 {
		t.Errorf("%d buffers are out", s.pool.Out())
	}
}

// round is one operation: who completes it, who cancels, and what its owner does are random.
func (s *storm) round(t *testing.T, r *rand.Rand) {
	how, end, early := r.IntN(4), r.IntN(5), r.IntN(2) == 0
	c := inflight.Config[int]{
		OnComplete: func(int, []byte, error) { s.callbacks.Add(1) },
		Dispose:    func(int) { s.disposed.Add(1) },
	}
	s.created.Add(1)
	o, err := inflight.Start(s.set, c, s.pool.Get(), func(c inflight.Completer[int]) (func(error), error) {
		switch how {
		case 0:
			s.complete(c, nil)
		case 1:
			s.work.Go(func() { s.complete(c, nil) })
		case 2:
			s.work.Go(func() { runtime.Gosched(); s.complete(c, errDisk) })
		}
		return func(cause error) { s.complete(c, cause) }, nil
	})
	if err != nil {
		t.Errorf("not started: %v", err)
		return
	}
	if early || how == 3 {
		s.work.Go(func() { o.Cancel(errCause) })
	}
	s.end(t, o, end)
}

func (s *storm) complete(c inflight.Completer[int], err error) {
	if b := c.Bytes(); b != nil && err != nil {
		_ = b[0]
	}
	if c.Complete(7, err) {
		s.completed.Add(1)
		if err == nil {
			s.values.Add(1)
		}
	}
}

func (s *storm) end(t *testing.T, o op, how int) {
	switch how {
	case 0:
		o.Abandon()
		return
	case 1: // forgotten: the drain finds it
		return
	case 2:
		next, err := o.Transfer()
		wantNo(t, err)
		o = next
		o.Cancel(errCause) // the cancel of the old handle may have come too late
	case 3:
		if err := o.Wait(ended()); err != nil {
			wantIs(t, err, inflight.ErrPending)
		}
	}
	_, b, err := o.Take(context.Background())
	if err == nil {
		s.taken.Add(1)
	} else if !errors.Is(err, errCause) && !errors.Is(err, errDisk) {
		t.Errorf("took %v", err)
	}
	wantNo(t, b.Release())
}
