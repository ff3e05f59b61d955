package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// A model is what the broker is, to those who call it one after the other: two
// slots, who holds them, and the fence given last on each. A unit that waits
// for a client to ask again counts as given, its fence comes later: so fences
// are compared on one slot, as a sink does. Its state is a value.
type model struct {
	slots  [2]string
	fences [2]lease.Fence
}

// A deed is what a caller asked for, as the model sees it.
type deed struct {
	kind string // acquire, refused, given up, undo, release, renew
	who  string
}

// A finding is what the caller was told: the slot it got, and its fence.
type finding struct {
	slot  int
	fence lease.Fence
}

// steps returns the states that a deed may lead to; none is a contradiction.
func (m model) steps(d deed, f finding) []any {
	at := -1
	for i, who := range m.slots {
		if who == d.who {
			at = i
		}
	}
	switch d.kind {
	case "acquire":
		return m.acquire(d.who, f)
	case "refused":
		if m.slots[0] != "" && m.slots[1] != "" {
			return []any{m}
		}
		return nil
	case "given up":
		// It may have had a slot for a while, until its cancel.
		states := []any{m}
		for i, who := range m.slots {
			if who == "" {
				next := m
				next.slots[i] = d.who
				states = append(states, next)
			}
		}
		return states
	case "undo", "release":
		if at < 0 && d.kind == "release" {
			return nil
		}
		if at >= 0 {
			m.slots[at] = ""
		}
		return []any{m}
	}
	if at != f.slot {
		return nil
	}
	return []any{m}
}

func (m model) acquire(who string, f finding) []any {
	if m.slots[f.slot] != "" || f.fence <= m.fences[f.slot] {
		return nil
	}
	m.slots[f.slot], m.fences[f.slot] = who, f.fence
	return []any{m}
}

// linear reports whether one order of the deeds, within their times, explains
// what everybody was told.
func linear(history []porcupine.Operation) bool {
	return porcupine.CheckOperations((&porcupine.NondeterministicModel{
		Init: func() []any { return []any{model{}} },
		Step: func(state, input, output any) []any {
			return state.(model).steps(input.(deed), output.(finding))
		},
	}).ToModel(), history)
}

// A scribe keeps the history of many callers.
type scribe struct {
	clock   atomic.Int64
	mu      sync.Mutex
	history []porcupine.Operation
}

func (s *scribe) note(client int, began int64, d deed, f finding) {
	op := porcupine.Operation{ClientId: client, Input: d, Call: began, Output: f, Return: s.clock.Add(1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, op)
}

// A stage shows the broker that runs now to callers who outlive many.
type stage struct {
	mu   sync.Mutex
	now  *broker.Broker
	next chan struct{} // closed when there is another
}

func (s *stage) show(b *broker.Broker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
	}
	s.now, s.next = b, make(chan struct{})
}

func (s *stage) look() (*broker.Broker, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.next
}

// ask repeats a call on one broker after the other until it is answered.
func (s *stage) ask(call func(b *broker.Broker) error) error {
	for {
		b, next := s.look()
		err := call(b)
		if code := lease.CodeOf(err); code != lease.CodeOutcomeUnknown && code != lease.CodeStopped {
			return err
		}
		<-next
	}
}

// A player is one caller of a history.
type player struct {
	*scribe
	*stage
	client  int
	cancels bool
	rng     *rand.Rand
}

func (p player) play(t *testing.T, rounds int) {
	for i := range rounds {
		who := fmt.Sprintf("%d/%d", p.client, i)
		r := wish(time.Duration(p.rng.IntN(2)) * time.Minute)
		r.ID = lease.NewRequestID()
		if p.cancels && p.rng.IntN(3) == 0 {
			p.giveUp(t, who, r)
			continue
		}
		p.use(t, who, r)
	}
}

// use acquires, renews a few times and releases.
func (p player) use(t *testing.T, who string, r lease.Request) {
	var token lease.Token
	began := p.clock.Add(1)
	err := p.ask(func(b *broker.Broker) (err error) {
		token, err = b.Acquire(t.Context(), r)
		return err
	})
	switch lease.CodeOf(err) {
	case "":
		p.work(t, who, began, token)
	case lease.CodeNoCapacity:
		p.note(p.client, began, deed{"refused", who}, finding{})
	default:
		t.Error(err)
	}
}

func (p player) work(t *testing.T, who string, began int64, token lease.Token) {
	got := finding{int(token.Slots[0].ID[2] - '0'), token.Fence}
	p.note(p.client, began, deed{"acquire", who}, got)
	for range p.rng.IntN(2) {
		dawdle(20)
		began := p.clock.Add(1)
		err := p.ask(func(b *broker.Broker) error {
			_, err := b.Renew(t.Context(), token)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		p.note(p.client, began, deed{"renew", who}, got)
	}
	began = p.clock.Add(1)
	if err := p.ask(func(b *broker.Broker) error { return b.Release(t.Context(), token) }); err != nil {
		t.Error(err)
	}
	p.note(p.client, began, deed{"release", who}, finding{})
}

// giveUp acquires with a context that ends about then.
func (p player) giveUp(t *testing.T, who string, r lease.Request) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	began := p.clock.Add(1)
	b, _ := p.look()
	waiter := begin(ctx, b, r)
	dawdle(20)
	cancel(errMind)
	got := <-waiter
	switch {
	case got.err == nil:
		p.work(t, who, began, got.token)
	case errors.Is(got.err, errMind):
		p.note(p.client, began, deed{"given up", who}, finding{})
		p.note(p.client, began, deed{"undo", who}, finding{})
	case lease.CodeOf(got.err) == lease.CodeNoCapacity:
		p.note(p.client, began, deed{"refused", who}, finding{})
	default:
		t.Error(got.err)
	}
}

// Callers of one broker, and callers of a broker that is stopped and started
// again: what they are told fits slots that are used one after the other.
func TestHistoriesAreLinear(t *testing.T) {
	for round := range 40 {
		restarts := round % 2 * 4
		t.Run(fmt.Sprintf("round=%d,restarts=%d", round, restarts), func(t *testing.T) {
			history := record(t, uint64(round), restarts)
			if !linear(history) {
				t.Errorf("no order explains %d operations:\n%v", len(history), history)
			}
		})
	}
}

// record returns the history of five callers. Where there are restarts they
// do not give up: what a cancel leaves to the TTL is another story.
func record(t *testing.T, seed uint64, restarts int) []porcupine.Operation {
	s := memory()
	pen, stage := &scribe{}, &stage{}
	f := open(t, uneven{s}, poolWith("g", lease.Settings{TTL: time.Hour}, "g-0", "g-1"))
	stage.show(f.Broker)
	var all sync.WaitGroup
	for i := range 5 {
		p := player{pen, stage, i, restarts == 0, rand.New(rand.NewPCG(seed, uint64(i)))}
		all.Go(func() { p.play(t, 8) })
	}
	for i := range restarts {
		dawdle(300)
		if i%2 == 0 {
			s = s.Reopen() // what is under way is lost
		}
		f.stop()
		f = open(t, uneven{s})
		stage.show(f.Broker)
	}
	all.Wait()
	f.stop()
	return pen.history
}

// The check finds what it is for.
func TestHistoryCheckFindsFaults(t *testing.T) {
	op := func(began, ended int64, d deed, f finding) porcupine.Operation {
		return porcupine.Operation{Input: d, Call: began, Output: f, Return: ended}
	}
	good := []porcupine.Operation{
		op(1, 2, deed{"acquire", "a"}, finding{0, 5}),
		op(3, 6, deed{"acquire", "b"}, finding{0, 6}),
		op(4, 5, deed{"release", "a"}, finding{}),
	}
	if !linear(good) {
		t.Error("a history without a fault was refused")
	}
	for name, bad := range map[string][]porcupine.Operation{
		"a slot of two holders": {op(7, 8, deed{"acquire", "c"}, finding{0, 7})},
		"a fence that falls": {
			op(7, 8, deed{"release", "b"}, finding{}),
			op(9, 10, deed{"acquire", "c"}, finding{0, 6}),
		},
		"refused with a free slot":     {op(7, 8, deed{"refused", "c"}, finding{})},
		"a renewal after the release":  {op(7, 8, deed{"renew", "a"}, finding{0, 5})},
		"a release of what is not his": {op(7, 8, deed{"release", "c"}, finding{})},
	} {
		if linear(slices.Concat(good, bad)) {
			t.Errorf("%s was not found", name)
		}
	}
}
