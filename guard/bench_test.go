package guard_test

import (
	"context"
	"errors"
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

// byHand is what a careful programmer writes without the guard: detached, limited, waited for.
func byHand(ctx context.Context, acquire func(context.Context) (int, error), release func(context.Context, int) error, body func(context.Context, int) (int, error)) (v int, err error) {
	held, err := acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guard.DefaultTimeout)
		defer cancel()
		err = errors.Join(err, release(ctx, held))
	}()
	return body(ctx, held)
}

func benchmarkByHand(b *testing.B, release func(ctx context.Context)) {
	acquire := func(context.Context) (int, error) { return 1, nil }
	back := func(ctx context.Context, _ int) error { release(ctx); return nil }
	body := func(_ context.Context, v int) (int, error) { return v, nil }
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := byHand(ctx, acquire, back, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkByHand(b *testing.B) { benchmarkByHand(b, func(context.Context) {}) }

// BenchmarkByHandWaiting has a release that waits on its context.
func BenchmarkByHandWaiting(b *testing.B) {
	benchmarkByHand(b, func(ctx context.Context) { ctx.Done() })
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
