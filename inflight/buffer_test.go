package inflight_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/inflight"
	"github.com/berth-dev/berth/inflight/inflighttest"
)

func TestF13_BytesInFlight(t *testing.T) {
	b := newBench(t)
	s := &source{Value: 7}
	o, buf := b.start(t, s)
	for range 2 { // from any goroutine: wantPanic makes one for each
		err := wantPanic(t, inflight.ErrInFlight, func() { buf.Bytes() })
		wantText(t, err, "in flight with read #1")
	}
	_, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantIs(t, err, inflight.ErrInFlight)
	wantText(t, err, "start read #2", "in flight with read #1")
	wantSource(t, s, "register", "registered")

	if got := s.Bytes(); len(got) != 8 || buf.Len() != 8 {
		t.Errorf("the source has %d bytes of %d", len(got), buf.Len())
	}
	s.Bytes()[0] = 42
	s.Complete()
	if s.Bytes() != nil {
		t.Error("the source has the bytes after it completed")
	}
	if buf.Bytes()[0] != 42 {
		t.Error("the bytes are not what the source wrote")
	}
	wantTake(t, o, 7, nil)
	wantStats(t, b.set, inflight.Stats{Started: 1, Settled: 1})
}

func TestF13_BytesInsideOnComplete(t *testing.T) {
	b := newBench(t)
	c, s, buf := b.config(), &source{Script: inflighttest.Inline}, b.pool.Get()
	c.OnComplete = func(_ int, lent []byte, _ error) {
		lent[0] = 42
		wantPanic(t, inflight.ErrInFlight, func() { buf.Bytes() })
	}
	o, err := inflight.Start(b.set, c, buf, s.Register)
	wantNo(t, err)
	if buf.Bytes()[0] != 42 {
		t.Error("the bytes lent to OnComplete are not the buffer's")
	}
	wantTake(t, o, 0, nil)
}

func TestF14_ReleaseInFlight(t *testing.T) {
	b := newBench(t)
	s := &source{Script: inflighttest.IgnoringCancel, Value: 7}
	o, buf := b.start(t, s)
	wantNo(t, buf.Release())
	if b.pool.Out() != 1 {
		t.Fatal("the buffer went back in flight")
	}
	o.Cancel(errCause)
	s.Bytes()[0] = 42 // the memory is still the source's: poison would trip
	if b.pool.Out() != 1 {
		t.Fatal("the buffer went back on a cancel")
	}
	s.Complete()
	if b.pool.Out() != 0 {
		t.Error("the buffer did not go back when the operation settled")
	}
	_, back, err := o.Take(t.Context())
	wantNo(t, err)
	wantIs(t, back.Release(), inflight.ErrReleased)
	wantNo(t, b.pool.Get().Release())
}

func TestF15_ReleaseTwice(t *testing.T) {
	for name, get := range map[string]func() *inflight.Buffer{
		"Own":  func() *inflight.Buffer { return inflight.Own(make([]byte, 8), nil) },
		"Pool": (&inflight.Pool{}).Get,
		"test": inflighttest.NewPool(t, 8).Get,
	} {
		buf := get()
		first := &buf.Bytes()[0]
		wantNo(t, buf.Release())
		for range 2 {
			wantIs(t, buf.Release(), inflight.ErrReleased)
		}
		wantPanic(t, inflight.ErrReleased, func() { buf.Bytes() })
		_, err := inflight.Start(&inflight.Set{}, inflight.Config[int]{}, buf, (&source{}).Register)
		wantIs(t, err, inflight.ErrReleased)

		one, two := get(), get()
		if &one.Bytes()[0] == &two.Bytes()[0] {
			t.Errorf("%s: one array for two owners", name)
		}
		if name != "Own" && &one.Bytes()[0] != first {
			t.Errorf("%s: the memory was not used again", name)
		}
		wantNo(t, errors.Join(one.Release(), two.Release()))
	}
}

func TestF15_ManyReleaseAtOnce(t *testing.T) {
	for range 100 {
		pool := &inflight.Pool{Size: 1}
		buf := pool.Get()
		var all sync.WaitGroup
		good := make(chan bool, 4)
		for range cap(good) {
			all.Go(func() {
				if buf.Release() == nil {
					good <- true
				}
			})
		}
		all.Wait()
		one, two := pool.Get(), pool.Get()
		if len(good) != 1 || &one.Bytes()[0] == &two.Bytes()[0] {
			t.Fatalf("%d releases counted, or one array has two owners", len(good))
		}
	}
}

func TestPoolBounds(t *testing.T) {
	sizes := map[*inflight.Pool]int{{}: 32 << 10, {Size: -1}: 32 << 10, {Size: 8}: 8}
	for p, want := range sizes {
		if got := p.Get().Len(); got != want {
			t.Errorf("size %d gives %d bytes, want %d", p.Size, got, want)
		}
	}
	keeps := map[*inflight.Pool]int{{Size: 1}: 64, {Size: 1, Keep: 3}: 3, {Size: 1, Keep: -1}: 0}
	for p, want := range keeps {
		var all []*inflight.Buffer
		for range 70 {
			all = append(all, p.Get())
			all[len(all)-1].Bytes()[0] = 1
		}
		for _, b := range all {
			wantNo(t, b.Release())
		}
		kept := 0
		for range all {
			kept += int(p.Get().Bytes()[0])
		}
		if kept != want {
			t.Errorf("keep %d: %d buffers kept, want %d", p.Keep, kept, want)
		}
	}
}

func TestOwnTellsWhoHadTheBytesLast(t *testing.T) {
	set, told := &inflight.Set{}, "never"
	buf := inflight.Own(make([]byte, 1), func(_ []byte, last string) { told = last })
	wantNo(t, buf.Release())
	if told != "" {
		t.Errorf("told %q, want nobody", told)
	}
	buf = inflight.Own(make([]byte, 1), func(_ []byte, last string) { told = last })
	o, err := inflight.Start(set, inflight.Config[int]{}, buf, (&source{Script: inflighttest.Inline}).Register)
	wantNo(t, err)
	wantTake(t, o, 0, nil)
	if told != "operation #1" {
		t.Errorf("told %q, want the operation", told)
	}
}

func TestF27_ReaderAfterOwnershipEnded(t *testing.T) {
	b := newBench(t)
	buf, s := b.pool.Get(), &source{Value: 7}
	copy(buf.Bytes(), "12345678")
	part, all, none := inflight.NewReader(buf, 3), inflight.NewReader(buf, 99), inflight.NewReader(buf, -1)
	for r, want := range map[*inflight.Reader]string{part: "123", all: "12345678", none: ""} {
		if got, err := io.ReadAll(r); string(got) != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
		if n, err := r.Read(nil); n != 0 || err != nil {
			t.Errorf("an empty read at the end gave %d, %v", n, err)
		}
	}
	o, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantNo(t, err)
	fresh := inflight.NewReader(buf, 3)
	refuse := func(target error) {
		t.Helper()
		for _, r := range []*inflight.Reader{fresh, part, none} { // also of one that was at its end
			for _, p := range [][]byte{make([]byte, 4), nil} {
				n, err := r.Read(p)
				if wantIs(t, err, target); n != 0 || errors.Is(err, io.EOF) {
					t.Errorf("read %d, %v", n, err)
				}
			}
		}
	}
	refuse(inflight.ErrInFlight)
	s.Complete()
	wantTake(t, o, 7, nil)
	refuse(inflight.ErrReleased)
}

func TestF27_WriterAfterOwnershipEnded(t *testing.T) {
	b := newBench(t)
	buf, s := b.pool.Get(), &source{Value: 7}
	w := inflight.NewWriter(buf)
	n, err := io.Copy(w, strings.NewReader("123"))
	if n != 3 || err != nil || w.Len() != 3 {
		t.Errorf("wrote %d, %v, has %d", n, err, w.Len())
	}
	short, err := w.Write([]byte("456789"))
	if wantIs(t, err, io.ErrShortWrite); short != 5 || w.Len() != 8 {
		t.Errorf("wrote %d, has %d; want what there was room for", short, w.Len())
	}
	o, err := inflight.Start(b.set, b.config(), buf, s.Register)
	wantNo(t, err)
	w = inflight.NewWriter(buf)
	refuse := func(target error) {
		t.Helper()
		n, err := w.Write([]byte("x"))
		if wantIs(t, err, target); n != 0 || w.Len() != 0 {
			t.Errorf("wrote %d", n)
		}
	}
	refuse(inflight.ErrInFlight)
	if !bytes.Equal(s.Bytes(), []byte("12345678")) {
		t.Errorf("the buffer holds %q", s.Bytes())
	}
	s.Complete()
	wantTake(t, o, 7, nil)
	refuse(inflight.ErrReleased)
}
