package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// A kind is a kind of pool with room for kindRoom leases of its claims.
type kind struct {
	name   string
	pools  []lease.PoolSpec
	claims []lease.Claim
	// comeBack does what brings back the units of a holder that crashed and
	// whose lease has just expired.
	comeBack func(t *testing.T, f farm, crashed lease.Token)
}

const kindRoom = 3

// holderOfKinds works on a machine whose agent reports.
var holderOfKinds = lease.Holder{
	Name: "worker", Machine: "m1", Boot: "b1",
	Process: lease.Process{PID: 7, Start: 70, Namespace: 700}, Cgroup: lease.Cgroup{Path: "/berth/1", Inode: 71, Namespace: 701},
}

func kindsOfPools() []kind {
	labelled := poolWith("g", atOnce(), "a1", "a2", "a3", "b1")
	for i := range labelled.Slots {
		labelled.Slots[i].Labels = map[string]string{"model": labelled.Slots[i].ID[:1]}
	}
	units := func(capacity int64) lease.PoolSpec {
		p := poolWith("g", atOnce(), "seats")
		p.Slots[0].Capacity = capacity
		return p
	}
	proved := func(p lease.Proofs) []lease.PoolSpec {
		return []lease.PoolSpec{poolWith("g", lease.Settings{Handover: lease.Handover{Proofs: p}}, names(kindRoom)...)}
	}
	one := []lease.Claim{{Pool: "g"}}
	return []kind{
		{"counted", []lease.PoolSpec{poolWith("g", atOnce(), names(kindRoom)...)}, one, nothing},
		{"named by labels", []lease.PoolSpec{labelled}, []lease.Claim{{Pool: "g", Select: map[string]string{"model": "a"}}}, nothing},
		{"units", []lease.PoolSpec{units(kindRoom)}, one, nothing},
		{"weighted units", []lease.PoolSpec{units(2*kindRoom + 1)}, []lease.Claim{{Pool: "g", Units: 2}}, nothing},
		{"several slots", []lease.PoolSpec{poolWith("g", atOnce(), names(2*kindRoom)...)}, []lease.Claim{{Pool: "g", Count: 2}}, nothing},
		{"two pools", []lease.PoolSpec{units(9), poolWith("h", atOnce(), names(kindRoom)...)}, []lease.Claim{{Pool: "g"}, {Pool: "h"}}, nothing},
		{"handed over after a while", []lease.PoolSpec{pool("g", names(kindRoom)...)}, one, waitOut},
		{"proved by the boot", proved(lease.ProofBoot), one, proveBoot},
		{"proved by the tree", proved(lease.ProofTree), one, proveTree},
	}
}

func atOnce() lease.Settings { return lease.Settings{Handover: lease.Handover{After: lease.AtOnce}} }

func nothing(*testing.T, farm, lease.Token) {}

// waitOut lets the handover pass.
func waitOut(t *testing.T, f farm, crashed lease.Token) {
	quarantined(t, f, 1)
	time.Sleep(lease.DefaultAfter)
}

func proveBoot(t *testing.T, f farm, crashed lease.Token) {
	time.Sleep(time.Minute)
	quarantined(t, f, 1)
	mustDo(t, f.ReportBoot(t.Context(), "m1", "b2", "b1"))
}

func proveTree(t *testing.T, f farm, crashed lease.Token) {
	time.Sleep(time.Minute)
	quarantined(t, f, 1)
	mustDo(t, f.ReportTree(t.Context(), treeOf(crashed)))
}

// treeOf is what the agent of the holder's machine says of its tree.
func treeOf(l lease.Token) broker.Tree {
	return broker.Tree{Lease: l.LeaseID.Ref(), Machine: "m1", PIDNamespace: 700, CgroupNamespace: 701, Seen: true, WrapperGone: true, CgroupGone: true}
}

// quarantined demands that so many slots are in quarantine.
func quarantined(t *testing.T, f farm, want int) {
	t.Helper()
	if s := f.audit(t); s.Quarantined != want {
		t.Fatalf("%d slots are in quarantine, want %d", s.Quarantined, want)
	}
}

// BR-049: every kind of pool goes through the same, with the same result.
func TestBR049_EveryKindOfPoolGivesBack(t *testing.T) {
	var first []string
	for _, k := range kindsOfPools() {
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				log := k.play(t)
				if first == nil {
					first = log
				}
				if !slices.Equal(log, first) {
					t.Errorf("it went\n%q\nand with the first kind\n%q", log, first)
				}
			})
		})
	}
}

// play runs the one scenario and returns what was seen after each part.
func (k kind) play(t *testing.T) (log []string) {
	f := open(t, memory(), k.pools...)
	mustDo(t, f.ReportBoot(t.Context(), "m1", "b1", ""))
	all := f.audit(t).Free
	see := func(part string) {
		s := f.audit(t)
		log = append(log, fmt.Sprintf("%s: acquired %d, released %d, orphaned %d, revoked %d, held %d, queued %d, quarantined %d, all free %t",
			part, s.Acquired, s.Released, s.Orphaned, s.Revoked, s.Held, s.Queued, s.Quarantined, s.Free == all))
	}
	for range 100 {
		k.empty(t, f, k.fill(t, f))
	}
	see("100 rounds")

	held := k.fill(t, f)
	_, err := f.Acquire(t.Context(), k.wish(time.Second))
	wantCode(t, err, lease.CodeTimedOut)
	k.empty(t, f, held)
	see("a wait that timed out")

	held = k.fill(t, f)
	ctx, cancel := context.WithCancelCause(t.Context())
	waiter := begin(ctx, f, k.wish(time.Hour))
	synctest.Wait()
	cancel(errMind)
	if got := <-waiter; !errors.Is(got.err, errMind) {
		t.Fatalf("the cancelled waiter got %v", got.err)
	}
	k.empty(t, f, held)
	see("a waiter that was cancelled")

	held = k.fill(t, f)
	began := time.Now()
	crashed, alive := held[0], held[1:]
	for time.Since(began) < lease.DefaultTTL {
		time.Sleep(lease.DefaultTTL / 3)
		for _, l := range alive {
			_, err := f.Renew(t.Context(), l)
			mustDo(t, err)
		}
	}
	time.Sleep(time.Second) // expiry is seen within a quarter of one
	wantCode(t, renewed(t, f, crashed), lease.CodeLeaseExpired)
	k.empty(t, f, alive)
	k.comeBack(t, f, crashed)
	see("a holder that crashed")
	wantCode(t, f.Release(t.Context(), crashed), lease.CodeLeaseExpired)
	k.empty(t, f, k.fill(t, f))
	see("the end")
	return log
}

func renewed(t *testing.T, f farm, l lease.Token) error {
	_, err := f.Renew(t.Context(), l)
	return err
}

// wish asks for one lease of the kind.
func (k kind) wish(wait time.Duration) lease.Request {
	return lease.Request{ID: lease.NewRequestID(), Claims: k.claims, Wait: wait, Holder: holderOfKinds}
}

// fill takes as many leases as there is room for, and no more.
func (k kind) fill(t *testing.T, f farm) (held []lease.Token) {
	t.Helper()
	for range kindRoom {
		l, err := f.Acquire(t.Context(), k.wish(0))
		mustDo(t, err)
		held = append(held, l)
	}
	_, err := f.Acquire(t.Context(), k.wish(0))
	wantCode(t, err, lease.CodeNoCapacity)
	return held
}

// empty gives leases back, each twice: the second time makes no more room.
func (k kind) empty(t *testing.T, f farm, held []lease.Token) {
	t.Helper()
	for _, l := range held {
		mustDo(t, f.Release(t.Context(), l))
		mustDo(t, f.Release(t.Context(), l))
	}
}
