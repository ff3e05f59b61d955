package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/inflight"
)

// device is a small source: it fills a buffer on its own goroutine, when told to.
type device struct{ work chan func() }

func newDevice() *device {
	d := &device{work: make(chan func())}
	go func() {
		for f := range d.work {
			f()
		}
	}()
	return d
}

// read registers with the device. It offers no way to cancel.
func (d *device) read(text string) func(inflight.Completer[int]) (func(error), error) {
	return func(c inflight.Completer[int]) (func(error), error) {
		go func() { d.work <- func() { c.Complete(copy(c.Bytes(), text), nil) } }()
		return nil, nil
	}
}

func ExampleStart() {
	d, set, pool := newDevice(), &inflight.Set{Name: "camera"}, &inflight.Pool{Size: 16}
	defer close(d.work)

	op, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, pool.Get(), d.read("a frame"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer op.Abandon() // when we leave early; after Take it does nothing

	n, buf, err := op.Take(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", buf.Bytes()[:n])
	fmt.Println(buf.Release(), set.Drain(context.Background(), nil))
	// Output:
	// a frame
	// <nil> <nil>
}

// A buffer in flight can be touched by nobody but the source, also after the caller gave up.
func ExampleBuffer() {
	var source inflight.Completer[int]
	set, buf := &inflight.Set{}, inflight.Own(make([]byte, 4), func([]byte, string) { fmt.Println("back") })
	op, err := inflight.Start(set, inflight.Config[int]{Name: "write"}, buf,
		func(c inflight.Completer[int]) (func(error), error) {
			source = c
			return func(cause error) { fmt.Println("asked to cancel:", cause) }, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	touch := func() {
		defer func() { fmt.Println(recover()) }()
		buf.Bytes()[0] = 1
	}
	op.Cancel(errors.New("too slow")) // a request, not an end
	touch()
	fmt.Println(buf.Release()) // deferred
	source.Complete(4, nil)
	// Output:
	// asked to cancel: too slow
	// inflight: bytes of a buffer: the buffer is in flight with write #1
	// <nil>
	// back
}

// A value that nobody takes is disposed of once, when the set is drained.
func ExampleSet_Drain() {
	set := &inflight.Set{Name: "dialer", Observe: func(e inflight.Event) {
		fmt.Println(e.Operation, e.Kind) // with Trace, e.Stack says where it was started
	}}
	config := inflight.Config[string]{Name: "dial", Dispose: func(conn string) { fmt.Println("close", conn) }}
	_, err := inflight.Start(set, config, nil, func(c inflight.Completer[string]) (func(error), error) {
		c.Complete("connection 1", nil)
		return nil, nil
	})
	fmt.Println(err)
	fmt.Println(set.Drain(context.Background(), errors.New("shutting down")))
	// Output:
	// <nil>
	// dial #1 untaken
	// close connection 1
	// <nil>
}

// The thing that operations work on is not destroyed before the last of them has settled.
func ExampleSet_Destroy() {
	var source inflight.Completer[int]
	set := &inflight.Set{Name: "file"}
	op, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, nil,
		func(c inflight.Completer[int]) (func(error), error) { source = c; return nil, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	op.Abandon()
	closeFile := func() error { fmt.Println("file closed"); return nil }

	patience, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	fmt.Println(errors.Is(set.Drain(patience, nil), inflight.ErrOpen))
	fmt.Println(errors.Is(set.Destroy(closeFile), inflight.ErrOpen))
	source.Complete(0, nil)
	fmt.Println(set.Drain(context.Background(), nil))
	fmt.Println(set.Destroy(closeFile))
	// Output:
	// true
	// true
	// <nil>
	// file closed
	// <nil>
}

func ExampleOp_Transfer() {
	set := &inflight.Set{}
	op, err := inflight.Start(set, inflight.Config[int]{Name: "read"}, nil,
		func(c inflight.Completer[int]) (func(error), error) { c.Complete(7, nil); return nil, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	mine, err := op.Transfer()
	fmt.Println(err)
	_, _, err = op.Take(context.Background())
	fmt.Println(err)
	v, _, err := mine.Take(context.Background())
	fmt.Println(v, err)
	// Output:
	// <nil>
	// inflight: read #1: the operation was moved to another handle
	// 7 <nil>
}

// After Stop a callback neither runs nor will: what it uses can go.
func ExampleAfterFunc() {
	ctx, cancel := context.WithCancel(context.Background())
	running, lines := make(chan struct{}), []string{}
	r := inflight.AfterFunc(ctx, func() {
		close(running)
		for range 3 {
			lines = append(lines, "goodbye")
		}
	})
	cancel()
	<-running
	fmt.Println("stopped before it ran:", r.Stop())
	fmt.Println(lines) // nobody writes to it any more
	// Output:
	// stopped before it ran: false
	// [goodbye goodbye goodbye]
}

// A value bound to a loop is used and destroyed there, and the loop does not end before it.
func ExampleBind() {
	ctx := context.Background()
	loop := inflight.NewLoop(inflight.LoopConfig{Name: "window", Pinned: true})
	texture, err := inflight.Bind(loop, "texture 3", 3, func(id int) error {
		fmt.Println("destroyed", id)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(texture.Do(ctx, func(id int) error { fmt.Println("drawn", id); return nil }))
	fmt.Println(loop.Shutdown(ctx))
	fmt.Println(texture.Destroy(ctx)) // returns after it ran
	fmt.Println(loop.Shutdown(ctx))
	// Output:
	// drawn 3
	// <nil>
	// inflight: shut window down: values are bound to it: destroy texture 3 first
	// destroyed 3
	// <nil>
	// <nil>
}

func ExampleLoop() {
	loop := inflight.NewLoop(inflight.LoopConfig{})
	for i := range 3 {
		if err := loop.Post(func() { fmt.Println("step", i) }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(loop.Shutdown(context.Background())) // runs what was posted
	fmt.Println(loop.Post(func() {}))
	// Output:
	// step 0
	// step 1
	// step 2
	// <nil>
	// inflight: post to loop: no new work is taken
}

// Every stage has its own budget: one that is stuck does not cost the others theirs.
func ExampleShutdown() {
	stuck := make(chan struct{})
	err := inflight.Shutdown(context.Background(),
		inflight.Stage{Name: "listener", Stop: func(context.Context) error { fmt.Println("listener"); return nil }},
		inflight.Stage{
			Name: "operations", Budget: 10 * time.Millisecond, Grace: 10 * time.Millisecond,
			Stop: func(context.Context) error { fmt.Println("operations"); <-stuck; return nil },
		},
		inflight.Stage{Name: "loops", Stop: func(context.Context) error { fmt.Println("loops"); return errors.New("disk full") }},
	)
	failed, ok := errors.AsType[*inflight.ShutdownError](err)
	if !ok {
		return
	}
	for _, s := range failed.Stages {
		fmt.Println(s, errors.Is(s, inflight.ErrStuck))
	}
	close(stuck)
	<-failed.Stages[0].Done // before ending what the stuck stage uses
	// Output:
	// listener
	// operations
	// loops
	// stage operations: it has not stopped and goes on (after 20ms) true
	// stage loops: disk full false
}

// An end of ownership does not look like the end of the data.
func ExampleNewReader() {
	buf := inflight.Own([]byte("payload"), nil)
	r := inflight.NewReader(buf, buf.Len())
	start := make([]byte, 3)
	n, err := r.Read(start)
	fmt.Println(string(start[:n]), err)
	fmt.Println(buf.Release())
	rest, err := io.ReadAll(r)
	fmt.Println(len(rest), err)
	// Output:
	// pay <nil>
	// <nil>
	// 0 inflight: read a buffer: already released
}

func ExampleNewWriter() {
	buf := inflight.Own(make([]byte, 8), nil)
	w := inflight.NewWriter(buf)
	fmt.Fprint(w, "frame ", 1)
	fmt.Printf("%q\n", buf.Bytes()[:w.Len()])
	// Output: "frame 1"
}
