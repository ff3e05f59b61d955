package inflight

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Kind names what an Event is about.
type Kind string

const (
	// Late: a completion came after a Wait or Take had given up. It counts like any other.
	Late Kind = "late"
	// Refused: a source broke the rules: it completed twice, or its registration failed and
	// it completed. The first counted; Err tells of the other, whose value stays the source's.
	Refused Kind = "refused"
	// Untaken: Drain found a result that nobody took, and disposes of it. Err is the
	// operation's own, nil for a value.
	Untaken Kind = "untaken"
)

// Event tells an observer what went wrong.
type Event struct {
	Set       string
	Operation string // its name and number
	Kind      Kind
	Err       error
	Age       time.Duration // since Start
	Stack     string        // where it was started; empty unless Set.Trace
}

// birth is how and where an operation began.
type birth struct {
	label
	started time.Time
	callers []uintptr
}

// label names an operation.
type label struct {
	name   string
	number uint64
}

func (l label) String() string {
	if l.name == "" {
		l.name = "operation"
	}
	if l.number == 0 {
		return l.name // it never got into a set
	}
	return fmt.Sprintf("%s #%d", l.name, l.number)
}

// callers returns the stack of whoever called Start.
func callers() []uintptr {
	const above = 3 // runtime.Callers, callers, Start
	pcs := make([]uintptr, 24)
	return pcs[:runtime.Callers(above, pcs)]
}

func (b *birth) stack() string {
	if len(b.callers) == 0 {
		return ""
	}
	var text strings.Builder
	frames := runtime.CallersFrames(b.callers)
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Fprintf(&text, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return text.String()
}
