package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

// BR-058: a queued request whose pool is gone from the records holds nothing.
// It ends, the broker starts, and the next good waiter is served.
func TestBR058_DamagedWaiterIsSkipped(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	w.do(request(1, lease.Claim{Pool: "g"}, 0))
	bad := request(2, lease.Claim{Pool: "g"}, time.Hour)
	w.do(bad)
	good := request(3, lease.Claim{Pool: "g"}, time.Hour)
	w.do(good)
	records := w.decodeAll()
	for _, r := range records {
		if e, ok := r.(*lease.Entry); ok && e.Number == 2 {
			e.Request.Claims[0].Pool = "gone"
		}
	}
	m, err := Load(Config{}, records)
	if err != nil {
		t.Fatal(err)
	}
	m.Step(1, Restart{})
	if e := m.requests[requestKey{lease.Local, bad.Request.ID}]; e.End != lease.EndUnsatisfiable {
		t.Errorf("the damaged waiter ended as %v", e.End)
	}
	m.Step(1, good)
	fx := m.Step(1, Release{Caller: lease.Local, Lease: "l0000001"})
	if len(fx.Answers) != 1 || fx.Answers[0].Token.LeaseID == "" {
		t.Errorf("after a release the good waiter is answered %+v", fx.Answers)
	}
}

// Records that contradict each other about units are refused whole: a guess
// could hand a slot on too early.
func TestLoadRefusesWhatContradictsItself(t *testing.T) {
	part := lease.Part{Pool: "g", Slot: "s", Units: 1, Terms: &lease.Terms{}, State: lease.PartHeld}
	held := func() *lease.Entry {
		return &lease.Entry{Number: 1, ID: "r", State: lease.Held, Lease: &lease.Lease{ID: "l", Parts: []lease.Part{part}}}
	}
	noLease, noRequest := held(), held()
	noLease.Lease = nil
	noRequest.State = lease.Waiting
	for name, records := range map[string][]any{
		"a slot without a pool":        {&lease.Slot{Pool: "g", ID: "s"}},
		"a lease on a missing slot":    {&lease.Pool{Name: "g"}, held()},
		"a lease in a missing pool":    {held()},
		"a held request with no lease": {noLease},
		"a waiter with no request":     {noRequest},
		"a record of no known kind":    {lease.Token{}},
	} {
		_, err := Load(Config{}, records)
		if !errors.Is(err, lease.CodeStoreCorrupt.Err()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Live says that broker time must be committed: while anything lives that
// time changes.
func TestLiveWhileTimeMatters(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	live := func(want bool, when string) {
		t.Helper()
		if w.m.Live() != want {
			t.Errorf("%s: live is %t", when, w.m.Live())
		}
	}
	live(false, "idle")
	a := request(1, lease.Claim{Pool: "g"}, 0)
	w.do(a)
	live(true, "a lease is held")
	w.do(Abandon{Caller: lease.Local, Lease: a.LeaseID})
	live(true, "a slot is quarantined")
	b := request(2, lease.Claim{Pool: "g"}, time.Minute)
	w.do(b)
	w.do(Release{Caller: lease.Local, Lease: a.LeaseID})
	live(true, "the waiter has the slot")
	w.do(Release{Caller: lease.Local, Lease: b.LeaseID})
	live(false, "all is free")
	w.restart(Restart{Settle: true})
	live(true, "slots settle after a restore")
}

// Starts are remembered as long as a live lease's time rests on one.
func TestStartsAreForgotten(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{TTL: time.Hour})})
	a := request(1, lease.Claim{Pool: "g"}, 0)
	w.do(a)
	for range 5 {
		w.restart(Restart{})
	}
	if n := len(w.m.starts); n != 5 {
		t.Errorf("%d starts are remembered; the lease rests on the first of 5", n)
	}
	w.do(Renew{Caller: lease.Local, Lease: a.LeaseID})
	w.restart(Restart{})
	if n := len(w.m.starts); n != 1 {
		t.Errorf("%d starts are remembered; the lease rests on the last one", n)
	}
}

// A lease whose extension is nowhere recorded gets its time from now on: that
// can only be too late.
func TestExtensionThatIsNotRecorded(t *testing.T) {
	part := lease.Part{Pool: "g", Slot: "s", Units: 1, Terms: &lease.Terms{}, State: lease.PartHeld}
	m, err := Load(Config{}, []any{
		&lease.Ledger{Now: time.Minute, Start: 5, Acquired: 1},
		&lease.Pool{Name: "g"}, &lease.Slot{Pool: "g", ID: "s", Capacity: 1},
		&lease.Entry{Number: 1, ID: "r", State: lease.Held, Lease: &lease.Lease{ID: "l", TTL: time.Second, Start: 1, Parts: []lease.Part{part}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(time.Minute, Restart{})
	if got := m.leases["l"].held.expires; got != time.Minute+time.Second {
		t.Errorf("the lease lives until %v", got)
	}
}
