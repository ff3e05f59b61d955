package machine

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// A load is a machine with n slots of one pool, n leases on them and, in some
// benchmarks, n waiters, as it stands after running for long: the memory of
// ended requests is full, and every request forgets one.
type load struct {
	m       *Machine
	now     time.Duration
	next    uint64
	waiting bool
	random  *rand.Rand
	ask     Acquire
	back    Release
	claims  []lease.Claim
	holder  lease.Holder
	leases  []lease.LeaseID
}

const benchRetained = 20_000

func newLoad(b testing.TB, n int, waiting bool, s lease.Settings) *load {
	l := &load{
		now: 1, waiting: waiting, random: rand.New(rand.NewPCG(1, 2)),
		claims: []lease.Claim{{Pool: "g", Count: 1, Units: 1}}, holder: oneHolder(0),
	}
	l.m = started(b, Config{Retained: benchRetained})
	finish(l.m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(n, s)})
	for range n {
		l.acquire()
	}
	for range n {
		if waiting {
			l.acquire()
		}
	}
	for range benchRetained + n/10 {
		if n > 0 {
			l.pair()
		}
	}
	return l
}

// oneHolder says all there is to say, in strings of its own.
func oneHolder(n int) lease.Holder {
	return lease.Holder{
		Name:    fmt.Sprintf("render-%07d", n),
		Machine: strings.Clone("4c4c4544004e3510804ac4c04f4d3732"), Boot: strings.Clone("5d2f5a7e8f0b4a579be44f6e6d1e8a11"),
		Process: lease.Process{PID: n, Start: 123456789, Namespace: 4026531836},
		Cgroup:  lease.Cgroup{Path: fmt.Sprintf("/berth.slice/berth-%07d.scope", n), Inode: 98765, Namespace: 4026531835},
	}
}

func (l *load) request() *Acquire {
	l.next++
	r := lease.Request{ID: lease.RequestID(hexID(l.next)), Claims: l.claims, Holder: l.holder}
	if l.waiting {
		r.Wait = time.Hour
	}
	l.ask = Acquire{
		Call: l.next, Caller: lease.Local, Request: r, Digest: lease.Digest{byte(l.next)}, Poll: lease.MaxPoll,
		LeaseID: lease.LeaseID(hexID(l.next | 1<<40)),
	}
	return &l.ask
}

// hexID makes 32 hex digits of a number.
func hexID(n uint64) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], n)
	return hex.EncodeToString(id[:])
}

func (l *load) acquire() {
	a := l.request()
	l.now++
	l.learn(l.m.Step(l.now, a))
}

// learn keeps the list of live leases up to date.
func (l *load) learn(fx *Effects) {
	for _, a := range fx.Answers {
		if a.Token.LeaseID != "" {
			l.leases = append(l.leases, a.Token.LeaseID)
		}
	}
}

// pair releases a lease picked at random and asks for another.
func (l *load) pair() {
	l.release()
	l.acquire()
}

func (l *load) release() {
	i := l.random.IntN(len(l.leases))
	id := l.leases[i]
	last := len(l.leases) - 1
	l.leases[i], l.leases = l.leases[last], l.leases[:last]
	l.now++
	l.back = Release{Call: 1, Caller: lease.Local, Lease: id}
	l.learn(l.m.Step(l.now, &l.back))
}

var benchSizes = []int{100, 50_000, 100_000}

func eachSize(b *testing.B, waiting bool, s lease.Settings, run func(*testing.B, *load)) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLoad(b, n, waiting, s)
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			run(b, l)
			// On a busy host the time a processor has worked says more.
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// The pair of a machine with as many waiters as leases and slots: a release, a
// grant to the first waiter, and a new waiter at the end.
func BenchmarkPairWithWaiters(b *testing.B) {
	eachSize(b, true, lease.Settings{}, func(b *testing.B, l *load) {
		for b.Loop() {
			l.pair()
		}
	})
}

// The pair of a machine on which nobody waits.
func BenchmarkPair(b *testing.B) {
	eachSize(b, false, lease.Settings{}, func(b *testing.B, l *load) {
		for b.Loop() {
			l.pair()
		}
	})
}

func BenchmarkRenew(b *testing.B) {
	eachSize(b, false, lease.Settings{}, func(b *testing.B, l *load) {
		for b.Loop() {
			l.now++
			l.m.Step(l.now, Renew{Call: 1, Caller: lease.Local, Lease: l.leases[l.random.IntN(len(l.leases))]})
		}
	})
}

// An expiry, its quarantine of no time, and the lease that follows on the slot.
func BenchmarkExpiry(b *testing.B) {
	s := lease.Settings{TTL: 10 * time.Second, Handover: lease.Handover{After: lease.AtOnce}}
	eachSize(b, false, s, func(b *testing.B, l *load) {
		for b.Loop() {
			at, _ := l.m.Next()
			l.now = max(l.now, at)
			before := l.m.ledger.Orphaned
			l.m.Step(l.now, Tick{})
			for range l.m.ledger.Orphaned - before {
				l.acquire()
			}
		}
	})
}

// The live heap of 100,000 leases with their slots, and the time in which
// their records, decoded, make a machine again.
func BenchmarkHeapAndLoad(b *testing.B) {
	const n = 100_000
	before := liveHeap()
	l := newLoad(b, 0, false, lease.Settings{})
	finish(l.m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(n, lease.Settings{})})
	for i := range n {
		l.holder = oneHolder(i)
		l.acquire()
	}
	l.leases = nil
	heap := liveHeap() - before
	keys, values := encoded(b, l.m)
	b.ResetTimer()
	start := cpuTime()
	for b.Loop() {
		m, err := Load(Config{}, decoded(b, keys, values))
		if err != nil {
			b.Fatal(err)
		}
		m.Step(1, Restart{})
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(heap)/1e6, "MB-live")
	b.ReportMetric(float64(heap)/n, "B/lease")
	runtime.KeepAlive(l)
}

func liveHeap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func encoded(b *testing.B, m *Machine) (keys, values [][]byte) {
	ledger := m.Ledger()
	for _, r := range append(m.recordsInMemory(), &ledger) {
		key, err := record.AppendKey(nil, r)
		if err != nil {
			b.Fatal(err)
		}
		value, err := record.AppendValue(nil, r)
		if err != nil {
			b.Fatal(err)
		}
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}

func decoded(b *testing.B, keys, values [][]byte) []any {
	var d record.Decoder
	records := make([]any, len(keys))
	for i := range keys {
		r, err := d.Decode(keys[i], values[i])
		if err != nil {
			b.Fatal(err)
		}
		records[i] = r
	}
	return records
}
