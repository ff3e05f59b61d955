package inflight

import (
	"runtime"
	"strconv"
	"strings"
)

// within calls f. Every function of a user that belongs to an operation is called through it,
// so that inside can see it on the stack. That costs the many calls nothing and the few waits,
// which ask, a walk up their stack.
//
//go:noinline
func within(f func()) { f() }

const withinName = "github.com/berth-dev/berth/inflight.within"

// inside says whether the caller runs in a function of an operation, of whatever set.
func inside() bool {
	var pcs [32]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == withinName {
				return true
			}
		}
	}
}

// goroutine returns the number of the calling goroutine, never 0. Only loops and registrations
// ask, which must know exactly whether they are called from themselves; the runtime tells it
// nowhere but in the first line of a stack.
func goroutine() uint64 {
	var line [64]byte
	first, _, _ := strings.Cut(string(line[:runtime.Stack(line[:], false)]), " [")
	id, err := strconv.ParseUint(strings.TrimPrefix(first, "goroutine "), 10, 64)
	if err != nil {
		panic(err) // the runtime prints stacks in another way
	}
	return id
}
