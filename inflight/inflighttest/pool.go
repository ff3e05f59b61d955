package inflighttest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/berth-dev/berth/inflight"
)

const (
	poison = 0xDB // in memory that nobody owns
	guard  = 0xA5 // around memory that somebody owns
	zone   = 64   // bytes of it on each side
)

// Pool makes buffers as inflight.Pool does, and reports to the test who breaks the rules. It
// fills the memory of a buffer that came back with 0xDB and looks at Get, and when the test
// ends, whether that is untouched; it has guard bytes around each buffer. When the test ends it
// also reports buffers that never came back. Its methods may be called from any goroutine.
type Pool struct {
	t    testing.TB
	size int

	mu   sync.Mutex // guards the fields below
	out  int
	free []*block
}

// block is the memory of a buffer.
type block struct {
	all  []byte // with the guard bytes
	last string // the operation that had it last
}

// NewPool makes a pool of buffers of size bytes for the test. Call it before Watch: then the
// set is drained before the pool counts its buffers.
func NewPool(t testing.TB, size int) *Pool {
	p := &Pool{t: t, size: size}
	t.Cleanup(p.check)
	return p
}

// Get returns a buffer, full of 0xDB. It does not wait.
func (p *Pool) Get() *inflight.Buffer {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out++
	k := p.blockLocked()
	own := k.all[zone : zone+p.size : zone+p.size]
	return inflight.Own(own, func(own []byte, last string) { p.back(k, own, last) })
}

// Out returns how many buffers have not come back.
func (p *Pool) Out() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// blockLocked returns the memory that came back last, so that a late writer is found soon.
func (p *Pool) blockLocked() *block {
	last := len(p.free) - 1
	if last < 0 {
		all := bytes.Repeat([]byte{guard}, p.size+2*zone)
		fill(all[zone:zone+p.size], poison)
		return &block{all: all}
	}
	k := p.free[last]
	p.free = p.free[:last]
	p.wantPoison(k)
	return k
}

func (p *Pool) back(k *block, own []byte, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	k.last = last
	p.wantZones(k)
	fill(own, poison)
	p.free = append(p.free, k)
}

// check looks at everything when the test ends.
func (p *Pool) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.free {
		p.wantPoison(k)
		p.wantZones(k)
	}
	if p.out != 0 {
		p.t.Errorf("%d buffers never came back to their pool", p.out)
	}
}

func (p *Pool) wantPoison(k *block) {
	p.t.Helper()
	own := k.all[zone : zone+p.size]
	if at := differs(own, poison); at >= 0 {
		p.t.Errorf("byte %d of a released buffer was written to; the last operation with it was %s, whose source must not touch it after it completed", at, k.name())
		fill(own, poison) // told once
	}
}

func (p *Pool) wantZones(k *block) {
	p.t.Helper()
	for _, at := range []int{0, zone + p.size} {
		side := k.all[at : at+zone]
		if i := differs(side, guard); i >= 0 {
			p.t.Errorf("byte %d of a buffer of %d was written to, outside of it; the last operation with it was %s", at+i-zone, p.size, k.name())
			fill(side, guard)
		}
	}
}

func (k *block) name() string {
	if k.last == "" {
		return "none: its owner wrote"
	}
	return k.last
}

func differs(b []byte, from byte) int {
	for i, c := range b {
		if c != from {
			return i
		}
	}
	return -1
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}
