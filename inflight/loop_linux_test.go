package inflight_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/inflight"
)

// TestF21_PinnedLoopHasOneThread: also after a Goexit, and it is gone after the end.
func TestF21_PinnedLoopHasOneThread(t *testing.T) {
	l := inflight.NewLoop(inflight.LoopConfig{Pinned: true})
	threads := make(map[int]bool)
	a, err := inflight.Bind(l, "icon", 7, func(int) error { threads[syscall.Gettid()] = true; return nil })
	wantNo(t, err)
	for i := range 200 {
		a.Do(t.Context(), func(int) error {
			threads[syscall.Gettid()] = true
			if i%50 == 0 {
				runtime.Goexit()
			}
			return nil
		})
		runtime.Gosched()
	}
	wantNo(t, a.Destroy(t.Context()))
	wantNo(t, l.Shutdown(t.Context()))
	if len(threads) != 1 {
		t.Fatalf("ran on threads %v, want one", threads)
	}
	for id := range threads {
		wantThreadGone(t, id)
	}
}

// TestF21_PinnedLoopsAvoidTheMainThread: so many at once would else get it sooner or later.
func TestF21_PinnedLoopsAvoidTheMainThread(t *testing.T) {
	for range 20 {
		var loops []*inflight.Loop
		for range 16 {
			l := inflight.NewLoop(inflight.LoopConfig{Pinned: true})
			wantNo(t, l.Post(func() {
				if syscall.Gettid() == syscall.Getpid() {
					t.Error("a loop runs on the main thread, which cannot end with it")
				}
			}))
			loops = append(loops, l)
			runtime.Gosched()
		}
		for _, l := range loops {
			wantNo(t, l.Shutdown(t.Context()))
		}
	}
}

func wantThreadGone(t *testing.T, id int) {
	t.Helper()
	path := fmt.Sprintf("/proc/self/task/%d", id)
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); runtime.Gosched() {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return
		}
	}
	t.Errorf("thread %d has not ended with its loop", id)
}
