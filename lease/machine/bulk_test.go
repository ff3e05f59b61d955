package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

// manySlots is a pools file with one pool g of n slots.
func manySlots(n int, s lease.Settings) []lease.PoolSpec {
	spec := lease.PoolSpec{Name: "g", Settings: &s, Slots: make([]lease.SlotSpec, n)}
	for i := range spec.Slots {
		spec.Slots[i].ID = fmt.Sprintf("s%06d", i)
	}
	return []lease.PoolSpec{spec}
}

// started returns a machine that has begun to serve.
func started(t testing.TB, cfg Config) *Machine {
	m, err := Load(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Step(1, Restart{Fence: 100})
	return m
}

// finish runs a command to its end and returns how many steps that took and
// the most changes of one.
func finish(m *Machine, now time.Duration, cmd Command) (steps, most int) {
	fx := m.Step(now, cmd)
	for {
		steps++
		most = max(most, len(fx.Changes))
		if !fx.More {
			return steps, most
		}
		fx = m.Step(now, Tick{})
	}
}

// request is a checked request for slots of g under a number.
func request(n int, claim lease.Claim, wait time.Duration) Acquire {
	r, err := lease.Request{ID: lease.RequestID(fmt.Sprintf("r%07d", n)), Claims: []lease.Claim{claim}, Wait: wait}.Checked()
	if err != nil {
		panic(err)
	}
	return Acquire{
		Call: uint64(n + 1), Caller: lease.Local, Request: r, Digest: r.Body(), Poll: lease.MaxPoll,
		LeaseID: lease.LeaseID(fmt.Sprintf("l%07d", n)),
	}
}

// K18: 1,000 slots in one apply are done in steps that a store which takes
// 100 changes a commit can take, and other commands come in between.
func TestK18_ApplyOfAThousandSlots(t *testing.T) {
	m := started(t, Config{})
	fx := m.Step(1, Apply{Call: 1, Source: lease.SourceFile, Pools: manySlots(1000, lease.Settings{})})
	if !fx.More || len(fx.Changes) > mostChanges || len(fx.Answers) != 0 {
		t.Fatalf("the first step makes %d changes and %d answers, more: %t", len(fx.Changes), len(fx.Answers), fx.More)
	}
	fx = m.Step(1, request(1, lease.Claim{Pool: "g"}, 0))
	if len(fx.Changes) > mostChanges || len(fx.Answers) != 1 || fx.Answers[0].Token.LeaseID == "" {
		t.Fatalf("a command in between makes %d changes and is answered %+v", len(fx.Changes), fx.Answers)
	}
	steps, most := finish(m, 1, Tick{})
	if steps < 10 || most != 64 {
		t.Errorf("the rest takes %d steps of at most %d changes", steps, most)
	}
	if s := m.status(true); s.Slots != 1000 || s.Free != 999 {
		t.Errorf("%d slots, %d free", s.Slots, s.Free)
	}
}

// K18: a tick that ends 50,000 leases does so in bounded steps; a renewal that
// comes in between, before its lease's turn, counts.
func TestK18_TickThatEndsFiftyThousandLeases(t *testing.T) {
	const n = 50_000
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(n, lease.Settings{TTL: 10 * time.Second})})
	for i := range n {
		if _, most := finish(m, 1, request(i, lease.Claim{Pool: "g"}, 0)); most > 1 {
			t.Fatalf("a grant makes %d changes", most)
		}
	}
	now := time.Duration(1) + 10*time.Second
	if fx := m.Step(now, Tick{}); !fx.More || len(fx.Changes) > mostChanges {
		t.Fatalf("the first step makes %d changes, more: %t", len(fx.Changes), fx.More)
	}
	last := lease.LeaseID(fmt.Sprintf("l%07d", n-1))
	fx := m.Step(now, Renew{Call: 1, Caller: lease.Local, Lease: last})
	if len(fx.Answers) != 1 || fx.Answers[0].Err != nil || fx.Answers[0].Token.Left != 10*time.Second {
		t.Fatalf("a renewal in between is answered %+v", fx.Answers)
	}
	steps, most := finish(m, now, Tick{})
	if steps < n/100 || most > mostChanges {
		t.Errorf("the rest takes %d steps of at most %d changes", steps, most)
	}
	l := m.Ledger()
	if l.Orphaned != n-1 || heldLeases(l) != 1 || m.quarantine.Len() != n-1 {
		t.Errorf("orphaned %d, held %d, in quarantine %d", l.Orphaned, heldLeases(l), m.quarantine.Len())
	}
	finish(m, now+lease.DefaultAfter, Tick{})
	if s := m.status(true); s.Free != n-1 {
		t.Errorf("%d of %d slots are free after the handover", s.Free, n)
	}
}

// K18: 256 pairs one after the other are a handful of records each.
func TestK18_PairsAreAHandfulOfRecords(t *testing.T) {
	w := newWorld(t, Config{Retained: 8})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	w.most = 0
	for i := range 256 {
		a := request(i, lease.Claim{Pool: "g"}, 0)
		w.do(a)
		w.do(Release{Call: 1, Caller: lease.Local, Lease: a.LeaseID})
	}
	if w.most > 4 {
		t.Errorf("a command of a pair makes %d changes", w.most)
	}
}

// K18: leases of 32 slots each whose slots are all to go, on 8 pools, end and
// are forgotten in bounded steps.
func TestK18_LargestLeasesOnSlotsMarkedForRemoval(t *testing.T) {
	w := newWorld(t, Config{Retention: 10 * time.Second})
	w.do(Restart{})
	var pools []lease.PoolSpec
	var claims []lease.Claim
	for p := range 8 {
		spec := manySlots(8, lease.Settings{})[0]
		spec.Name = fmt.Sprintf("p%d", p)
		pools = append(pools, spec)
		claims = append(claims, lease.Claim{Pool: spec.Name, Count: 4, Units: 1})
	}
	w.do(Apply{Source: lease.SourceFile, Pools: pools})
	for i := range 2 {
		a := request(i, lease.Claim{Pool: "p0"}, 0)
		a.Request.Claims, a.Digest = claims, lease.Digest{byte(i)}
		if d := w.do(a); len(d.answers[0].Token.Slots) != 32 {
			t.Fatalf("a lease of %d slots", len(d.answers[0].Token.Slots))
		}
	}
	w.do(Apply{Source: lease.SourceFile})
	w.advance(2*time.Minute, func(said) {})
	if s := w.m.status(true); s.Slots != 0 || s.Retained != 0 || w.m.pools.Len() != 0 {
		t.Errorf("%d slots, %d pools and %d requests are left", s.Slots, w.m.pools.Len(), s.Retained)
	}
	if w.most > mostChanges {
		t.Errorf("a step made %d changes", w.most)
	}
}

// Retention: the ended requests of a machine that runs for long take no more
// memory than those it remembers.
func TestRetentionGivesMemoryBack(t *testing.T) {
	m := started(t, Config{Retained: 100})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	for i := range 20_000 {
		a := request(i, lease.Claim{Pool: "g"}, 0)
		finish(m, 1, a)
		finish(m, 1, Release{Caller: lease.Local, Lease: a.LeaseID})
	}
	if len(m.requests) != 100 || len(m.leases) != 100 || m.settled.len() != 100 || cap(m.settled.items) > 8192 {
		t.Errorf("%d requests, %d leases, a ring of %d in room for %d", len(m.requests), len(m.leases), m.settled.len(), cap(m.settled.items))
	}
}
