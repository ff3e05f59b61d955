package inflight_test

import (
	"testing"

	"github.com/berth-dev/berth/inflight"
)

// onePass starts an operation with a buffer, completes it and takes the result.
func onePass(tb testing.TB, set *inflight.Set, pool *inflight.Pool) {
	var c inflight.Completer[int]
	o, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, pool.Get(), func(published inflight.Completer[int]) (func(error), error) {
		c = published
		return nil, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	done := o.Done() // as a wait makes it
	c.Complete(7, nil)
	<-done
	_, b, err := o.Take(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if err := b.Release(); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkStartComplete(b *testing.B) {
	set, pool := &inflight.Set{}, &inflight.Pool{Size: 64}
	b.ReportAllocs()
	for b.Loop() {
		onePass(b, set, pool)
	}
}

func BenchmarkLoopPost(b *testing.B) {
	l := inflight.NewLoop(inflight.LoopConfig{})
	nothing := func() {}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Post(nothing); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAffineDo(b *testing.B) {
	l := inflight.NewLoop(inflight.LoopConfig{})
	nothing := func(int) error { return nil }
	a, err := inflight.Bind(l, "value", 7, nothing)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Do(b.Context(), nothing); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Destroy(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := l.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestStartCompleteAllocates at most three times: the buffer's handle, the operation, and the
// channel of a wait. The closure in onePass does not escape.
func TestStartCompleteAllocates(t *testing.T) {
	set, pool := &inflight.Set{}, &inflight.Pool{Size: 64}
	if n := testing.AllocsPerRun(1000, func() { onePass(t, set, pool) }); n > 3 {
		t.Errorf("%v allocations for a start, a completion and a wait, want at most 3", n)
	}
}
