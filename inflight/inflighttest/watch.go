package inflighttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-dev/berth/inflight"
)

// errOver is the cause that operations left over are cancelled with.
var errOver = errors.New("the test is over")

const limit = 5 * time.Second // for sources to complete what is left over

// Watch makes s trace where its operations start and, when the test ends, also after a failed
// assertion, reports each that is open or has a result nobody took, and drains the set. Call it
// before the first Start. It returns s.
func Watch(t testing.TB, s *inflight.Set) *inflight.Set {
	s.Trace = true
	t.Cleanup(func() {
		for _, o := range s.Open() {
			t.Errorf("%s was left open (%s, %v old); started at\n%s", o.Name, o.State, o.Age, o.Stack)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Drain(ctx, errOver); err != nil {
			t.Errorf("after the test: %v", err)
		}
	})
	return s
}
