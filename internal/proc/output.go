package proc

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// An output passes a command's output on. Each stream has a goroutine that
// reads its pipe to the end; finish waits for both.
type output struct {
	stdout, stderr *stream
	tail           *tail
	wg             sync.WaitGroup
}

// A stream is one pipe from the command.
type stream struct {
	r, w *os.File
	// mu is the command's, so that its two streams never write at once.
	mu *sync.Mutex
	to []io.Writer
	// err is the first write that failed. What comes after it is discarded.
	err error
}

// connect opens the pipes. A stdout that nobody wants has none.
func (c Command) connect() (*output, error) {
	size := c.Tail
	if size <= 0 {
		size = DefaultTail
	}
	out := &output{tail: &tail{size: size}}
	mu := new(sync.Mutex)
	var err error
	if out.stderr, err = newStream(mu, out.tail, c.Stderr); err != nil {
		return nil, err
	}
	if c.Stdout == nil {
		return out, nil
	}
	if out.stdout, err = newStream(mu, c.Stdout); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

func newStream(mu *sync.Mutex, to ...io.Writer) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{r: r, w: w, mu: mu}
	for _, w := range to {
		if w != nil {
			s.to = append(s.to, w)
		}
	}
	return s, nil
}

// childEnds returns what the command writes to; a nil is discarded.
func (o *output) childEnds() (stdout, stderr io.Writer) {
	if o.stdout != nil {
		stdout = o.stdout.w
	}
	return stdout, o.stderr.w
}

func (o *output) streams() []*stream {
	if o.stdout == nil {
		return []*stream{o.stderr}
	}
	return []*stream{o.stdout, o.stderr}
}

// started begins to read, once the command has its own copies of the ends.
func (o *output) started() {
	for _, s := range o.streams() {
		s.w.Close()
		o.wg.Go(s.pass)
	}
}

// close gives the pipes of a command back that did not start.
func (o *output) close() {
	for _, s := range o.streams() {
		s.w.Close()
		s.r.Close()
	}
}

// finish waits until what the group wrote is passed on, and returns the writes
// that failed. The group is gone by now: the past deadline only wakes a read
// that waits for a process outside the group.
func (o *output) finish() error {
	for _, s := range o.streams() {
		s.r.SetReadDeadline(time.Unix(1, 0))
	}
	o.wg.Wait()
	var errs []error
	for _, s := range o.streams() {
		s.r.Close()
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

func (s *stream) pass() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.r.Read(buf)
		s.write(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.passRest(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.to {
		if s.err != nil || len(p) == 0 {
			return
		}
		_, s.err = w.Write(p)
	}
}

// A tail keeps the last bytes written to it.
type tail struct {
	size int
	buf  []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.size; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the text without a broken first character, control characters
// or space at the end.
func (t *tail) String() string {
	b := t.buf
	for t.cut && len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD"))
	text = strings.TrimRight(text, " \t\n")
	if t.cut {
		text = "…" + text
	}
	return text
}
