package machine

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

// onHost makes the request one of machine m1 in boot b1.
func onHost(a Acquire) Acquire {
	a.Request.Holder = lease.Holder{Machine: "m1", Boot: "b1"}
	return a
}

// A reserved waiter whose client asks again while other work is left is
// decided with it, and gets what was reserved.
func TestReservedIsGrantedWhileWorkIsLeft(t *testing.T) {
	m := started(t, Config{StepChanges: 1})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	holder := request(1, lease.Claim{Pool: "g"}, 0)
	finish(m, 1, holder)
	waiter := request(2, lease.Claim{Pool: "g"}, time.Minute)
	waiter.Poll = 0
	finish(m, 1, waiter)
	finish(m, 1, Release{Caller: lease.Local, Lease: holder.LeaseID})
	if got := m.StateOf(lease.Local, waiter.Request.ID); got != StateReserved {
		t.Fatalf("the waiter is %s", got)
	}
	m.work.jobs = append(m.work.jobs, func() { m.put(&lease.Host{Machine: "m9"}) })
	waiter.Call, waiter.Poll = 99, lease.MaxPoll
	finish(m, 1, waiter)
	if got := m.StateOf(lease.Local, waiter.Request.ID); got != StateFresh {
		t.Errorf("asked again with work left, the waiter is %s", got)
	}
}

// A step looks at so many alarms and no more, also where all of them are set
// anew because their leases were renewed.
func TestAlarmsOfRenewedLeasesAreLookedAtInSteps(t *testing.T) {
	const n = 3 * looks
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(n, lease.Settings{TTL: 10 * time.Second})})
	for i := range n {
		finish(m, 1, request(i, lease.Claim{Pool: "g"}, 0))
	}
	now := 5 * time.Second
	for i := range n {
		m.Step(now, Renew{Caller: lease.Local, Lease: request(i, lease.Claim{Pool: "g"}, 0).LeaseID})
	}
	if steps, _ := finish(m, 11*time.Second, Tick{}); steps < 3 {
		t.Errorf("%d alarms are looked at in %d steps", n, steps)
	}
	if held := heldLeases(m.Ledger()); held != n {
		t.Errorf("%d of %d renewed leases are held", held, n)
	}
}

// A boot proves the end of many leases, in steps. One that is cleared before
// its turn is done already, and is settled once.
func TestBootProofMeetsAClearedLease(t *testing.T) {
	m := started(t, Config{StepChanges: 1})
	settings := lease.Settings{Handover: lease.Handover{Proofs: lease.ProofBoot}}
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(2, settings)})
	finish(m, 1, ProveBoot{Machine: "m1", Boot: "b1"})
	var leases []lease.LeaseID
	for i := range 2 {
		a := onHost(request(i, lease.Claim{Pool: "g"}, 0))
		finish(m, 1, a)
		finish(m, 1, Abandon{Caller: lease.Local, Lease: a.LeaseID})
		leases = append(leases, a.LeaseID)
	}
	if fx := m.Step(2, ProveBoot{Machine: "m1", Boot: "b2", Was: "b1"}); !fx.More {
		t.Fatal("both are proved in one step; the test needs two")
	}
	m.Step(2, Clear{Pool: "g", Slot: "s000001", Lease: leases[1].Ref()})
	finish(m, 2, Tick{})
	if s := m.status(true); s.Retained != 2 || s.Free != 2 || m.Live() {
		t.Errorf("%d remembered, %d free, live %t", s.Retained, s.Free, m.Live())
	}
}

// Alarms that change no record are rung in steps too: each answers a call.
func TestAlarmsWithoutAChangeAreRungInSteps(t *testing.T) {
	m := started(t, Config{StepChanges: 64})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	held := request(0, lease.Claim{Pool: "g"}, 0)
	held.Request.TTL = 5 * time.Minute
	finish(m, 1, held)
	for i := range 200 {
		finish(m, 1, request(i+1, lease.Claim{Pool: "g"}, time.Hour))
	}
	for left := 200; left > 0; {
		fx := m.Step(1+lease.MaxPoll, Tick{})
		n := len(fx.Answers)
		if n != min(left, 64) || fx.More != (left > 64) {
			t.Fatalf("a step answered %d of %d calls, more: %v", n, left, fx.More)
		}
		left -= n
	}
}

// A holder that names no boot proves nothing by its machine's next one, also
// where that is first heard of after the grant.
func TestK20_HolderWithoutABoot(t *testing.T) {
	m := started(t, Config{})
	settings := lease.Settings{Handover: lease.Handover{Proofs: lease.ProofBoot}}
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, settings)})
	a := request(0, lease.Claim{Pool: "g"}, 0)
	a.Request.Holder = lease.Holder{Machine: "m1"}
	finish(m, 1, a)
	finish(m, 1, ProveBoot{Machine: "m1", Boot: "b1"})
	finish(m, 1, Abandon{Caller: lease.Local, Lease: a.LeaseID})
	finish(m, 2, ProveBoot{Machine: "m1", Boot: "b2", Was: "b1"})
	if s := m.status(true); s.Free != 0 || s.Quarantined != 1 {
		t.Errorf("%d free, %d quarantined, want the slot to wait", s.Free, s.Quarantined)
	}
}

func TestWhyALeaseEnded(t *testing.T) {
	for _, c := range []struct {
		code   lease.Code
		reason string
		want   string
	}{
		{"", "", "no reason given"},
		{"", "the node is needed", "the node is needed"},
		{lease.CodeLeaseExpired, "", "lease_expired"},
		{lease.CodeLeaseExpired, "an hour", "lease_expired: an hour"},
	} {
		e := &entry{Entry: lease.Entry{Code: c.code, Reason: c.reason}}
		if got := e.why(); got != c.want {
			t.Errorf("%q and %q read %q, want %q", c.code, c.reason, got, c.want)
		}
	}
}

// Two leases whose ids share a ref are told apart by a slot only. (These two
// do: the first 48 bits of their sums are equal.)
func TestAmbiguousRef(t *testing.T) {
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	ids := []lease.LeaseID{"lease-14837715", "lease-19897876"}
	for i, id := range ids {
		a := request(i, lease.Claim{Pool: "g"}, 0)
		a.LeaseID = id
		finish(m, 1, a)
	}
	revoke := Revoke{Call: 1, Lease: ids[0].Ref()}
	if fx := m.Step(1, revoke); codeOf(fx.Answers[0]) != lease.CodeAmbiguous {
		t.Fatalf("answered %+v", fx.Answers)
	}
	revoke.Pool, revoke.Slot = "g", "s000001"
	if fx := m.Step(1, revoke); fx.Answers[0].Err != nil {
		t.Fatalf("with its slot answered %+v", fx.Answers)
	}
	if m.leases[ids[0]].held == nil || m.leases[ids[1]].held != nil {
		t.Error("the other lease was revoked")
	}
}

// A position is exact to 1,000; beyond, it says that it is beyond.
func TestPositionIsExactToAThousand(t *testing.T) {
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	finish(m, 1, request(0, lease.Claim{Pool: "g"}, 0))
	for i := 1; i <= 1003; i++ {
		a := request(i, lease.Claim{Pool: "g"}, time.Hour)
		a.Poll = 0
		fx := m.Step(1, a)
		if got, want := fx.Answers[0].Queued.Position, min(i, 1001); got != want {
			t.Fatalf("waiter %d is told position %d", i, got)
		}
	}
}

// StateOf names every state that a request passes through.
func TestStateOf(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	settings := lease.Settings{TTL: 10 * time.Second, Clean: []string{"clean"}, Handover: lease.Handover{Max: 30 * time.Second}}
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(1, settings)})
	a, b := request(1, lease.Claim{Pool: "g"}, time.Hour), request(2, lease.Claim{Pool: "g"}, time.Hour)
	is := func(r Acquire, want string) {
		t.Helper()
		if got := w.m.StateOf(lease.Local, r.Request.ID); got != want {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
	is(a, StateNew)
	w.do(a)
	is(a, StateFresh)
	w.do(Renew{Caller: lease.Local, Lease: a.LeaseID})
	is(a, StateRenewed)
	b.Poll = 0
	w.do(b)
	is(b, StatePresent)
	w.restart(Restart{})
	is(a, StateExtended)
	w.advance(6*time.Second, func(said) {})
	is(b, StateAbsent)
	w.do(b)
	w.do(Release{Caller: lease.Local, Lease: a.LeaseID})
	is(a, StateQuarantined)
	clean := Clean{Caller: lease.Local, ID: "c", Pool: "g", Slot: "s000000", Lease: a.LeaseID.Ref(), LeaseID: "c"}
	w.do(clean)
	is(a, StateCleaning)
	w.do(Abandon{Caller: lease.Local, Lease: "c"})
	w.advance(4*time.Second, func(said) {})
	w.do(b)
	w.advance(4*time.Second, func(said) {})
	w.do(b)
	w.advance(25*time.Second, func(said) {})
	is(a, StateStuck)
	w.do(b)
	w.do(Clear{Pool: "g", Slot: "s000000", Lease: a.LeaseID.Ref()})
	is(a, StateEnded+"released")
	is(b, StateReserved)
}

// A pool keeps an index for a few selectors that nobody waits for, and for
// every one that somebody waits for.
func TestIdleSelectorsAreBounded(t *testing.T) {
	m := started(t, Config{Views: 4})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(1, lease.Settings{})})
	p, _ := m.pools.Get("g")
	for i := range 40 {
		a := request(i, lease.Claim{Pool: "g", Select: map[string]string{"n": string(rune('a' + i%26))}}, 0)
		finish(m, 1, a)
		if len(p.views) > 1+4 {
			t.Fatalf("%d selectors are indexed", len(p.views))
		}
	}
	if len(p.views) != 1+4 {
		t.Errorf("%d selectors are indexed at the end", len(p.views))
	}
}

// A selector that somebody waited for is one of the few that are kept, and no
// more, once nobody does.
func TestSelectorsOfWaitersThatLeftAreBounded(t *testing.T) {
	m := started(t, Config{Views: 4})
	spec := manySlots(1, lease.Settings{})
	for i := range 26 {
		spec[0].Slots = append(spec[0].Slots, lease.SlotSpec{ID: "s-" + string(rune('a'+i)), Labels: map[string]string{"n": string(rune('a' + i))}})
	}
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: spec})
	p, _ := m.pools.Get("g")
	for i := range 26 {
		claim := lease.Claim{Pool: "g", Select: map[string]string{"n": string(rune('a' + i))}}
		first, second := request(2*i, claim, 0), request(2*i+1, claim, time.Hour)
		finish(m, 1, first)
		finish(m, 1, second)
		finish(m, 1, Cancel{Caller: lease.Local, ID: second.Request.ID})
	}
	if len(p.views) != 1+4 {
		t.Errorf("%d selectors are indexed and nobody waits", len(p.views))
	}
}

func TestShowTellsForHowLong(t *testing.T) {
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	held, ended, waiter := request(0, lease.Claim{Pool: "g"}, 0), request(1, lease.Claim{Pool: "g"}, 0), request(2, lease.Claim{Pool: "g"}, time.Hour)
	finish(m, 1*time.Second, held)
	finish(m, 2*time.Second, ended)
	finish(m, 3*time.Second, waiter)
	finish(m, 5*time.Second, Abandon{Caller: lease.Local, Lease: ended.LeaseID})
	finish(m, 9*time.Second, Tick{})
	s := m.status(false).Pools[0]
	if whole := m.status(true); whole.RetainedFor != 0 {
		t.Errorf("nothing is remembered, for %v", whole.RetainedFor)
	}
	if s.LongestWait != 6*time.Second {
		t.Errorf("the waiter has waited %v, want 6s", s.LongestWait)
	}
	since := map[string]time.Duration{}
	for _, slot := range s.Slots {
		for _, l := range slot.Leases {
			since[l.State] = l.Since
		}
	}
	if since["held"] != 8*time.Second || since["quarantined"] != 4*time.Second {
		t.Errorf("since %v, want 8s held and 4s quarantined", since)
	}
}

// A client repeats its mark with every request. Only a new one is written down.
func TestK15_RepeatedMarkWritesNothing(t *testing.T) {
	m := started(t, Config{})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	finish(m, 1, Arrive{Caller: lease.Local, Session: "abc", New: true})
	for i, want := range []int{1, 0} {
		a := request(i, lease.Claim{Pool: "g"}, 0)
		a.Session, a.Serial, a.Mark = "abc", uint64(5+i), 3
		a.Request.ID = sessionID(a.Session, a.Serial)
		n := 0
		for _, c := range m.Step(1, a).Changes {
			if _, ok := c.Record.(*lease.Session); ok {
				n++
			}
		}
		if n != want {
			t.Errorf("request %d with mark 3 writes %d records of its session, want %d", i+1, n, want)
		}
	}
}

// Of several leases on a slot, a clear means the one that is named.
func TestClearOfTheSecondLeaseOnASlot(t *testing.T) {
	m := started(t, Config{})
	spec := manySlots(1, lease.Settings{Handover: lease.Handover{Proofs: lease.ProofBoot}})
	spec[0].Slots[0].Capacity = 2
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: spec})
	var leases []lease.LeaseID
	for i := range 2 {
		a := request(i, lease.Claim{Pool: "g"}, 0)
		finish(m, 1, a)
		finish(m, 1, Abandon{Caller: lease.Local, Lease: a.LeaseID})
		leases = append(leases, a.LeaseID)
	}
	finish(m, 2, Clear{Pool: "g", Slot: spec[0].Slots[0].ID, Lease: leases[1].Ref()})
	finish(m, 5*time.Second, Tick{})
	s := m.status(true)
	if s.Quarantined != 1 || s.Retained != 1 || s.RetainedFor != 5*time.Second-2 {
		t.Errorf("%d quarantined, %d remembered for %v; want one each, since the clear", s.Quarantined, s.Retained, s.RetainedFor)
	}
}
