package broker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// An operator who knows nothing but the listing frees the slot of a holder
// that died with a long lease.
func TestBR057OperatorSeesAndFrees(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		r := wish(0)
		r.TTL, r.Note = time.Hour, "scene 7"
		r.Holder = lease.Holder{Name: "render", Machine: "host-1", Process: lease.Process{PID: 4711, Start: 99}}
		token, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		time.Sleep(time.Minute)
		waiter := begin(t.Context(), f, wish(2*time.Hour))
		synctest.Wait()

		slot := f.audit(t).Pools[0].Slots[0]
		if len(slot.Leases) != 1 {
			t.Fatalf("the listing shows %+v", slot)
		}
		seen := slot.Leases[0]
		if seen.Holder != r.Holder || seen.Note != r.Note || seen.Since != time.Minute || seen.Left != 59*time.Minute {
			t.Fatalf("the listing shows %+v", seen)
		}
		if seen.Ref != token.LeaseID.Ref() || seen.Fence != token.Fence {
			t.Fatalf("the listing shows lease %s with fence %d", seen.Ref, seen.Fence)
		}
		wantCode(t, f.Revoke(t.Context(), "0123456789ab", ""), lease.CodeLeaseUnknown)
		wantCode(t, f.Clear(t.Context(), "g", "g-0", seen.Ref), lease.CodeLeaseStands)
		mustDo(t, f.Revoke(t.Context(), seen.Ref, "its host is gone"))
		if s := f.audit(t); s.Revoked != 1 || s.Quarantined != 1 || s.Queued != 1 {
			t.Fatalf("after the revoke %+v", s)
		}
		wantCode(t, f.Clear(t.Context(), "g", "g-0", "0123456789ab"), lease.CodeLeaseStands)
		mustDo(t, f.Clear(t.Context(), "g", "g-0", seen.Ref))
		mustDo(t, (<-waiter).err)
		_, err = f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseRevoked)
	})
}

// A holder that is revoked has a second request in the queue. The revoke ends
// the lease alone; the request keeps its place, and blocks nobody once it goes.
func TestBR061RevokeLeavesNoReservationBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		ctx, cancel := context.WithCancel(t.Context())
		second := begin(ctx, f, wish(time.Hour))
		synctest.Wait()
		other := begin(t.Context(), f, wish(time.Hour))
		synctest.Wait()
		mustDo(t, f.Revoke(t.Context(), token.LeaseID.Ref(), "kicked"))
		cancel()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Fatal(got.err)
		}
		mustDo(t, f.Clear(t.Context(), "g", "g-0", token.LeaseID.Ref()))
		mustDo(t, (<-other).err)
		if s := f.audit(t); s.Queued != 0 || s.Held != 1 {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

// However a holder ends, its slot is accounted for in the same step.
func TestBR066EveryEndSettlesTheSlot(t *testing.T) {
	for name, c := range map[string]struct {
		end                         func(ctx context.Context, f farm, token lease.Token) error
		free, quarantined           int
		released, orphaned, revoked uint64
	}{
		"released":  {func(ctx context.Context, f farm, token lease.Token) error { return f.Release(ctx, token) }, 1, 0, 1, 0, 0},
		"abandoned": {func(ctx context.Context, f farm, token lease.Token) error { return f.Abandon(ctx, token, "") }, 0, 1, 1, 0, 0},
		"cancelled": {func(ctx context.Context, f farm, token lease.Token) error { return f.Cancel(ctx, token.RequestID) }, 0, 1, 1, 0, 0},
		"revoked": {func(ctx context.Context, f farm, token lease.Token) error {
			return f.Revoke(ctx, token.LeaseID.Ref(), "")
		}, 0, 1, 0, 0, 1},
		"expired": {func(context.Context, farm, lease.Token) error { time.Sleep(31 * time.Second); return nil }, 0, 1, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := open(t, memory(), pool("g", "g-0"))
				mustDo(t, c.end(t.Context(), f, f.take(t)))
				s := f.audit(t)
				if s.Held != 0 || s.Free != c.free || s.Quarantined != c.quarantined {
					t.Errorf("the slot is %+v", s)
				}
				if s.Released != c.released || s.Orphaned != c.orphaned || s.Revoked != c.revoked {
					t.Errorf("it was counted as %+v", s)
				}
			})
		})
	}
}

func TestApplyReadsNothingLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		b, err := broker.Open(t.Context(), broker.Config{Store: s})
		mustDo(t, err)
		spec := pool("g", "g-0")
		spec.Settings.Clean = []string{"wipe"}
		specs := []lease.PoolSpec{spec}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Apply(ctx, lease.SourceFile, specs, false)
		wantCode(t, err, lease.CodeOutcomeUnknown)
		specs[0].Slots[0].ID, specs[0].Settings.Clean[0], specs[0].Settings.TTL = "spoilt", "spoilt", time.Hour
		specs[0].Name = "spoilt"
		f := farm{b, run(t, b)}
		p := f.audit(t).Pools[0]
		if p.Name != "g" || p.Slots[0].ID != "g-0" || p.Settings.Clean[0] != "wipe" || p.Settings.TTL != lease.DefaultTTL {
			t.Fatalf("applied %+v", p)
		}
	})
}

func TestCleanTakesOverAndFrees(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{Clean: []string{"wipe"}}, "g-0"))
		token := f.take(t)
		mustDo(t, f.Release(t.Context(), token))
		if s := f.audit(t); s.Quarantined != 1 {
			t.Fatalf("a dirty slot is %+v", s)
		}
		c := broker.Cleaning{Request: lease.Request{ID: lease.NewRequestID()}, Pool: "g", Slot: "g-0", Lease: token.LeaseID.Ref()}
		cleaner, err := f.Clean(t.Context(), c)
		mustDo(t, err)
		again, err := f.Clean(t.Context(), c)
		if err != nil || again.LeaseID != cleaner.LeaseID {
			t.Fatalf("a repeated clean returned %+v, %v", again, err)
		}
		other := c
		other.Request.ID = lease.NewRequestID()
		_, err = f.Clean(t.Context(), other)
		wantCode(t, err, lease.CodeNotCleanable)
		mustDo(t, f.Release(t.Context(), cleaner))
		if s := f.audit(t); s.Free != 1 || s.Released != 2 || s.Acquired != 2 {
			t.Fatalf("after the cleaning %+v", s)
		}
		_, err = f.Clean(t.Context(), broker.Cleaning{Pool: "g"})
		wantCode(t, err, lease.CodeNameInvalid)
	})
}

func TestProofsAndProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		settings := lease.Settings{StallAfter: 10 * time.Second, StallRevokes: true}
		f := open(t, memory(), poolWith("g", settings, "g-0"))
		mustDo(t, f.ReportBoot(t.Context(), "host-1", "boot-1", ""))
		wantCode(t, f.ReportBoot(t.Context(), "", "", ""), lease.CodeProofRefused)
		r := wish(0)
		r.Holder = lease.Holder{Machine: "host-1", Boot: "boot-1", Process: lease.Process{PID: 7, Start: 1, Namespace: 2}, Cgroup: lease.Cgroup{Path: "/c", Inode: 3, Namespace: 4}}
		token, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		time.Sleep(8 * time.Second)
		mustDo(t, f.Progress(t.Context(), token, "half"))
		time.Sleep(8 * time.Second)
		tree := broker.Tree{Lease: token.LeaseID.Ref(), Machine: "host-1", PIDNamespace: 2, CgroupNamespace: 4, Seen: true, Removed: true}
		wantCode(t, f.ReportTree(t.Context(), tree), lease.CodeLeaseStands)
		time.Sleep(3 * time.Second)
		if s := f.audit(t); s.Revoked != 1 || s.Quarantined != 1 {
			t.Fatalf("after a stall %+v", s)
		}
		wantCode(t, f.Progress(t.Context(), token, "too late"), lease.CodeLeaseRevoked)
		mustDo(t, f.ReportTree(t.Context(), tree))
		if s := f.audit(t); s.Free != 1 {
			t.Fatalf("after the proof %+v", s)
		}
		token, err = f.Acquire(t.Context(), lease.Request{ID: lease.NewRequestID(), Claims: r.Claims, Holder: r.Holder})
		mustDo(t, err)
		mustDo(t, f.Abandon(t.Context(), token, ""))
		mustDo(t, f.ReportBoot(t.Context(), "host-1", "boot-2", "boot-1"))
		if s := f.audit(t); s.Free != 1 {
			t.Fatalf("after a reboot %+v", s)
		}
	})
}

// After a restore nothing is granted before every lease that the records may
// not show has ended.
func TestK12SettleKeepsSlotsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, poolWith("g", lease.Settings{MaxTTL: time.Minute}, "g-0", "g-1"))
		mustDo(t, f.stop())
		f = openWith(t, broker.Config{Store: s, Settle: true})
		_, err := f.Acquire(t.Context(), wish(0))
		wantCode(t, err, lease.CodeNoCapacity)
		mustDo(t, f.Clear(t.Context(), "g", "g-0", ""))
		f.take(t)
		mustDo(t, f.Drain(t.Context(), "g", "g-0"))
		began := time.Now()
		_, err = f.Acquire(t.Context(), wish(time.Hour))
		mustDo(t, err)
		// max_ttl of a minute and the handover of 15 s.
		if took := time.Since(began); took < 74*time.Second || took > 77*time.Second {
			t.Fatalf("granted after %v", took)
		}
	})
}
