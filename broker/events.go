package broker

import (
	"context"
	"sync"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// An Event is something that happened and is durable. It shows refs, never
// ids.
type Event struct {
	// Number grows by one from event to event; at a broker's start it leaps,
	// so that no number comes twice.
	Number  uint64
	Kind    string
	At      time.Duration
	Request lease.Ref
	Lease   lease.Ref
	Fence   lease.Fence
	Pool    string
	Slot    string
	// Why is a code or a proof; Reason is what a person said.
	Why    string
	Reason string
}

// A journal keeps the latest events and wakes those who watch.
type journal struct {
	mu sync.Mutex
	// The fields below are guarded by mu.
	first  uint64 // number of the oldest kept
	events []machine.Event
	keep   int
	// grown is closed at the next event, nil while nobody waits.
	grown chan struct{}
	// ended is why there will be no more, or nil.
	ended error
}

// eventsPerFence is how many events a broker could tell for each fence it
// gives, and each microsecond it runs, before a later start could come to tell
// a number again.
const eventsPerFence = 1 << 10

// firstEvent returns the number of a start's first event. The fence that a
// start begins with never comes twice, whatever became of the records; it is
// below 2^53, so all numbers are below 2^63.
func firstEvent(start lease.Fence) uint64 { return uint64(start) * eventsPerFence }

func newJournal(first uint64, keep int) *journal { return &journal{first: first, keep: keep} }

// add appends events and forgets the oldest past twice what is kept.
func (j *journal) add(events []machine.Event) {
	if len(events) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, events...)
	if over := len(j.events) - j.keep; over > j.keep {
		n := copy(j.events, j.events[over:])
		clear(j.events[n:])
		j.events = j.events[:n]
		j.first += uint64(over)
	}
	j.wakeLocked()
}

// end says that there will be no more events.
func (j *journal) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = err
	j.wakeLocked()
}

func (j *journal) wakeLocked() {
	if j.grown != nil {
		close(j.grown)
		j.grown = nil
	}
}

// from returns the events from a number on, or a channel that is closed when
// there may be some.
func (j *journal) from(number uint64) ([]Event, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.first + uint64(len(j.events))
	switch {
	case number > next:
		return nil, nil, lease.Errorf(lease.CodeRequestInvalid, "cannot watch from event %d: the next one is %d", number, next)
	case number < j.first:
		return nil, nil, lease.Errorf(lease.CodeCompacted, "cannot watch from event %d: the oldest kept is %d; read the state and watch from %d", number, j.first, next)
	case number == next && j.ended != nil:
		return nil, nil, j.ended
	case number == next:
		if j.grown == nil {
			j.grown = make(chan struct{})
		}
		return nil, j.grown, nil
	}
	return j.pageLocked(number), nil, nil
}

// pageLocked returns up to 256 events from a number on.
func (j *journal) pageLocked(number uint64) []Event {
	page := j.events[number-j.first:]
	page = page[:min(len(page), 256)]
	events := make([]Event, len(page))
	for i, ev := range page {
		events[i] = Event{
			Number: number + uint64(i), Kind: ev.Kind.String(), At: ev.At, Request: ev.Request.Ref(), Lease: ev.Lease.Ref(),
			Fence: ev.Fence, Pool: ev.Pool, Slot: ev.Slot, Why: ev.Why, Reason: ev.Reason,
		}
		if ev.End != 0 && ev.Why == "" {
			events[i].Why = ev.End.String()
		}
	}
	return events
}

func (j *journal) next() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first + uint64(len(j.events))
}

// Watch calls tell for every event from a number on, in order, until ctx
// ends, tell fails or the broker stops; it returns why. With from 0 it begins
// with what comes next. An error with [lease.CodeCompacted] means that the
// number is gone: read the state anew.
func (b *Broker) Watch(ctx context.Context, from uint64, tell func(Event) error) error {
	if from == 0 {
		from = b.journal.next()
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		events, grown, err := b.journal.from(from)
		if err != nil {
			return err
		}
		for _, ev := range events {
			if err := tell(ev); err != nil {
				return err
			}
			from = ev.Number + 1
		}
		if grown == nil {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
