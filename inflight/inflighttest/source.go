package inflighttest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-dev/berth/inflight"
)

// Script is what a Source does with an operation.
type Script int

const (
	// OnCall completes when the test calls Complete, which may have copied something into
	// Bytes before, as no script does by itself. It has no cancel function.
	OnCall Script = iota
	// Inline completes inside Register.
	Inline
	// BeforeReturn completes on another goroutine before Register returns.
	BeforeReturn
	// FailedRegistration returns an error from Register. The test may still call Complete.
	FailedRegistration
	// FailedAndCompleted completes inside Register and then returns an error.
	FailedAndCompleted
	// Panicking panics in Register after it published the completer.
	Panicking
	// Never never completes, whatever the test calls. It notes a cancel.
	Never
	// Twice completes twice inside Register.
	Twice
	// AfterCancel completes with the cause as its error, inside its cancel function.
	AfterCancel
	// IgnoringCancel notes a cancel and completes when the test calls Complete.
	IgnoringCancel
	// AfterClose is AfterCancel, but keeps the completer: Complete fires it again, after the
	// drain.
	AfterClose
)

// ErrRegistration is what the failing scripts return when the Source has no Err.
var ErrRegistration = errors.New("the registration failed")

// Source completes operations by a script. Its Register is made for inflight.Start. The zero
// value is ready to use, for one operation at a time; set the fields before that. Its methods
// may be called from any goroutine.
type Source[T any] struct {
	Script Script
	Value  T     // to complete with
	Err    error // to complete with, or of the registration that fails

	// Gate keeps Register from returning, after everything else in it, until the channel is
	// closed or something is sent. Optional.
	Gate <-chan struct{}

	mu        sync.Mutex // guards the fields below
	completer inflight.Completer[T]
	book      []string
}

// Register plays the script up to its return.
func (s *Source[T]) Register(c inflight.Completer[T]) (cancel func(cause error), err error) {
	s.mu.Lock()
	s.completer = c
	s.book = append(s.book, "register")
	s.mu.Unlock()
	s.act()
	if s.Gate != nil {
		<-s.Gate
	}
	defer s.note("registered")
	switch s.Script {
	case Panicking:
		panic(s.failure())
	case FailedRegistration, FailedAndCompleted:
		return nil, s.failure()
	}
	return s.cancelFunc(), nil
}

// act completes inside Register where the script says so.
func (s *Source[T]) act() {
	switch s.Script {
	case Inline:
		s.complete(s.Value, s.Err)
	case FailedAndCompleted:
		s.complete(s.Value, nil)
	case Twice:
		s.complete(s.Value, s.Err)
		s.complete(s.Value, s.Err)
	case BeforeReturn:
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.complete(s.Value, s.Err)
		}()
		<-done
	}
}

func (s *Source[T]) cancelFunc() func(error) {
	switch s.Script {
	case Never, IgnoringCancel:
		return s.noteCancel
	case AfterCancel, AfterClose:
		return func(cause error) {
			s.noteCancel(cause)
			var none T
			s.complete(none, cause)
		}
	}
	return nil
}

func (s *Source[T]) failure() error {
	if s.Err == nil {
		return ErrRegistration
	}
	return s.Err
}

// Complete completes the operation registered last, on the caller's goroutine, and says whether
// that counted. It may be called at any time and again.
func (s *Source[T]) Complete() bool {
	if s.Script == Never {
		return false
	}
	if s.Script == FailedRegistration {
		return s.complete(s.Value, nil)
	}
	return s.complete(s.Value, s.Err)
}

func (s *Source[T]) complete(v T, err error) bool {
	s.mu.Lock()
	c := s.completer
	s.mu.Unlock()
	won := c.Complete(v, err)
	s.note(fmt.Sprintf("complete %v", won))
	return won
}

// Bytes returns those of the operation registered last, as its Completer does: nil once it has
// completed.
func (s *Source[T]) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.completer.Bytes()
}

func (s *Source[T]) noteCancel(cause error) { s.note(fmt.Sprintf("cancel: %v", cause)) }

func (s *Source[T]) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book = append(s.book, line)
}

// Book returns what happened, in order: "register", "registered" when Register returned or
// panicked, "cancel: " with the cause, "complete true" and "complete false".
func (s *Source[T]) Book() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.book)
}
