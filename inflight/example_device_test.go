package inflight_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/inflight"
)

// disk is a device that reads blocks in its own time. Closed while it reads, it would write to
// memory that is somebody else's by then.
type disk struct {
	requests chan request
	ended    chan struct{}
}

type request struct {
	completer inflight.Completer[int]
	spin      chan struct{} // the head is there when this is closed
	cancel    chan error
}

func openDisk() *disk {
	d := &disk{requests: make(chan request), ended: make(chan struct{})}
	go d.run()
	return d
}

func (d *disk) run() {
	defer close(d.ended)
	for r := range d.requests {
		select {
		case <-r.spin:
			r.completer.Complete(copy(r.completer.Bytes(), "block"), nil)
		case cause := <-r.cancel:
			r.completer.Complete(0, cause)
		}
	}
}

// read is the registration: it gives the completer to the device and says how to ask it to
// cancel, which does not wait.
func (d *disk) read(spin chan struct{}) func(inflight.Completer[int]) (func(error), error) {
	return func(c inflight.Completer[int]) (func(error), error) {
		r := request{c, spin, make(chan error, 1)}
		d.requests <- r
		return func(cause error) { r.cancel <- cause }, nil
	}
}

func (d *disk) close() error {
	close(d.requests)
	<-d.ended
	fmt.Println("disk closed")
	return nil
}

// A device from its first read to its end: a read that succeeds, one that is waited for in vain
// and then cancelled, one that nobody waits for any more; then all are drained and the device,
// which nothing uses any more, is closed.
func Example() {
	ctx := context.Background()
	d, set, pool := openDisk(), &inflight.Set{Name: "disk"}, &inflight.Pool{Size: 8}
	there, never := make(chan struct{}), make(chan struct{})
	close(there)
	read := func(spin chan struct{}) (inflight.Op[int], error) {
		return inflight.Start(set, inflight.Config[int]{Name: "read"}, pool.Get(), d.read(spin))
	}

	// A read that succeeds. The buffer was the operation's; Take gives it back.
	op, err := read(there)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, buf, err := op.Take(ctx)
	fmt.Printf("%s %v\n", buf.Bytes()[:n], err)
	if err := buf.Release(); err != nil {
		fmt.Println(err)
	}

	// One that takes too long. That the wait gave up ended nothing: cancel, and wait for the
	// end, which is quick now.
	op, err = read(never)
	if err != nil {
		fmt.Println(err)
		return
	}
	patience, stop := context.WithTimeout(ctx, 0) // as little as can be, for the example
	defer stop()
	_, _, err = op.Take(patience)
	fmt.Println("gave up:", errors.Is(err, inflight.ErrPending))
	op.Cancel(errors.New("too slow"))
	_, buf, err = op.Take(ctx)
	fmt.Println(err, "- the buffer is back:", buf.Release() == nil)

	// One that nobody waits for. The set owns it.
	op, err = read(never)
	if err != nil {
		fmt.Println(err)
		return
	}
	op.Abandon()
	fmt.Println("closed too early:", errors.Is(set.Destroy(d.close), inflight.ErrOpen))

	// The end: every operation first, then the device.
	if err := set.Drain(ctx, errors.New("shutting down")); err != nil {
		fmt.Println(err) // names what does not end; the device must stay open
		return
	}
	fmt.Println(set.Destroy(d.close))
	// Output:
	// block <nil>
	// gave up: true
	// too slow - the buffer is back: true
	// closed too early: true
	// disk closed
	// <nil>
}
