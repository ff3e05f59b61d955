package broker_test

import (
	"fmt"
	"path/filepath"
	"runtime"
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
// Of the figures it reports, pairs/s is what counts, and x-one is how many
// times that of one caller in the same run. BenchmarkPair says more of one.
func BenchmarkPairs(b *testing.B) {
	dir := b.TempDir()
	var one float64
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			br := benchBroker(b, filepath.Join(dir, b.Name()), 1024)
			b.ReportAllocs()
			b.ResetTimer()
			pairs(b, br, callers)
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "pairs/s")
			switch {
			case callers == 1:
				one = rate
			case one > 0:
				b.ReportMetric(rate/one, "x-one")
			}
		})
	}
}

// pairs has callers do b.N acquires and releases in all.
func pairs(b *testing.B, br lease.Broker, callers int) {
	var group sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		group.Go(func() {
			for range n {
				if err := pair(b, br); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func pair(b *testing.B, br lease.Broker) error {
	t, err := br.Acquire(b.Context(), wish(0))
	if err != nil {
		return err
	}
	return br.Release(b.Context(), t)
}

// BenchmarkPair is one caller's pair, and how many bare syncs of the same disk
// it takes: the ratio of the medians, where pairs and syncs take turns, so that
// whatever else the machine does slows both.
func BenchmarkPair(b *testing.B) {
	dir := b.TempDir()
	br := benchBroker(b, filepath.Join(dir, "store"), 64)
	bare := openBare(b, dir)
	var pairs, syncs []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := pair(b, br); err != nil {
			b.Fatal(err)
		}
		pairs = append(pairs, time.Since(began))
		b.StopTimer()
		for range 2 {
			syncs = append(syncs, bare.sync(b))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(median(pairs).Microseconds()), "µs/pair")
	b.ReportMetric(float64(median(syncs).Microseconds()), "µs/sync")
	b.ReportMetric(float64(median(pairs))/float64(median(syncs)), "syncs/pair")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// A bareFile shows what the least durable commit costs.
type bareFile struct{ vfs.File }

func openBare(b *testing.B, dir string) bareFile {
	b.Helper()
	f, err := vfs.Default.Create(filepath.Join(dir, "bare"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	})
	return bareFile{f}
}

// sync appends about as many bytes as an acquire's commit writes to the log,
// and returns how long that and the sync took.
func (f bareFile) sync(b *testing.B) time.Duration {
	began := time.Now()
	if _, err := f.Write(make([]byte, 256)); err != nil {
		b.Fatal(err)
	}
	if err := f.SyncData(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
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
	stop := run(b, br)
	b.Cleanup(func() {
		if err := stop(); err != nil {
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

// BenchmarkOpen starts a broker on a store with 100,000 live leases. It
// reports the live heap that a running broker with all of them needs, the
// store's own included.
func BenchmarkOpen(b *testing.B) {
	const leases = 100_000
	dir := filepath.Join(b.TempDir(), "store")
	fillStore(b, dir, leases)
	before := liveHeap()
	st, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var br *broker.Broker
	for b.Loop() {
		if br, err = broker.Open(b.Context(), broker.Config{Store: st}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(liveHeap()-before)/1e6, "heap-MB")
	f := farm{br, run(b, br)}
	if s := f.audit(b); s.Held != leases {
		b.Fatalf("%d leases are held, want %d", s.Held, leases)
	}
	if err := f.stop(); err != nil {
		b.Fatal(err)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// fillStore makes a store with that many live leases.
func fillStore(b *testing.B, dir string, leases int) {
	st, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		b.Fatal(err)
	}
	f := open(b, st, poolWith("g", lease.Settings{TTL: time.Hour}, names(leases)...))
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			for range leases / 500 {
				if _, err := f.Acquire(b.Context(), wish(0)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := f.stop(); err != nil {
		b.Fatal(err)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// liveHeap returns the bytes that are reachable.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
