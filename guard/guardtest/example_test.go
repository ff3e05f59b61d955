package guardtest_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/guard/guardtest"
)

// A test that fails when a seat is not given back, and shows who took it.
func ExampleWatch() {
	_ = func(t *testing.T) {
		seat := guardtest.Watch(t, guard.Resource[int]{
			Name:    "seat",
			Acquire: func(context.Context) (int, error) { return 7, nil },
			Release: func(context.Context, int, guard.Outcome) error { return nil },
		})
		l, err := guard.Open(t.Context(), seat)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(t.Context(), guard.Outcome{}) // without this line the test fails
	}
}
