package inflighttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

// readOnce is code under test: it must give its buffer back on every path.
func readOnce(ctx context.Context, set *inflight.Set, buf *inflight.Buffer, register func(inflight.Completer[int]) (func(error), error)) (int, error) {
	op, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, buf, register)
	if err != nil {
		return 0, errors.Join(err, buf.Release())
	}
	defer op.Abandon()
	n, buf, err := op.Take(ctx)
	if buf == nil {
		op.Cancel(err)
		return 0, err
	}
	return n, errors.Join(err, buf.Release())
}

// TestReadOnceGivesUp is what a test of a user looks like; see ExampleSource.
func TestReadOnceGivesUp(t *testing.T) {
	set := inflighttest.Watch(t, &inflight.Set{Name: "disk"})
	pool := inflighttest.NewPool(t, 16)
	source := &inflighttest.Source[int]{Script: inflighttest.IgnoringCancel, Value: 5}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readOnce(ctx, set, pool.Get(), source.Register); !errors.Is(err, inflight.ErrPending) {
		t.Errorf("error %v, want that it gave up", err)
	}
	if pool.Out() != 1 {
		t.Error("the buffer came back while the source has it")
	}
	if !source.Complete() || pool.Out() != 0 {
		t.Error("the late completion did not bring the buffer back")
	}
}

// The test decides when the source completes: here after the caller gave up. With a Pool and a
// Watch of a real test, a buffer or operation left behind fails it.
func ExampleSource() {
	set := &inflight.Set{}
	source := &inflighttest.Source[int]{Script: inflighttest.IgnoringCancel, Value: 5}
	buf := inflight.Own(make([]byte, 16), func([]byte, string) { fmt.Println("the buffer is back") })

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := readOnce(ctx, set, buf, source.Register)
	fmt.Println(err)
	fmt.Println(source.Complete())
	fmt.Println(source.Book())
	// Output:
	// inflight: read #1: still in flight: context canceled
	// the buffer is back
	// true
	// [register registered cancel: inflight: read #1: still in flight: context canceled complete true]
}
