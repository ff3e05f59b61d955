package hold_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// A shaky broker is a small one for tests, in the test's own time: a pool g
// of so many slots that are free again when their lease ends, whatever ended
// it. Its link goes wrong as the test says.
type shaky struct {
	slots int
	ttl   time.Duration
	link  func(op string, n int) fault // nil: nothing goes wrong

	mu      sync.Mutex
	changed chan struct{}
	calls   map[string]int
	leases  []*entry
}

// A fault is what goes wrong with one call.
type fault struct {
	before, after time.Duration // delays on the way there and back
	lost          bool          // it never arrives
	unheard       bool          // it is served, and the answer never comes
	err           error         // the answer, instead of being served
	bad           func(*lease.Token)
}

type entry struct {
	request lease.RequestID
	id      lease.LeaseID
	fence   lease.Fence
	slot    int
	expires time.Time
	renewed int
	values  any // of the context of the call that ended it
	end     lease.Code
	reason  string
}

func newShaky(slots int, ttl time.Duration) *shaky {
	return &shaky{slots: slots, ttl: ttl, changed: make(chan struct{}), calls: map[string]int{}}
}

// setLink changes the link while it is used.
func (b *shaky) setLink(link func(string, int) fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.link = link
}

// call carries one call over the link.
func (b *shaky) call(ctx context.Context, op string, serve func() error) (fault, error) {
	b.mu.Lock()
	n := b.calls[op]
	b.calls[op]++
	var f fault
	if b.link != nil {
		f = b.link(op, n)
	}
	b.mu.Unlock()
	switch {
	case f.lost:
		<-ctx.Done()
		return f, errors.New("the link is cut")
	case !sleep(ctx, f.before):
		return f, context.Cause(ctx)
	case f.err != nil:
		return f, f.err
	}
	err := serve()
	if f.unheard {
		<-ctx.Done()
		return f, errors.New("the link is cut")
	}
	if !sleep(ctx, f.after) {
		return f, context.Cause(ctx)
	}
	return f, err
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sweep ends leases whose time is over.
func (b *shaky) sweep() {
	for _, e := range b.leases {
		if e.end == "" && !time.Now().Before(e.expires) {
			b.finish(e, lease.CodeLeaseExpired)
		}
	}
}

func (b *shaky) finish(e *entry, end lease.Code) {
	e.end = end
	close(b.changed)
	b.changed = make(chan struct{})
}

// grant returns a lease on a free slot, or what to wait for.
func (b *shaky) grant(r lease.Request) (*entry, <-chan struct{}, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	taken := map[int]bool{}
	next := time.Hour
	for _, e := range b.leases {
		if e.end == "" {
			taken[e.slot] = true
			next = min(next, time.Until(e.expires))
		}
	}
	for slot := range b.slots {
		if !taken[slot] {
			n := len(b.leases) + 1
			e := &entry{request: r.ID, id: lease.LeaseID("secret-" + strconv.Itoa(n)), fence: lease.Fence(n), slot: slot, expires: time.Now().Add(b.ttl)}
			b.leases = append(b.leases, e)
			return e, nil, 0
		}
	}
	return nil, b.changed, next
}

func (b *shaky) Acquire(ctx context.Context, r lease.Request) (lease.Token, error) {
	arrived := time.Now()
	var t lease.Token
	f, err := b.call(ctx, "acquire", func() error {
		for {
			e, changed, next := b.grant(r)
			if e != nil {
				t = b.token(e)
				t.Elapsed = time.Since(arrived)
				return nil
			}
			left := time.Until(arrived.Add(r.Wait))
			if left <= 0 {
				return lease.CodeNoCapacity.Err()
			}
			select {
			case <-changed:
			case <-time.After(min(next, left)):
			case <-ctx.Done():
				return lease.Errorf(lease.CodeCancelled, "cancelled: %w", context.Cause(ctx))
			}
		}
	})
	if f.bad != nil {
		f.bad(&t)
	}
	if err != nil && t.LeaseID != "" { // as the contract says: taken back
		b.end(t.LeaseID, lease.CodeLeaseReleased)
		t = lease.Token{}
	}
	return t, err
}

func (b *shaky) token(e *entry) lease.Token {
	return lease.Token{
		RequestID: e.request, LeaseID: e.id, Fence: e.fence, TTL: b.ttl, Left: time.Until(e.expires),
		Slots: []lease.GrantedSlot{{Pool: "g", ID: "g-" + strconv.Itoa(e.slot), Units: 1, Whole: true, Handover: lease.Handover{After: 15 * sec}}},
	}
}

func (b *shaky) Renew(ctx context.Context, t lease.Token) (lease.Token, error) {
	var answer lease.Token
	f, err := b.call(ctx, "renew", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		e := b.find(t.LeaseID)
		if e == nil {
			return lease.CodeLeaseUnknown.Err()
		}
		if e.end != "" {
			return e.end.Err()
		}
		e.renewed++
		e.expires = time.Now().Add(b.ttl)
		answer = b.token(e)
		return nil
	})
	if f.bad != nil {
		f.bad(&answer)
	}
	return answer, err
}

type valueKey struct{}

func (b *shaky) Release(ctx context.Context, t lease.Token) error {
	_, err := b.call(ctx, "release", func() error {
		return b.giveBack(ctx, t.LeaseID, lease.CodeLeaseReleased, "")
	})
	return err
}

func (b *shaky) Abandon(ctx context.Context, t lease.Token, reason string) error {
	_, err := b.call(ctx, "abandon", func() error {
		return b.giveBack(ctx, t.LeaseID, lease.CodeLeaseAbandoned, reason)
	})
	return err
}

func (b *shaky) giveBack(ctx context.Context, id lease.LeaseID, end lease.Code, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := b.find(id); {
	case e == nil:
		return lease.CodeLeaseUnknown.Err()
	case e.end == end:
		return nil
	case e.end != "":
		return e.end.Err()
	default:
		e.values, e.reason = ctx.Value(valueKey{}), reason
		b.finish(e, end)
		return nil
	}
}

func (b *shaky) Cancel(ctx context.Context, id lease.RequestID) error {
	_, err := b.call(ctx, "cancel", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.leases {
			if e.request == id && e.end == "" {
				b.finish(e, lease.CodeLeaseAbandoned)
			}
		}
		return nil
	})
	return err
}

func (b *shaky) find(id lease.LeaseID) *entry {
	b.sweep()
	for _, e := range b.leases {
		if e.id == id {
			return e
		}
	}
	return nil
}

// end ends a lease as an operator would.
func (b *shaky) end(id lease.LeaseID, end lease.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(id); e.end == "" {
		b.finish(e, end)
	}
}

// last returns the newest lease as it stands.
func (b *shaky) last() entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	return *b.leases[len(b.leases)-1]
}

// held returns how many leases are held.
func (b *shaky) held() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	for _, e := range b.leases {
		if e.end == "" {
			n++
		}
	}
	return n
}

func (b *shaky) count(op string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[op]
}

// A clock is the test's time on both clocks; asleep moves only the one that
// counts sleep.
type clock struct {
	start time.Time
	slept atomic.Int64
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) Now() attempt.Instant {
	mono := time.Since(c.start)
	return attempt.Instant{Mono: mono, Boot: mono + time.Duration(c.slept.Load())}
}

func (c *clock) asleep(d time.Duration) { c.slept.Add(int64(d)) }

// A log keeps a Keeper's events.
type log struct {
	mu     sync.Mutex
	events []hold.Event
}

func (l *log) add(e hold.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// of returns the events of the kind.
func (l *log) of(kind hold.Kind) (found []hold.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// keeper returns a Keeper in the test's time and what it reports. The test
// demands that everything is given back in the end.
func keeper(t *testing.T, b *shaky, change ...func(*hold.Config)) (*hold.Keeper, *log) {
	t.Helper()
	events := &log{}
	cfg := hold.Config{Broker: b, Clock: newClock(), Observe: events.add}
	for _, c := range change {
		c(&cfg)
	}
	k, err := hold.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k, events
}

func one() lease.Request { return lease.Request{Claims: []lease.Claim{{Pool: "g"}}} }

func acquire(t *testing.T, k *hold.Keeper) *hold.Lease {
	t.Helper()
	l, err := k.Acquire(t.Context(), one())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// code demands that err has the code; "" is no error.
func code(t *testing.T, err error, want lease.Code) {
	t.Helper()
	if got := lease.CodeOf(err); got != want {
		t.Errorf("error %v (%s), want %q", err, got, want)
	}
}
