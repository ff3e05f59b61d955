package inflight_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/inflight"
)

func TestF25_StopWaitsForARunningCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		r := inflight.AfterFunc(ctx, func() { time.Sleep(time.Second); ended = true })
		cancel()
		synctest.Wait()
		start := time.Now()
		for range 3 {
			if r.Stop() || !ended {
				t.Errorf("Stop returned, and the callback had ended: %v", ended)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Stop took %v, want the callback's second", took)
		}
	})
}

func TestF25_StopFromInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ran := false
		var r, other *inflight.Registration
		other = inflight.AfterFunc(ctx, func() { time.Sleep(time.Second); ran = true })
		r = inflight.AfterFunc(ctx, func() {
			if r.Stop() {
				t.Error("stopped itself before it began")
			}
			if other.Stop() || !ran {
				t.Error("did not wait for the other callback")
			}
		})
		cancel()
		r.Stop()
		if !ran {
			t.Error("Stop did not wait")
		}
	})
}

func TestF25_StopBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := inflight.AfterFunc(ctx, func() { t.Error("called after the stop") })
		for range 3 {
			if !r.Stop() {
				t.Error("not stopped")
			}
			cancel()
		}
	})
}

func TestF25_StopOfACallbackThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inflight.AfterFunc(ended(), runtime.Goexit)
		if r.Stop() {
			t.Error("stopped before it began, though its context had ended")
		}
	})
}

// TestF25_ManyStopsRaceTheEnd needs real threads.
func TestF25_ManyStopsRaceTheEnd(t *testing.T) {
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		ran := 0
		r := inflight.AfterFunc(ctx, func() { ran++ })
		var all sync.WaitGroup
		var stopped [4]bool
		all.Go(cancel)
		for i := range stopped {
			all.Go(func() {
				if stopped[i] = r.Stop(); stopped[i] == (ran == 1) {
					t.Errorf("stopped %v and ran %d times", stopped[i], ran)
				}
			})
		}
		all.Wait()
		for _, s := range stopped {
			if s != stopped[0] {
				t.Fatalf("the stops say %v", stopped)
			}
		}
	}
}
