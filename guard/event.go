package guard

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Step names what an Event is about.
type Step string

const (
	// StepAcquire: Acquire returned, failed or panicked. Err nil means one more is held.
	StepAcquire Step = "acquire"
	// StepRelease: Release ended, or its hard limit passed (Err is ErrReleaseTimeout, and a
	// second event with Late follows when it ends).
	StepRelease Step = "release"
	// StepReclaim: Reclaim ended, or its hard limit passed, as for StepRelease.
	StepReclaim Step = "reclaim"
	// StepLeak: a lease of Open or Transfer was garbage collected before it was closed. It was
	// not released. Err tells where it was opened.
	StepLeak Step = "leak"
)

// Event tells an observer that a step ended.
type Event struct {
	Name    string        // the resource's
	Step    Step          // which step
	Outcome Outcome       // of the acquire, or of the work that the release or reclaim follows
	Err     error         // of the step; nil when it succeeded
	Took    time.Duration // how long the step took
	Held    time.Duration // StepRelease: from the end of Acquire to the start of Release
	Late    bool          // ended after its hard limit; the event of the limit came before
}

// opener remembers where a lease was opened, for the report that nobody closed it.
type opener struct {
	name    string
	observe func(Event)
	opened  time.Duration // by now
	callers []uintptr
}

// watch reports l if it is garbage collected before its release began. It never releases: the
// goroutine of cleanups belongs to the runtime and must not wait for I/O.
func (l *Lease[T]) watch() {
	if l.end.observe == nil {
		return
	}
	const above = 3 // runtime.Callers, watch, and Open or Transfer
	callers := make([]uintptr, 24)
	callers = callers[:runtime.Callers(above, callers)]
	leak := runtime.AddCleanup(l, opener.report, opener{l.end.name, l.end.observe, l.end.opened, callers})
	l.leak = &leak
}

// unwatch is called by who ends the handle.
func (l *Lease[T]) unwatch() {
	if l.leak != nil {
		l.leak.Stop()
	}
}

func (o opener) report() {
	o.observe(Event{
		Name: o.name, Step: StepLeak, Held: now() - o.opened,
		Err: fmt.Errorf("%s was never closed; opened at\n%s", o.name, o.stack()),
	})
}

func (o opener) stack() string {
	var b strings.Builder
	frames := runtime.CallersFrames(o.callers)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
