package simulate

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/lease"
)

// A place is a slot of a pool.
type place struct{ pool, slot string }

// A work is what really goes on under a lease, whatever the broker believes.
type work struct {
	lease  lease.LeaseID
	key    key
	host   *host
	places []place
	units  []int64
	// caps are the capacities of the places when the lease was granted.
	caps   []int64
	honest bool
	// cleans is set on a cleaner's work: whose units it cleans.
	cleans  lease.LeaseID
	running bool
	// lost says that a restore made the broker forget the lease.
	lost bool
}

// frozen reports whether the work stands still with its machine.
func (k *work) frozen() bool { return k.host.sleeping() }

// truth is all work, by where it goes on.
type truth struct {
	works map[place][]*work
	all   []*work
}

// begin starts work. It may overlap with none but what the lease's units allow.
func (w *World) begin(k *work) {
	k.running = true
	w.truth.all = append(w.truth.all, k)
	for i, p := range k.places {
		w.check.begins(k, i)
		w.truth.works[p] = append(w.truth.works[p], k)
	}
	w.logf("work begins: lease %s on %v", k.lease.Ref(), k.places)
}

// stop ends work for good.
func (w *World) stop(k *work) {
	if k == nil || !k.running {
		return
	}
	k.running = false
	for _, p := range k.places {
		w.truth.works[p] = slices.DeleteFunc(w.truth.works[p], func(o *work) bool { return o == k })
	}
	w.truth.all = slices.DeleteFunc(w.truth.all, func(o *work) bool { return o == k })
	w.logf("work stops: lease %s", k.lease.Ref())
}

// stopAll ends some works.
func (t *truth) stopAll(which func(*work) bool) {
	for _, k := range slices.Clone(t.all) {
		if which(k) {
			k.host.w.stop(k)
		}
	}
}

// on returns the work on a place.
func (t *truth) on(p place) []*work { return t.works[p] }

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.slot, b.slot))
}
