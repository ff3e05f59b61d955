package scope_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/berth-dev/berth/scope"
)

// The benchmarks compare with errgroup.WithContext and a plain channel of closures in the same
// run; docs/performance.md has the ratios.

var sizes = []int{8, 100}

func nothing(context.Context) error { return nil }

func BenchmarkErrgroup(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g, ctx := errgroup.WithContext(b.Context())
				for range n {
					g.Go(func() error { return nothing(ctx) })
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				err := scope.Run(b.Context(), scope.Config{}, func(ctx context.Context, s *scope.Scope) error {
					for range n {
						if err := s.Go(ctx, "child", nothing); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewClose(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx := b.Context()
				s := scope.New(ctx, scope.Config{})
				for range n {
					if err := s.Go(ctx, "child", nothing); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(ctx, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const hands = 8

// works are what the workers' functions do: nothing, which shows the hand-over alone, and the
// little that a function worth handing over does at the least.
var works = []struct {
	name string
	do   func()
}{
	{"empty", func() {}},
	{"hash of 2 KiB", func() { sha256.Sum256(block[:]) }},
}

var block [2048]byte

func BenchmarkPlainWorkers(b *testing.B) {
	for _, work := range works {
		b.Run(work.name, func(b *testing.B) {
			queue := make(chan func(), 100)
			var ended sync.WaitGroup
			for range hands {
				ended.Go(func() {
					for f := range queue {
						f()
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				var done sync.WaitGroup
				done.Add(100)
				for range 100 {
					queue <- func() { work.do(); done.Done() }
				}
				done.Wait()
			}
			close(queue)
			ended.Wait()
		})
	}
}

func BenchmarkWorkers(b *testing.B) {
	for _, work := range works {
		b.Run(work.name, func(b *testing.B) {
			ctx := b.Context()
			w, err := scope.NewWorkers(ctx, scope.WorkerConfig{Count: hands, Queue: 100})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				var done sync.WaitGroup
				done.Add(100)
				for range 100 {
					err := w.Go(ctx, "job", func(context.Context) error { work.do(); done.Done(); return nil })
					if err != nil {
						b.Fatal(err)
					}
				}
				done.Wait()
			}
			if err := w.Close(ctx, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}
