package broker_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/pebble"
)

// BenchmarkPairs acquires and releases from many goroutines, on a real disk.
// Of the figures it reports, pairs/s is what counts; x-one is how many times
// that of one caller in the same run, and syncs/pair how long one caller's
// pair takes in bare syncs of the same disk, measured in the same run.
func BenchmarkPairs(b *testing.B) {
	dir := b.TempDir()
	var one float64
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			br := benchBroker(b, filepath.Join(dir, b.Name()), 1024)
			before := bareSync(b, dir)
			b.ReportAllocs()
			b.ResetTimer()
			pairs(b, br, callers)
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "pairs/s")
			switch {
			case callers == 1:
				one = rate
				sync := (before + bareSync(b, dir)) / 2
				b.ReportMetric(1/rate/sync.Seconds(), "syncs/pair")
			case one > 0:
				b.ReportMetric(rate/one, "x-one")
			}
		})
	}
}

// pairs has callers do b.N acquires and releases in all.
func pairs(b *testing.B, br *broker.Broker, callers int) {
	var group sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		group.Go(func() {
			for range n {
				t, err := br.Acquire(b.Context(), wish(0))
				if err != nil {
					b.Error(err)
					return
				}
				if err := br.Release(b.Context(), t); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// benchBroker runs a broker on a new Pebble store with a pool g.
func benchBroker(b *testing.B, dir string, slots int) *broker.Broker {
	b.Helper()
	st, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		b.Fatal(err)
	}
	br, err := broker.Open(b.Context(), broker.Config{Store: st})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- br.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := br.Apply(b.Context(), lease.SourceFile, []lease.PoolSpec{pool("g", names(slots)...)}, false); err != nil {
		b.Fatal(err)
	}
	return br
}

// bareSync measures what the least durable commit costs: the median time to
// append as many bytes as an acquire's commit has to a file, and sync it.
func bareSync(b *testing.B, dir string) time.Duration {
	b.Helper()
	f, err := vfs.Default.Create(filepath.Join(dir, "bare"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, 300)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(make([]byte, 300)); err != nil {
			b.Fatal(err)
		}
		if err := f.SyncData(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
