package scope

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/guard"
)

var (
	// ErrClosed says that a scope or its workers take no more work, and is the cause of their
	// contexts once they have ended.
	ErrClosed = errors.New("the scope is closed")
	// ErrInside says that a wait for a scope was given the context of its own children, and so
	// would wait for its caller.
	ErrInside = errors.New("called with the context of the scope's own children, whom it waits for")
	// ErrEmpty says that there was nothing to choose from.
	ErrEmpty = errors.New("there is nothing to run")
	// ErrLost is the cause of the context of a racer that did not win.
	ErrLost = errors.New("another one won the race")
)

// Failures are the errors of several children, in the order in which they came.
type Failures struct {
	Errs []error // the first of them
	More int     // how many came after them
}

// Error prints one line.
func (f *Failures) Error() string {
	lines := make([]string, len(f.Errs), len(f.Errs)+1)
	for i, err := range f.Errs {
		lines[i] = err.Error()
	}
	if f.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", f.More))
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the errors that were kept.
func (f *Failures) Unwrap() []error { return f.Errs }

func (f *Failures) add(err error, keep int) {
	if len(f.Errs) < keep {
		f.Errs = append(f.Errs, err)
	} else {
		f.More++
	}
}

// join returns nil, the one error, or a copy of them all.
func (f *Failures) join() error {
	switch {
	case len(f.Errs) == 0:
		return nil
	case len(f.Errs) == 1 && f.More == 0:
		return f.Errs[0]
	}
	all := *f
	return &all
}

// StillRunning says that a wait ended before the work.
type StillRunning struct {
	Scope    string
	Children []Child // the newest first
	Cause    error   // why the wait ended
	Failed   error   // of the children that have ended, so far; nil if none has failed
}

// Error names the children and how long they have run.
func (e *StillRunning) Error() string {
	names := make([]string, len(e.Children))
	for i, c := range e.Children {
		names[i] = cmp.Or(c.Name, "child")
		if c.Age > 0 {
			names[i] += " for " + c.Age.Round(time.Millisecond).String()
		}
	}
	name := "scope"
	if e.Scope != "" {
		name += " " + e.Scope
	}
	if len(names) == 0 {
		return fmt.Sprintf("%s has not ended, it releases what it owns: %v", name, e.Cause)
	}
	text := fmt.Sprintf("%s has not ended, still running: %s: %v", name, strings.Join(names, ", "), e.Cause)
	if e.Failed != nil {
		text += fmt.Sprintf("; failed so far: %v", e.Failed)
	}
	return text
}

// Unwrap returns the cause, and the failures if there are any.
func (e *StillRunning) Unwrap() []error {
	if e.Failed == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Failed}
}

// ChildPanic is the value with which a child's panic goes on in the caller of Run.
type ChildPanic struct {
	Child string
	*guard.PanicError
}

// Error prints the value and the child's stack, for nothing else would show that.
func (p *ChildPanic) Error() string {
	return fmt.Sprintf("child %q: %v\n\n%s", p.Child, p.PanicError, p.Stack)
}

// Unwrap returns the panic without the child.
func (p *ChildPanic) Unwrap() error { return p.PanicError }

// refusal says why nothing is started.
func (s *Scope) refusal(name string, cause error) error {
	if errors.Is(cause, ErrClosed) {
		return fmt.Errorf("scope: start %s: %w", s.label(name), ErrClosed)
	}
	return fmt.Errorf("scope: start %s: %w: %w", s.label(name), ErrClosed, cause)
}

func (s *Scope) label(child string) string {
	child = cmp.Or(child, "child")
	if s.cfg.Name == "" {
		return child
	}
	return s.cfg.Name + ": " + child
}
