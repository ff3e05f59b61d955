package inflight

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Executor runs functions somewhere, such as on the one thread that may touch a window. Post
// takes f to be run, in the order of the posts, or fails and never runs it. It must not wait
// for f, nor call it before it returns. Loop is one.
type Executor interface {
	Post(f func()) error
}

// LoopConfig says what a Loop is. The zero value is ready to use.
type LoopConfig struct {
	// Name stands in errors. Empty means "loop".
	Name string
	// Pinned gives the loop an OS thread of its own, for code that must always run on the same
	// one. The thread ends with the loop; outside Linux it can be the process's main thread,
	// which the runtime puts to sleep instead.
	Pinned bool
}

// Loop is one goroutine that runs posted functions one after the other. It starts with NewLoop
// and is ended by Shutdown, which is refused while values are bound to it. Its methods may be
// called from any goroutine, its own functions included.
type Loop struct {
	conf LoopConfig
	done chan struct{} // closed when the goroutine has run its last function

	mu     sync.Mutex // guards the fields below
	work   *sync.Cond // for the goroutine: the queue or closed changed
	id     uint64     // of the goroutine
	queue  []func()
	closed bool
	last   uint64
	values map[uint64]string // bound to it: their names
}

// NewLoop starts a loop.
func NewLoop(c LoopConfig) *Loop {
	if c.Name == "" {
		c.Name = "loop"
	}
	l := &Loop{conf: c, done: make(chan struct{}), values: make(map[uint64]string)}
	l.work = sync.NewCond(&l.mu)
	go l.live() // waited for by Shutdown
	return l
}

func (l *Loop) live() {
	if l.conf.Pinned {
		runtime.LockOSThread() // for ever: a goroutine that ends locked takes its thread with it
		if onMainThread() {
			l.leaveMainThread()
			return
		}
	}
	l.serve()
}

// leaveMainThread goes on in another goroutine. The runtime never ends the main thread; since
// this goroutine keeps it until the other has its own, that is a different one.
func (l *Loop) leaveMainThread() {
	defer runtime.UnlockOSThread()
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		l.serve()
	}()
	<-locked
}

func (l *Loop) serve() {
	defer close(l.done)
	id := goroutine()
	l.mu.Lock()
	l.id = id
	l.mu.Unlock()
	l.run()
}

// run calls the functions until the end. A function that calls runtime.Goexit ends itself and
// not the loop: the loop goes on in the deferred call, on the same goroutine and so the same
// thread. A panic is not contained.
func (l *Loop) run() {
	ended := false
	defer func() {
		if ended {
			return
		}
		if p := recover(); p != nil {
			panic(p)
		}
		l.run()
	}()
	for f := l.next(); f != nil; f = l.next() {
		f()
	}
	ended = true
}

// next waits for a function; nil at the end.
func (l *Loop) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.work.Wait()
	}
	if len(l.queue) == 0 {
		return nil
	}
	f := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	return f
}

// Post lets the loop run f after what was posted before. It does not wait, and the queue has no
// limit. When the loop is shut down it returns ErrClosed and never runs f. A panic in f ends
// the program; a runtime.Goexit ends only f.
func (l *Loop) Post(f func()) error {
	if f == nil {
		return fmt.Errorf("inflight: post to %s: the function is nil", l.conf.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("inflight: post to %s: %w", l.conf.Name, ErrClosed)
	}
	l.queue = append(l.queue, f)
	l.work.Signal()
	return nil
}

// Shutdown ends the loop: it takes no more functions, runs those it has, and returns when the
// last has returned. While values are bound to the loop, Shutdown changes nothing and returns
// an error that is ErrOwned and names them: destroy them first. When ctx ends before the loop,
// it returns an error that is ErrPending and the cause; a later Shutdown waits on. From inside
// a function of the loop it changes nothing and returns ErrInside.
func (l *Loop) Shutdown(ctx context.Context) error {
	if l.within() {
		return fmt.Errorf("inflight: shut %s down: %w: let another goroutine do it", l.conf.Name, ErrInside)
	}
	if err := l.close(); err != nil {
		return err
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-l.done:
		return nil
	default:
		return l.busy(context.Cause(ctx))
	}
}

func (l *Loop) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.values) > 0 {
		names := slices.Sorted(maps.Values(l.values))
		return fmt.Errorf("inflight: shut %s down: %w: destroy %s first", l.conf.Name, ErrOwned, strings.Join(names, ", "))
	}
	l.closed = true
	l.work.Signal()
	return nil
}

func (l *Loop) busy(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("inflight: shut %s down: a function of it runs and %d wait: %w: %w", l.conf.Name, len(l.queue), ErrPending, cause)
}

// within says whether the caller runs in a function of the loop.
func (l *Loop) within() bool {
	id := goroutine()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id == id
}

// adopt keeps the loop from ending before free is called.
func (l *Loop) adopt(name string) (free func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	l.last++
	number := l.last
	l.values[number] = name
	return func() { l.free(number) }, nil
}

func (l *Loop) free(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.values, number)
}
