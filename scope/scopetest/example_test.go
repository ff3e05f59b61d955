package scopetest_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/scope"
	"github.com/berth-dev/berth/scope/scopetest"
)

// A test whose scope is closed and whose goroutines are counted, whatever its assertions say.
func ExampleNew() {
	_ = func(t *testing.T) {
		scopetest.Goroutines(t)
		s := scopetest.New(t, scope.Config{Name: "thumbnails"})
		made := scope.Async(t.Context(), s, "a.png", func(context.Context) (int, error) { return 64, nil })
		if width, err := made.Await(t.Context()); err != nil || width != 64 {
			t.Fatalf("width %d, %v", width, err)
		}
	}
}
