package pebble

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/berth-dev/berth/store"
)

// recordBytes is the size of a value of about a lease's record.
const recordBytes = 150

// records returns changes that set n records, of which the first has number
// from.
func records(from, n int) []store.Change {
	changes := make([]store.Change, n)
	for i := range changes {
		// The numbers are mixed, so that keys come in no order, as ids do.
		key := binary.BigEndian.AppendUint64(nil, uint64(from+i)*0x9E3779B97F4A7C15)
		value := make([]byte, recordBytes)
		copy(value, key)
		changes[i] = store.Change{Key: key, Value: value}
	}
	return changes
}

// BenchmarkCommit commits one record at a time, and 64 and 256, on a real
// disk. Compare it with BenchmarkFdatasync.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			st := openBench(b)
			var seq uint64
			for b.Loop() {
				seq++
				if err := st.Commit(b.Context(), seq, records(int(seq)*n%200_000, n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func openBench(b *testing.B) *Store {
	b.Helper()
	st, err := Open(b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return st
}

// BenchmarkFdatasync appends to a file what a commit of so many records writes
// to its log, and syncs it: the least any durable commit can cost.
func BenchmarkFdatasync(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			f, err := vfs.Default.Create(filepath.Join(b.TempDir(), "log"), vfs.WriteCategoryUnspecified)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			bytes := make([]byte, 45+n*(recordBytes+13))
			for b.Loop() {
				if _, err := f.Write(bytes); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommitInFdatasyncs makes a commit and a bare append with fdatasync
// in turn, so that both meet the same disk at the same time, and reports the
// medians and their ratio.
func BenchmarkCommitInFdatasyncs(b *testing.B) {
	st := openBench(b)
	f, err := vfs.Default.Create(filepath.Join(b.TempDir(), "log"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	bytes := make([]byte, 45+recordBytes+13)
	var seq uint64
	var commits, syncs []time.Duration
	for b.Loop() {
		seq++
		changes := records(int(seq), 1)
		start := time.Now()
		if err := st.Commit(b.Context(), seq, changes); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := f.Write(bytes); err != nil {
			b.Fatal(err)
		}
		if err := f.SyncData(); err != nil {
			b.Fatal(err)
		}
		commits, syncs = append(commits, middle.Sub(start)), append(syncs, time.Since(middle))
	}
	commit, sync := median(commits), median(syncs)
	b.ReportMetric(float64(commit.Microseconds()), "µs/commit")
	b.ReportMetric(float64(sync.Microseconds()), "µs/fdatasync")
	b.ReportMetric(float64(commit)/float64(sync), "fdatasyncs/commit")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkLoad loads 200,000 records from an open store.
func BenchmarkLoad(b *testing.B) {
	st := openBench(b)
	fill(b, st, 200_000)
	for b.Loop() {
		n := 0
		if _, err := st.Load(b.Context(), func(_, _ []byte) error { n++; return nil }); err != nil || n != 200_000 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkOpenAndLoad is a start of the broker: the log, here of 5 MiB, is
// read again, and 200,000 records are loaded.
func BenchmarkOpenAndLoad(b *testing.B) {
	full := filepath.Join(b.TempDir(), "full")
	st, err := Open(full, Config{})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, st, 200_000)
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		dir := filepath.Join(b.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(full)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		st, err := Open(dir, Config{})
		if err != nil {
			b.Fatal(err)
		}
		if seq, err := st.Load(b.Context(), func(_, _ []byte) error { return nil }); err != nil || seq != 200 {
			b.Fatal(seq, err)
		}
		b.StopTimer()
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func fill(b *testing.B, st *Store, n int) {
	b.Helper()
	for seq := 1; seq <= n/1000; seq++ {
		if err := st.Commit(b.Context(), uint64(seq), records(seq*1000, 1000)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFree is asked for before commits, so it must be cheap.
func BenchmarkFree(b *testing.B) {
	st := openBench(b)
	for b.Loop() {
		if _, err := st.Free(); err != nil {
			b.Fatal(err)
		}
	}
}
