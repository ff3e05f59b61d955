package inflight

import (
	"fmt"
	"io"
)

// Reader reads the bytes of a buffer as an io.Reader, for code that cannot know whether it is
// still owned. It is for one goroutine.
type Reader struct {
	b   *Buffer
	n   int
	off int
}

// NewReader reads the first n bytes of b, all when it has no more.
func NewReader(b *Buffer, n int) *Reader { return &Reader{b: b, n: min(max(n, 0), b.Len())} }

// Read copies the next bytes, and returns io.EOF after the last. While the buffer is in flight
// it returns ErrInFlight and after its Release ErrReleased, never io.EOF: an end of ownership
// must not look like the end of the data.
func (r *Reader) Read(p []byte) (int, error) {
	r.b.mu.Lock() // while copying, so that it can be neither lent nor released
	defer r.b.mu.Unlock()
	if err := r.b.usableLocked(); err != nil {
		return 0, fmt.Errorf("inflight: read a buffer: %w", err)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if r.off == r.n {
		return 0, io.EOF
	}
	n := copy(p, r.b.bytes[r.off:r.n])
	r.off += n
	return n, nil
}

// Writer writes into a buffer from its beginning, as an io.Writer. It is for one goroutine.
type Writer struct {
	b   *Buffer
	off int
}

// NewWriter writes into b.
func NewWriter(b *Buffer) *Writer { return &Writer{b: b} }

// Len returns how many bytes were written.
func (w *Writer) Len() int { return w.off }

// Write copies p behind what was written before, or as much of it as there is room for, with
// io.ErrShortWrite. While the buffer is in flight it writes nothing and returns ErrInFlight,
// after its Release ErrReleased.
func (w *Writer) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if err := w.b.usableLocked(); err != nil {
		return 0, fmt.Errorf("inflight: write a buffer: %w", err)
	}
	n := copy(w.b.bytes[w.off:], p)
	w.off += n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
