package inflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Set owns the operations on one thing. It starts empty and open, and is ended by Drain. The
// zero value is ready to use; set the fields before the first Start. A Set must not be copied.
// All methods may be called from any goroutine.
type Set struct {
	// Name stands in errors and events. Empty means "set".
	Name string

	// Trace records where each operation was started, for errors and events. It costs about a
	// microsecond and one allocation for each.
	Trace bool

	// Observe hears what went wrong without anybody waiting for it. It is called on the
	// goroutine where it happened, may be called by several at once, and must not block or
	// panic. Optional.
	Observe func(Event)

	mu     sync.Mutex // guards the fields below
	closed bool
	last   uint64            // number given out
	open   map[uint64]member // by number
	empty  chan struct{}     // closed when closed and nothing is open
	stats  Stats
	gone   chan struct{} // made by the first Destroy that is not refused; closed when it is over

	destroyed error // of that Destroy; before gone
}

// member is an operation of any type.
type member interface {
	drain(cause error)
	describe() Open
}

// Stats counts what a Set has seen. Started is Settled plus those in flight.
type Stats struct {
	Started uint64 // operations whose registration was called
	Settled uint64 // of them, those that have settled, registrations that failed included
	Late    uint64 // completions that came after a Wait or Take had given up
	Refused uint64 // completions, and errors of registrations, that lost to another completion
	Untaken uint64 // results that Drain found with nobody to take them
	Open    int    // operations in flight, or settled with a result nobody has taken yet
}

// Stats returns the counts as they are now. It does not block.
func (s *Set) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stats
	now.Open = len(s.open)
	return now
}

// Open describes the operations that the Set owns now, oldest first: those in flight and those
// whose result nobody has taken. It does not block.
func (s *Set) Open() []Open {
	var all []Open
	for _, m := range s.members() {
		all = append(all, m.describe())
	}
	return all
}

// Drain ends the operations. It takes no new ones, asks every one to cancel with the cause (nil
// means ErrClosed), waits until all have settled, and disposes of results that nobody took or
// waits in Take for: the value goes to Dispose, the buffer is released whoever still holds its
// handle, and Observe is told.
//
// When ctx ends before that, Drain returns an *OpenError that names what is open, which stays
// owned and locked; a later Drain waits on. It may be called any number of times and by several
// at once; the first cause counts. Cancel and Dispose functions that are due run on goroutines
// of their own, which Drain waits for in the same way.
//
// From inside a function of an operation, of whatever Set, it does nothing but return ErrInside.
func (s *Set) Drain(ctx context.Context, cause error) error {
	if inside() {
		return fmt.Errorf("inflight: drain %s: %w: let another goroutine do it", s.name(), ErrInside)
	}
	if cause == nil {
		cause = ErrClosed
	}
	empty := s.close()
	for _, m := range s.members() {
		m.drain(cause)
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	if open := s.Open(); len(open) > 0 {
		return &OpenError{Set: s.name(), Open: open, Cause: context.Cause(ctx)}
	}
	return nil
}

// Destroy ends the thing that the Set stands for. Before the Set is drained it returns an
// *OpenError and does not call f. Drained means that Drain was called and nothing is open any
// more, also where that Drain gave up waiting. After that the first call calls f, once, and every other
// waits for it and returns the same result. f must not call Destroy, which would wait for itself.
func (s *Set) Destroy(f func() error) error {
	if f == nil {
		return fmt.Errorf("inflight: destroy %s: the function is nil", s.name())
	}
	first, ok := s.claimDestroy()
	if !ok {
		return &OpenError{Set: s.name(), Open: s.Open()}
	}
	if first {
		s.runDestroy(f)
	}
	<-s.gone
	return s.destroyed
}

// claimDestroy says whether the set is drained and whether the caller is the first to ask then.
func (s *Set) claimDestroy() (first, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed || len(s.open) > 0 {
		return false, false
	}
	if first = s.gone == nil; first {
		s.gone = make(chan struct{})
	}
	return first, true
}

func (s *Set) runDestroy(f func() error) {
	s.destroyed = fmt.Errorf("inflight: destroy %s: %w", s.name(), errUnfinished)
	defer close(s.gone)
	s.destroyed = f()
}

// close admits nothing more. It returns the channel that is closed when nothing is open.
func (s *Set) close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed, s.empty = true, make(chan struct{})
		s.emptyLocked()
	}
	return s.empty
}

func (s *Set) emptyLocked() {
	if s.closed && len(s.open) == 0 {
		close(s.empty)
	}
}

// admit lets m in and numbers it.
func (s *Set) admit(m member, b *birth) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.open == nil {
		s.open = make(map[uint64]member)
	}
	s.last++
	s.stats.Started++
	b.number = s.last
	s.open[s.last] = m
	return nil
}

// remove lets a member go that has ended.
func (s *Set) remove(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, number)
	s.emptyLocked()
}

// withdraw undoes an admit: the registration was not called.
func (s *Set) withdraw(number uint64) {
	s.count(func(s *Stats) { s.Started-- })
	s.remove(number)
}

func (s *Set) count(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

func (s *Set) members() []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []member
	for _, number := range slices.Sorted(maps.Keys(s.open)) {
		all = append(all, s.open[number])
	}
	return all
}

func (s *Set) name() string {
	if s.Name == "" {
		return "set"
	}
	return s.Name
}

func (s *Set) tell(e Event) {
	if s.Observe != nil {
		e.Set = s.name()
		s.Observe(e)
	}
}
