package scopetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/scope"
)

// errOver is the cause that children left over are cancelled with.
var errOver = errors.New("the test is over")

const limit = 5 * time.Second // for children to end

// New makes a scope that is closed when the test ends, also after a failed assertion. The test
// fails with what Close returns, such as the names and ages of children that have not ended within
// 5 s, and with the place where the scope was made. A child that ends when it is cancelled is
// no fault; one that failed is, also where the test expected that: make such a scope with
// scope.New.
func New(t testing.TB, cfg scope.Config) *scope.Scope {
	cfg.Ages = true
	s := scope.New(t.Context(), cfg)
	made := caller()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Close(ctx, errOver); err != nil {
			t.Errorf("closing the scope made at %s: %v", made, err)
		}
	})
	return s
}

func caller() string {
	_, file, line, _ := runtime.Caller(2)
	return fmt.Sprintf("%s:%d", file, line)
}

// yields is how often the check lets others run before it calls a goroutine left over.
const yields = 1_000_000

// Goroutines fails the test when it leaves goroutines behind that did not run when Goroutines
// was called, and shows where each was started. Call it first: what is cleaned up later is
// cleaned up before the check. It waits for no timer; a goroutine that is about to end gets the
// processor to do so.
func Goroutines(t testing.TB) {
	before, many := goroutines(), runtime.NumGoroutine()
	t.Cleanup(func() {
		for i := 0; i < yields && runtime.NumGoroutine() > many; i++ {
			runtime.Gosched()
		}
		left := since(before)
		if len(left) == 0 {
			return
		}
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// since returns the stacks of the goroutines that are not among those before.
func since(before map[string]string) (left []string) {
	for id, stack := range goroutines() {
		if _, old := before[id]; !old {
			left = append(left, stack)
		}
	}
	return left
}

// goroutines returns the stacks of all goroutines but tests and the runtime's own, by number.
func goroutines() map[string]string {
	all := map[string]string{}
	for stack := range strings.SplitSeq(stacks(), "\n\n") {
		if id, _, ok := strings.Cut(stack, " ["); ok && !strings.Contains(stack, "created by testing.") {
			all[id] = stack
		}
	}
	return all
}

func stacks() string {
	buf := make([]byte, 1<<10)
	for {
		if n := runtime.Stack(buf, true); n != len(buf) {
			return string(buf[:n])
		}
		buf = make([]byte, 2*len(buf))
	}
}
