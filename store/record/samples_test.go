package record_test

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// heldEntry is what most records of a busy broker are like.
func heldEntry() *lease.Entry {
	return &lease.Entry{
		Number: 123456, Caller: "uid:1000", ID: "5f1d7c2e9a80b3640f1e2d3c4b5a6978", State: lease.Held,
		Digest: lease.Digest{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Arrived: 26 * time.Hour,
		Lease: &lease.Lease{
			ID: "00112233445566778899aabbccddeeff", Fence: 1790000000123456, TTL: 30 * time.Second,
			Granted: 26*time.Hour + 5*time.Millisecond, Start: 3,
			Holder: lease.Holder{Name: "render-7", Process: lease.Process{PID: 4711}},
			Parts: []lease.Part{{Pool: "gpu", Slot: "gpu-0", Units: 1, State: lease.PartHeld,
				Terms: &lease.Terms{Handover: lease.Handover{After: 15 * time.Second}}}},
		},
	}
}

func waitingEntry() *lease.Entry {
	return &lease.Entry{
		Number: 77, Caller: lease.Local, ID: "5f1d7c2e9a80b3640f1e2d3c4b5a6978", State: lease.Waiting, Arrived: time.Minute,
		Request: &lease.Request{
			ID:     "5f1d7c2e9a80b3640f1e2d3c4b5a6978",
			Claims: []lease.Claim{{Pool: "gpu", Count: 2, Units: 1, Select: map[string]string{"model": "rtx4090", "zone": "b"}}, {Pool: "seats", Count: 1, Units: 5}},
			TTL:    10 * time.Second, MaxHold: time.Hour, Wait: 5 * time.Minute, Priority: -20,
			Holder: lease.Holder{
				Name: "render-7", Machine: "0123456789abcdef0123456789abcdef", Boot: "e9f0a1b2-0000-4000-8000-123456789abc",
				Process: lease.Process{PID: 4711, Start: 999999, Namespace: 4026531836},
				Cgroup:  lease.Cgroup{Path: "/user.slice/berth-1.scope", Inode: 4242, Namespace: 4026531835},
			},
			Note: "nightly, frame 12",
		},
	}
}

func endedEntry() *lease.Entry {
	e := heldEntry()
	e.State, e.End, e.Code, e.Reason = lease.Ended, lease.EndRevoked, lease.CodeLeaseRevoked, "the card is being replaced"
	e.Ended, e.Settled = 27*time.Hour, 28*time.Hour
	l := e.Lease
	l.HoldUntil, l.Promised = 27*time.Hour+time.Second, 27*time.Hour+30*time.Second
	l.Holder = waitingEntry().Request.Holder
	l.HostBoot, l.Note, l.Cleans = l.Holder.Boot, "a note", &lease.CleanOf{Number: 12, Part: 1}
	l.Parts = append(l.Parts, lease.Part{Pool: "gpu", Slot: "gpu-1", Units: 1, State: lease.PartFree, Since: 1, Cleanable: 2, Cleaner: 3, Freed: 4,
		Terms: &lease.Terms{Handover: lease.Handover{Proofs: lease.ProofTree | lease.ProofCleaned, Max: 20 * time.Minute}, Clean: true, StallAfter: time.Minute, StallRevokes: true}})
	return e
}

// samples are one or more records of every kind.
func samples() []any {
	return []any{
		&lease.Ledger{Now: 26 * time.Hour, Fence: 1790000000123456, Number: 123456, Start: 3, Acquired: 1000, Released: 990, Orphaned: 5, Revoked: 2},
		&lease.Start{Number: 3, Began: 25 * time.Hour, Settle: true},
		&lease.Pool{Name: "gpu", Source: lease.SourceFile, Drained: true, Removing: true, Settings: lease.Settings{
			TTL: 30 * time.Second, MaxTTL: time.Hour, MaxHold: 8 * time.Hour, StallAfter: 10 * time.Minute, StallRevokes: true,
			Handover: lease.Handover{Proofs: lease.ProofTree | lease.ProofBoot, Max: 20 * time.Minute}, Clean: []string{"gpu-reset", "--all"}}},
		&lease.Pool{Name: "permits", Source: lease.SourceAPI, Settings: lease.Settings{Handover: lease.Handover{After: lease.AtOnce}}},
		&lease.Slot{Pool: "gpu", ID: "gpu-0", Source: "agent:0123456789abcdef0123456789abcdef", Labels: map[string]string{"model": "rtx4090", "device": "GPU-5a1c"},
			Capacity: 1, Drained: true, Removing: true, Unhealthy: "fell off the bus", SettleUntil: time.Hour, Freed: time.Minute},
		&lease.Session{Caller: "uid:1000", ID: "c0ffee00c0ffee00c0ffee00c0ffee00", Mark: 42, After: 7},
		&lease.Host{Machine: "0123456789abcdef0123456789abcdef", Boot: "e9f0a1b2-0000-4000-8000-123456789abc"},
		&lease.Entry{Number: 1, Caller: lease.Local, ID: "nightly", State: lease.Ended, End: lease.EndCancelled, Ended: 1, Settled: 1},
		waitingEntry(), heldEntry(), endedEntry(),
	}
}

// Version 1 on disk is these bytes. A change of them is a new version: see the
// package comment. The file must only grow.
func TestVersion1StaysReadable(t *testing.T) {
	golden, err := os.ReadFile("testdata/version1.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	for i, r := range samples() {
		key, value := encode(t, r)
		line := hex.EncodeToString(key) + " " + hex.EncodeToString(value)
		if i >= len(lines) {
			t.Errorf("no golden line for %#v:\n%s", r, line)
			continue
		}
		if line != lines[i] {
			t.Errorf("%#v is written as\n%s\nand was\n%s", r, line, lines[i])
		}
		checkGolden(t, lines[i], r)
	}
}

func checkGolden(t *testing.T, line string, want any) {
	t.Helper()
	k, v, _ := strings.Cut(line, " ")
	key, err := hex.DecodeString(k)
	if err != nil {
		t.Fatal(err)
	}
	value, err := hex.DecodeString(v)
	if err != nil {
		t.Fatal(err)
	}
	var d record.Decoder
	if got, err := d.Decode(key, value); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as\n%#v, %v\nand was\n%#v", line, got, err, want)
	}
}

func TestHeldEntryIsSmall(t *testing.T) {
	if _, value := encode(t, heldEntry()); len(value) > 150 {
		t.Errorf("a held entry takes %d bytes; at most 150", len(value))
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	for _, r := range samples() {
		buf := make([]byte, 0, 1024)
		n := testing.AllocsPerRun(10, func() {
			k, err := record.AppendKey(buf, r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = record.AppendValue(k, r); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%T: %v allocations", r, n)
		}
	}
}

func BenchmarkAppendEntry(b *testing.B) {
	e := heldEntry()
	buf := make([]byte, 0, 1024)
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		k, err := record.AppendKey(buf, e)
		if err != nil {
			b.Fatal(err)
		}
		if k, err = record.AppendValue(k, e); err != nil {
			b.Fatal(err)
		}
		size = len(k)
	}
	b.ReportMetric(float64(size), "bytes")
}

func BenchmarkDecodeEntry(b *testing.B) {
	key, value := encode(b, heldEntry())
	var d record.Decoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(key, value); err != nil {
			b.Fatal(err)
		}
	}
}
