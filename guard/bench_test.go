package guard_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/guard"
)

func benchmarkUse(b *testing.B, release func(ctx context.Context)) {
	res := guard.Resource[int]{
		Acquire: func(context.Context) (int, error) { return 1, nil },
		Release: func(ctx context.Context, _ int, _ guard.Outcome) error { release(ctx); return nil },
	}
	body := func(_ context.Context, l *lease) (int, error) { return l.Value() }
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := guard.Use(ctx, res, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUse(b *testing.B) {
	benchmarkUse(b, func(context.Context) {})
}

// BenchmarkUseWaiting has a release that waits on its context, which then has to be made.
func BenchmarkUseWaiting(b *testing.B) {
	benchmarkUse(b, func(ctx context.Context) { ctx.Done() })
}

func BenchmarkOpenClose(b *testing.B) {
	res := guard.Resource[int]{
		Acquire: func(context.Context) (int, error) { return 1, nil },
		Release: func(context.Context, int, guard.Outcome) error { return nil },
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := guard.Open(b.Context(), res)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(b.Context(), guard.Outcome{}); err != nil {
			b.Fatal(err)
		}
	}
}
