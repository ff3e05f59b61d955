package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// BR-042: two slots and 20 waiters. Each release is answered together with the
// next waiter's grant, in the same step and in the order of arrival: no slot
// lies idle while somebody waits.
func TestBR042_ReleaseAndGrantAreOneStep(t *testing.T) {
	const slots, waiters = 2, 20
	m := started(t, Config{})
	m.Step(1, Apply{Source: lease.SourceFile, Pools: manySlots(slots, lease.Settings{})})
	for i := range slots + waiters {
		m.Step(1, request(i, lease.Claim{Pool: "g"}, time.Hour))
	}
	for i := range waiters {
		fx := m.Step(2, Release{Call: 1000, Caller: lease.Local, Lease: request(i, lease.Claim{Pool: "g"}, 0).LeaseID})
		next := request(i+slots, lease.Claim{Pool: "g"}, 0)
		if len(fx.Answers) != 2 || fx.Answers[1].Call != next.Call || fx.Answers[1].Token.LeaseID != next.LeaseID {
			t.Fatalf("the release of %d is answered with %+v", i, fx.Answers)
		}
		if s := m.status(true); s.Held != slots || s.Free != 0 || s.Queued != waiters-1-i {
			t.Fatalf("after release %d: %d held, %d free, %d queued", i, s.Held, s.Free, s.Queued)
		}
	}
}

// BR-064: there is no second book. Whichever record is lost or says something
// else, the start is refused, or what is free is exactly what no lease in the
// records takes.
func TestBR064_FreeIsWhatNoLeaseTakes(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(6, lease.Settings{})})
	for i := range 4 {
		w.do(request(i, lease.Claim{Pool: "g"}, 0))
	}
	w.do(request(4, lease.Claim{Pool: "g", Count: 2}, 0))
	w.do(Abandon{Caller: lease.Local, Lease: "l0000002"})
	w.do(Release{Caller: lease.Local, Lease: "l0000003"})
	w.do(request(5, lease.Claim{Pool: "g", Count: 3}, time.Hour))
	whole := maps.Clone(w.records)
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		for name, damage := range damages {
			w.records = maps.Clone(whole)
			if r := w.decode(key); damage(w, key, r) {
				t.Run(fmt.Sprintf("%s/%T %x", name, r, key), func(t *testing.T) { startDamaged(t, w) })
			}
		}
	}
}

// A lease that is held and whose record is lost must not make its slot free:
// its holder works on.
func TestBR064_LostLeaseIsNoticed(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	w.do(request(0, lease.Claim{Pool: "g"}, 0))
	for key := range w.records {
		if _, ok := w.decode(key).(*lease.Entry); ok {
			delete(w.records, key)
		}
	}
	_, err := Load(Config{}, w.decodeAll())
	if !errors.Is(err, lease.CodeStoreCorrupt.Err()) || err.Error() != "cannot load the store: 0 leases are held by its records and 1 by its totals; restore a backup" {
		t.Errorf("the start is answered with %v", err)
	}
}

func (w *world) decode(key string) any {
	w.t.Helper()
	var d record.Decoder
	r, err := d.Decode([]byte(key), w.records[key])
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// damages do something to a record, or report that it is not of their kind.
var damages = map[string]func(w *world, key string, r any) bool{
	"lost":             func(w *world, key string, _ any) bool { delete(w.records, key); return true },
	"free":             onPart(func(p *lease.Part) { p.State = lease.PartFree }),
	"held":             onPart(func(p *lease.Part) { p.State = lease.PartHeld }),
	"more units":       onPart(func(p *lease.Part) { p.Units += 3 }),
	"no units":         onPart(func(p *lease.Part) { p.Units = 0 }),
	"units below zero": onPart(func(p *lease.Part) { p.Units = -3 }),
	"on another slot":  onPart(func(p *lease.Part) { p.Slot = "s000001" }),
	"on no slot":       onPart(func(p *lease.Part) { p.Slot = "s000009" }),
}

func onPart(change func(*lease.Part)) func(*world, string, any) bool {
	return func(w *world, key string, r any) bool {
		e, ok := r.(*lease.Entry)
		if !ok || e.Lease == nil {
			return false
		}
		change(&e.Lease.Parts[0])
		w.records[key] = w.encode(e)
		return true
	}
}

// startDamaged starts a machine on the world's records and compares what it
// shows as free, and what it grants, with the leases in them.
func startDamaged(t *testing.T, w *world) {
	records := w.decodeAll()
	used := map[string]int64{}
	for _, r := range records {
		if e, ok := r.(*lease.Entry); ok && e.Lease != nil && e.Settled == 0 {
			for _, p := range e.Lease.Parts {
				if p.State != lease.PartFree {
					used[p.Slot] += p.Units
				}
			}
		}
	}
	m, err := Load(Config{}, records)
	if err != nil {
		if !errors.Is(err, lease.CodeStoreCorrupt.Err()) {
			t.Errorf("refused without its code: %v", err)
		}
		return
	}
	m.Step(w.now, Restart{})
	m.Step(w.now, Cancel{Caller: lease.Local, ID: request(5, lease.Claim{Pool: "g"}, 0).Request.ID})
	s := m.status(false)
	for _, slot := range s.Pools[0].Slots {
		if free := used[slot.ID] == 0; free != (slot.State == "free") {
			t.Errorf("slot %s has %d units in use by the records and is shown as %s", slot.ID, used[slot.ID], slot.State)
		}
	}
	for i := range s.Slots + 1 {
		a := m.Step(w.now, request(10+i, lease.Claim{Pool: "g"}, 0)).Answers[0]
		if granted, free := a.Err == nil, i < s.Slots-len(used); granted != free {
			t.Fatalf("request %d is answered %v with %d of %d slots in use", i, a.Err, len(used), s.Slots)
		} else if granted && used[a.Token.Slots[0].ID] != 0 {
			t.Fatalf("slot %s is in use and granted", a.Token.Slots[0].ID)
		}
	}
}
