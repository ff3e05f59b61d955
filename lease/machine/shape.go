package machine

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/berth-dev/berth/lease"
)

// A shape is a set of claims that at least one waiter has.
type shape struct {
	key    string
	claims []lease.Claim
	pools  []*pool
	views  []*view
	// queue holds the waiters to be decided: if the first does not fit, none
	// does.
	queue queue
	// waiters are them all, absent and reserved ones too, in any order.
	waiters []*entry
}

// A ranked is a waiter with what orders it: rank, then arrival.
type ranked struct {
	rank   time.Duration
	number uint64
	e      *entry
}

// A queue holds waiters by rank.
type queue struct{ tree *btree.BTreeG[ranked] }

func newQueue() queue {
	return queue{btree.NewBTreeGOptions(ranked.before, btree.Options{NoLocks: true})}
}

func (r ranked) before(o ranked) bool {
	return r.rank < o.rank || r.rank == o.rank && r.number < o.number
}

func (r ranked) compare(o ranked) int {
	if r.before(o) {
		return -1
	}
	return 1
}

func (q queue) add(e *entry)    { q.tree.Set(e.wait.ranked(e)) }
func (q queue) remove(e *entry) { q.tree.Delete(e.wait.ranked(e)) }
func (q queue) len() int        { return q.tree.Len() }

// first returns the waiter of earliest rank, or nil.
func (q queue) first() *entry {
	r, _ := q.tree.Min()
	return r.e
}

// each yields the waiters by rank.
func (q queue) each(yield func(*entry) bool) {
	q.tree.Scan(func(r ranked) bool { return yield(r.e) })
}

func (w *waiting) ranked(e *entry) ranked { return ranked{w.rank, e.Number, e} }

// place is which of the shape's claims is on the pool.
func (sh *shape) place(p *pool) int { return slices.Index(sh.pools, p) }

// shapeOf returns the shape of the claims on their pools, not yet counted as
// waiting.
func (m *Machine) shapeOf(claims []lease.Claim, pools []*pool) *shape {
	m.key = appendShape(m.key[:0], claims)
	for _, sh := range pools[0].shapes {
		if sh.key == string(m.key) {
			return sh
		}
	}
	sh := &shape{key: string(m.key), claims: claims, pools: slices.Clone(pools), queue: newQueue()}
	for i, c := range claims {
		sh.views = append(sh.views, m.view(pools[i], c.Select))
	}
	return sh
}

// appendShape appends what is the same for equal claims.
func appendShape(b []byte, claims []lease.Claim) []byte {
	for _, c := range claims {
		b = append(append(b, c.Pool...), 0)
		b = binary.AppendUvarint(b, uint64(c.Count))
		b = binary.AppendUvarint(b, uint64(c.Units))
		b = append(append(b, selectorKey(c.Select)...), 0)
	}
	return b
}

// join makes the entry one of the shape's waiters; the first makes the shape
// one of its pools' shapes.
func (sh *shape) join(e *entry) {
	if len(sh.waiters) == 0 {
		for i, p := range sh.pools {
			p.shapes = append(p.shapes, sh)
			sh.views[i].waiting++
		}
	}
	e.wait.place = len(sh.waiters)
	sh.waiters = append(sh.waiters, e)
}

// leave is the opposite of join.
func (sh *shape) leave(e *entry) {
	end := len(sh.waiters) - 1
	last := sh.waiters[end]
	sh.waiters[e.wait.place], last.wait.place = last, e.wait.place
	sh.waiters[end] = nil
	if sh.waiters = sh.waiters[:end]; end > 0 {
		return
	}
	for i, p := range sh.pools {
		p.shapes = slices.DeleteFunc(p.shapes, func(o *shape) bool { return o == sh })
		sh.views[i].waiting--
	}
}

// satisfiable reports whether the pools' slots could ever satisfy the shape,
// held, drained or sick as they may be.
func (sh *shape) satisfiable() bool {
	for i, c := range sh.claims {
		if sh.pools[i].Removing || !sh.views[i].offers(c.Count, c.Units) {
			return false
		}
	}
	return true
}
