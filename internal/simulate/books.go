package simulate

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/store"
	"github.com/berth-dev/berth/store/record"
)

// A key names a request, or with session or host set what a command is about
// otherwise.
type key struct {
	caller  lease.Caller
	id      lease.RequestID
	session string
	host    string
	pool    string
}

// A page is what the books say of one request: a copy of its record.
type page struct {
	lease.Entry
	key key
	// changed is the digest after the last step that changed the record.
	changed int
}

// A shelf is what the books say of one slot.
type shelf struct {
	lease.Slot
	at place
	// used are the units that are not free, wide the units of each lease's
	// capacity at its grant.
	used  int64
	freed time.Duration
	// free and aside are scratch space of the fairness check.
	free, aside int64
}

func (s *shelf) open() bool {
	return !s.Drained && !s.Removing && s.Unhealthy == "" && s.SettleUntil == 0
}

// books are the broker's records, followed from outside: copied from the
// changes of each step, and compared with the store at each start.
type books struct {
	pages   map[uint64]*page
	byKey   map[key]*page
	byLease map[lease.LeaseID]*page
	// live are the requests that are not settled, ended the others, each by
	// number.
	live, ended []*page
	shelves     map[place]*shelf
	inOrder     []*shelf
	pools       map[string]lease.Pool
	hosts       map[string]string
	marks       map[key]uint64 // of sessions
	// ends count the settled requests by their end.
	ends [16]int
	// sums are the digests of each record; digest is that of all, after each
	// step that changed something.
	sums    map[string]uint64
	digests []uint64
	buf     []byte
	value   []byte
}

func newBooks() *books {
	return &books{
		pages: map[uint64]*page{}, byKey: map[key]*page{}, byLease: map[lease.LeaseID]*page{},
		shelves: map[place]*shelf{}, pools: map[string]lease.Pool{}, hosts: map[string]string{}, marks: map[key]uint64{},
		sums: map[string]uint64{}, digests: []uint64{0},
	}
}

// digest returns that of all records after the last step.
func (b *books) digest() uint64 { return b.digests[len(b.digests)-1] }

func sum(k, v []byte) uint64 {
	h := fnv.New64a()
	h.Write(k)
	h.Write([]byte{0})
	h.Write(v)
	return h.Sum64()
}

// note takes a record's new bytes into the digest.
func (b *books) note(digest uint64, c machine.Change) (uint64, error) {
	var err error
	if b.buf, err = record.AppendKey(b.buf[:0], c.Record); err != nil {
		return digest, err
	}
	digest ^= b.sums[string(b.buf)]
	if c.Delete {
		delete(b.sums, string(b.buf))
		return digest, nil
	}
	if b.value, err = record.AppendValue(b.value[:0], c.Record); err != nil {
		return digest, err
	}
	s := sum(b.buf, b.value)
	b.sums[string(b.buf)] = s
	return digest ^ s, nil
}

// copyEntry copies what the machine goes on changing.
func copyEntry(e *lease.Entry) lease.Entry {
	c := *e
	if e.Lease != nil {
		l := *e.Lease
		l.Parts = slices.Clone(l.Parts)
		c.Lease = &l
	}
	return c
}

// put takes a record in and returns the pages before and after, if it is one
// of a request.
func (b *books) put(r any) (was, is *page) {
	switch r := r.(type) {
	case *lease.Pool:
		b.pools[r.Name] = *r
	case *lease.Host:
		b.hosts[r.Machine] = r.Boot
	case *lease.Session:
		b.marks[key{caller: r.Caller, session: r.ID}] = r.Mark
	case *lease.Slot:
		b.putSlot(*r)
	case *lease.Entry:
		return b.putEntry(r)
	}
	return nil, nil
}

func (b *books) putSlot(r lease.Slot) {
	at := place{r.Pool, r.ID}
	s := b.shelves[at]
	if s == nil {
		s = &shelf{at: at}
		b.shelves[at] = s
		i, _ := slices.BinarySearchFunc(b.inOrder, s, func(x, y *shelf) int { return comparePlaces(x.at, y.at) })
		b.inOrder = slices.Insert(b.inOrder, i, s)
	}
	s.Slot = r
	s.freed = max(s.freed, r.Freed)
}

func (b *books) putEntry(r *lease.Entry) (was, is *page) {
	was = b.pages[r.Number]
	is = &page{Entry: copyEntry(r), key: key{caller: r.Caller, id: r.ID}, changed: len(b.digests) - 1}
	b.pages[r.Number], b.byKey[is.key] = is, is
	if is.Lease != nil {
		b.byLease[is.Lease.ID] = is
	}
	b.occupy(was, -1)
	b.occupy(is, 1)
	if is.Settled != 0 && (was == nil || was.Settled == 0) {
		b.ends[is.End]++
	}
	b.live, b.ended = filed(b.live, was, is, is.Settled == 0), filed(b.ended, was, is, is.Settled != 0)
	return was, is
}

// marked reports whether the request is below its session's mark.
func (b *books) marked(k key) bool {
	session, serial := k.inSession()
	mark, ok := b.marks[key{caller: k.caller, session: session}]
	return ok && serial < mark
}

// inSession returns the session and number that a request id tells.
func (k key) inSession() (session string, serial uint64) {
	i := strings.LastIndexByte(string(k.id), ':')
	if i < 0 {
		return "", 0
	}
	serial, _ = strconv.ParseUint(string(k.id[i+1:]), 10, 64)
	return string(k.id[:i]), serial
}

// filed returns the list with is in the place of was, or without both.
func filed(list []*page, was, is *page, belongs bool) []*page {
	i, found := slices.BinarySearchFunc(list, is.Number, func(p *page, n uint64) int { return cmp.Compare(p.Number, n) })
	switch {
	case found && belongs:
		list[i] = is
	case found:
		return slices.Delete(list, i, i+1)
	case belongs:
		return slices.Insert(list, i, is)
	}
	return list
}

// occupy counts the units of a lease that are not free. A cleaner's lease has
// those of the lease that it cleans up after.
func (b *books) occupy(p *page, by int64) {
	if p == nil || p.Lease == nil || p.Lease.Cleans != nil {
		return
	}
	for _, part := range p.Lease.Parts {
		if s := b.shelves[place{part.Pool, part.Slot}]; s != nil && part.State != lease.PartFree {
			s.used += by * part.Units
		}
	}
}

// drop takes out a record that is gone.
func (b *books) drop(r any) *page {
	switch r := r.(type) {
	case *lease.Pool:
		delete(b.pools, r.Name)
	case *lease.Host:
		delete(b.hosts, r.Machine)
	case *lease.Session:
		delete(b.marks, key{caller: r.Caller, session: r.ID})
	case *lease.Slot:
		at := place{r.Pool, r.ID}
		if s := b.shelves[at]; s != nil {
			delete(b.shelves, at)
			b.inOrder = slices.DeleteFunc(b.inOrder, func(o *shelf) bool { return o == s })
		}
	case *lease.Entry:
		p := b.pages[r.Number]
		if p == nil {
			return nil
		}
		b.occupy(p, -1)
		if p.Settled != 0 {
			b.ends[p.End]--
		}
		delete(b.pages, r.Number)
		delete(b.byKey, p.key)
		if p.Lease != nil {
			delete(b.byLease, p.Lease.ID)
		}
		drop := func(o *page) bool { return o == p }
		b.live, b.ended = slices.DeleteFunc(b.live, drop), slices.DeleteFunc(b.ended, drop)
		return p
	}
	return nil
}

// readBooks makes books of what a store holds. The ledger is not part of the
// digest: it changes with every commit.
func readBooks(s store.Store) (*books, *lease.Ledger, error) {
	b := newBooks()
	var decoder record.Decoder
	var ledger lease.Ledger
	var digest uint64
	var entries []*lease.Entry
	_, err := s.Load(context.Background(), func(k, v []byte) error {
		r, err := decoder.Decode(k, v)
		if err != nil {
			return err
		}
		switch r := r.(type) {
		case *lease.Ledger:
			ledger = *r
			return nil
		case *lease.Entry:
			entries = append(entries, r)
		default:
			b.put(r)
		}
		h := sum(k, v)
		b.sums[string(k)] = h
		digest ^= h
		return nil
	})
	for _, e := range entries {
		b.putEntry(e)
		b.freed(e)
	}
	b.digests = []uint64{digest}
	return b, &ledger, err
}

// freed tells the slots when a lease gave them back.
func (b *books) freed(e *lease.Entry) {
	if e.Lease == nil || e.Lease.Cleans != nil {
		return
	}
	for _, part := range e.Lease.Parts {
		if s := b.shelves[place{part.Pool, part.Slot}]; s != nil && part.State == lease.PartFree {
			s.freed = max(s.freed, part.Freed)
		}
	}
}
