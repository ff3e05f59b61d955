package inflight

import (
	"fmt"
	"sync"
)

// Buffer owns bytes that operations borrow. It begins with Own or Pool.Get and is ended by
// Release. Between a Start with it and the settling of that operation it is in flight. All
// methods may be called from any goroutine.
type Buffer struct {
	bytes []byte
	home  home

	mu       sync.Mutex // guards the fields below
	inFlight bool
	released bool
	last     label // the operation that has it, or had it last
}

// home gets the bytes back.
type home interface {
	back(bytes []byte, last label)
}

type homeFunc func(bytes []byte, last string)

func (f homeFunc) back(bytes []byte, last label) {
	name := ""
	if last.number != 0 {
		name = last.String()
	}
	within(func() { f(bytes, name) })
}

// Own makes a buffer of bytes, which the caller must not touch from then on but through it.
// back, unless nil, is called once with no lock held when the buffer was released and is not in
// flight, with the name of the operation that had it last; empty if none had.
func Own(bytes []byte, back func(bytes []byte, last string)) *Buffer {
	b := &Buffer{bytes: bytes}
	if back != nil {
		b.home = homeFunc(back)
	}
	return b
}

// Len returns the number of bytes, at any time.
func (b *Buffer) Len() int { return len(b.bytes) }

// Bytes returns the bytes. They must not be used after the next Start with the buffer, nor
// after its Release. To ask for them while it is in flight or after its Release is a fault of
// the program: Bytes panics and names the operation. What cannot be sure asks Reader or Writer.
func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usableLocked(); err != nil {
		panic(fmt.Errorf("inflight: bytes of a buffer: %w", err))
	}
	return b.bytes
}

// Release gives the bytes back to where they came from: at once, or when the operation has
// settled that has them. It does not wait. The second call returns ErrReleased.
func (b *Buffer) Release() error {
	b.mu.Lock()
	if b.released {
		defer b.mu.Unlock()
		return fmt.Errorf("inflight: release a buffer: %w", ErrReleased)
	}
	b.released = true
	return b.homeUnlock()
}

// homeUnlock unlocks, and sends the bytes home if nobody can touch them any more.
func (b *Buffer) homeUnlock() error {
	home, last := b.home, b.last
	free := b.released && !b.inFlight
	b.mu.Unlock()
	if free && home != nil {
		home.back(b.bytes, last)
	}
	return nil
}

func (b *Buffer) usableLocked() error {
	switch {
	case b.inFlight:
		return fmt.Errorf("%w with %v", ErrInFlight, b.last)
	case b.released:
		return ErrReleased
	}
	return nil
}

// enter lends the buffer to an operation.
func (b *Buffer) enter(to label) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usableLocked(); err != nil {
		return err
	}
	b.inFlight, b.last = true, to
	return nil
}

// leave: the operation has settled.
func (b *Buffer) leave() {
	if b == nil {
		return
	}
	b.mu.Lock()
	if !b.inFlight {
		b.mu.Unlock()
		return
	}
	b.inFlight = false
	b.homeUnlock()
}

// giveUp releases the buffer of a result nobody takes, unless its owner has.
func (b *Buffer) giveUp() {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.released {
		b.mu.Unlock()
		return
	}
	b.released = true
	b.homeUnlock()
}

// raw is for the operation that has the buffer.
func (b *Buffer) raw() []byte {
	if b == nil {
		return nil
	}
	return b.bytes
}

// Pool makes buffers of one size and uses their memory again. The zero value is ready to use;
// set the fields before the first Get. Its methods may be called from any goroutine.
type Pool struct {
	// Size is the length of each buffer in bytes. Zero, or less, means 32 KiB.
	Size int
	// Keep is how much free memory the pool keeps, in buffers. Zero means 64; less, none.
	Keep int

	mu   sync.Mutex // guards the field below
	free [][]byte
}

// Get returns a buffer; what is in it is left over from earlier uses. It does not wait. Each
// Get returns a new handle, so a stale one reaches nothing of the next owner's.
func (p *Pool) Get() *Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return &Buffer{bytes: make([]byte, p.size()), home: p}
	}
	bytes := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
	return &Buffer{bytes: bytes, home: p}
}

func (p *Pool) back(bytes []byte, _ label) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < p.keep() {
		p.free = append(p.free, bytes)
	}
}

func (p *Pool) size() int {
	if p.Size <= 0 {
		return 32 << 10
	}
	return p.Size
}

func (p *Pool) keep() int {
	if p.Keep == 0 {
		return 64
	}
	return p.Keep
}
