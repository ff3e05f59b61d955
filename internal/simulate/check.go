package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A checker follows every step of the broker from outside and checks the
// invariants on it.
type checker struct {
	w     *World
	books *books
	queue *queue
	// promises are what has been promised of each lease.
	promises map[lease.LeaseID]*promise
	// caps are the capacities of a lease's slots at its grant.
	caps map[lease.LeaseID][]int64
	// granted are the leases that were told of, by request.
	granted map[key]lease.LeaseID
	// closed are the requests whose acquire ended with an error at the client.
	closed map[key]*closing
	// events are the changes that events not yet told rest on.
	events []int
	// said is the change up to which the store may not fall back in a crash.
	said int
	// fence is the highest so far, fenceBefore that before the step.
	fence, fenceBefore lease.Fence
	began              map[uint64]time.Duration // starts, by number
	start              uint64
	tokens             map[lease.Fence]lease.LeaseID
	// deaf is of the fault ExtendAgain: a renewal is not heard.
	deaf bool
	// whole says that the last step left no work.
	whole bool
	// grants are those of the step, refused the requests that did not wait and
	// found nothing free.
	grants, refused []*page
	reshelf         map[place]int64
}

// A closing is how an acquire ended at the client.
type closing struct {
	code lease.Code
	at   time.Duration
	// restarts counts the starts since.
	restarts int
}

func newChecker(w *World) *checker {
	return &checker{
		w: w, books: newBooks(), promises: map[lease.LeaseID]*promise{}, closed: map[key]*closing{}, granted: map[key]lease.LeaseID{}, caps: map[lease.LeaseID][]int64{},
		began: map[uint64]time.Duration{}, tokens: map[lease.Fence]lease.LeaseID{}, queue: newModel(), reshelf: map[place]int64{},
	}
}

// before counts what state the command meets.
func (c *checker) before(name string, about key, cmd machine.Command) {
	if name != "restart" {
		c.w.meet(name, about, cmd)
	}
}

// after takes in a step.
func (c *checker) after(name string, about key, cmd machine.Command, now time.Duration, fx *machine.Effects) {
	c.grants, c.refused, c.fenceBefore = c.grants[:0], c.refused[:0], c.fence
	clear(c.reshelf)
	if r, ok := cmd.(machine.Restart); ok {
		c.started(now, r)
	}
	c.takeIn(cmd, now, fx)
	c.renewing(cmd, now, fx)
	c.answers(cmd, about, now, fx)
	for range fx.Events {
		c.events = append(c.events, len(c.books.digests)-1)
	}
	c.checkGrants(now)
	c.checkQueue(cmd, now, fx)
	c.checkLedger()
	if _, tick := cmd.(machine.Tick); tick && !fx.More {
		c.checkOverdue(now)
	}
	c.whole = !fx.More
}

// takeIn copies the changes of a step into the books.
func (c *checker) takeIn(cmd machine.Command, now time.Duration, fx *machine.Effects) {
	if len(fx.Changes) == 0 {
		return
	}
	b := c.books
	digest := b.digest()
	b.digests = append(b.digests, digest)
	for _, ch := range fx.Changes {
		var err error
		if digest, err = b.note(digest, ch); err != nil {
			c.w.fail("books", "a changed record cannot be written: %v", err)
		}
		if ch.Delete {
			c.dropped(now, b.drop(ch.Record))
			continue
		}
		if s, ok := ch.Record.(*lease.Slot); ok && b.shelves[place{s.Pool, s.ID}] != nil {
			c.reshelf[place{s.Pool, s.ID}] = b.shelves[place{s.Pool, s.ID}].Capacity
		}
		if was, is := b.put(ch.Record); is != nil {
			c.changed(cmd, now, was, is)
		}
	}
	b.digests[len(b.digests)-1] = digest
}

// changed checks what became of one request.
func (c *checker) changed(cmd machine.Command, now time.Duration, was, is *page) {
	c.checkOnce(now, was, is)
	switch {
	case is.Lease == nil:
		if is.Code == lease.CodeNoCapacity && (was == nil || was.State != lease.Ended) {
			c.refused = append(c.refused, is)
		}
	case was == nil || was.Lease == nil:
		c.isGranted(now, is)
	case was.State == lease.Held && is.State == lease.Ended:
		c.ended(now, is)
	}
	if was != nil && was.Lease != nil && is.Lease != nil {
		c.parts(cmd, now, was, is)
	}
}

func (c *checker) ref(p *page) string {
	s := "request " + string(p.key.id.Ref()) + " (" + p.Note() + ")"
	if p.Lease != nil {
		s += " lease " + string(p.Lease.ID.Ref())
	}
	return s
}

// Note is what the client called the request.
func (p *page) Note() string {
	switch {
	case p.Lease != nil:
		return p.Lease.Note
	case p.Request != nil:
		return p.Request.Note
	}
	return "ended"
}
