package broker_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/lease"
)

const remote = lease.Caller("remote")

func TestAskIsAnsweredQueuedAndAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		first := f.take(t)
		r := wish(time.Hour)
		began := time.Now()
		_, queued, err := f.Ask(t.Context(), remote, r, 2*time.Second)
		wantCode(t, err, lease.CodeQueued)
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second || queued.Position != 1 || queued.AskWithin <= 0 {
			t.Fatalf("answered %+v after %v", queued, took)
		}
		mustDo(t, f.Release(t.Context(), first))
		token, _, err := f.Ask(t.Context(), remote, r, time.Hour)
		mustDo(t, err)
		again, _, err := f.Ask(t.Context(), remote, r, 0) // its reply was lost
		mustDo(t, err)
		if again.LeaseID != token.LeaseID || again.Fence != token.Fence {
			t.Errorf("asked again and got %+v, not %+v", again, token)
		}
		wantCode(t, f.Release(t.Context(), token), lease.CodeLeaseForeign) // by another caller
		mustDo(t, f.As(remote).Release(t.Context(), token))
		f.audit(t)
	})
}

// TestAskThatNobodyListensTo leaves a waiter that is absent: who waits behind
// it is served.
func TestAskThatNobodyListensTo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		first := f.take(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, _, err := f.Ask(ctx, remote, wish(time.Hour), time.Hour)
			left <- err
		}()
		synctest.Wait()
		behind := begin(t.Context(), f, wish(time.Minute))
		synctest.Wait()
		cancel()
		wantCode(t, <-left, lease.CodeOutcomeUnknown)
		released := time.Now()
		mustDo(t, f.Release(t.Context(), first))
		got := <-behind
		mustDo(t, got.err)
		if took := time.Since(released); took > time.Second {
			t.Errorf("who waits behind it was served after %v", took)
		}
		time.Sleep(66 * time.Second) // a ghost would wait for ever
		if s := f.audit(t); s.Queued != 0 {
			t.Errorf("%d wait, want none", s.Queued)
		}
	})
}

func TestDropUnusedFreesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		r := wish(0)
		_, _, err := f.Ask(t.Context(), remote, r, 0)
		mustDo(t, err)
		mustDo(t, f.Drop(t.Context(), lease.Local, r.ID, true)) // another caller's request of that name
		if s := f.audit(t); s.Held != 1 {
			t.Fatalf("held %d, want 1", s.Held)
		}
		mustDo(t, f.Drop(t.Context(), remote, r.ID, true))
		if s := f.audit(t); s.Held != 0 || s.Free != 1 || s.Quarantined != 0 {
			t.Errorf("held %d, free %d, quarantined %d", s.Held, s.Free, s.Quarantined)
		}
		wantCode(t, f.Drop(t.Context(), remote, "no good name", false), lease.CodeNameInvalid)
	})
}

// TestCallsThatWereLeftAreForgotten: a client that connects and goes, over and
// over, costs the broker no memory.
func TestCallsThatWereLeftAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		f.take(t)
		r := wish(24 * time.Hour)
		leave := func(n int) {
			for range n {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, _, err := f.Ask(ctx, remote, r, time.Hour)
				wantCode(t, err, lease.CodeOutcomeUnknown)
				cancel()
			}
		}
		leave(100)
		before := heap()
		const n = 10_000
		leave(n)
		if grown := heap() - before; grown > 100*n {
			t.Errorf("%d calls that were left keep %d bytes", n, grown)
		}
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
