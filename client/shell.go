package client

import (
	"context"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// send makes one call of an attempt.
type send func(ctx context.Context) (lease.Token, error)

// A shell runs one attempt: it does what the attempt says and tells it what
// came of that.
type shell struct {
	client *Client
	step   func(attempt.Event) attempt.Action
	send   map[attempt.Do]send

	firstSent, lastSent time.Duration
	replies             chan attempt.Event
	cut                 context.CancelFunc // of the call under way, or nil
	open                int                // calls whose goroutines have not ended
}

// run runs the attempt to its end. When ctx ends the attempt is told, once; it
// ends within its limits. No call outlives run.
func (s *shell) run(ctx context.Context) (lease.Token, error) {
	s.replies = make(chan attempt.Event)
	defer s.end()
	stop := ctx.Done()
	life := context.WithoutCancel(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	a := s.tell(attempt.Event{})
	for a.Do != attempt.Done {
		if call := s.send[a.Do]; call != nil {
			s.begin(life, a, call)
		}
		timer.Reset(a.Until - s.client.now().Mono)
		select {
		case e := <-s.replies:
			s.open--
			a = s.tell(e)
		case <-timer.C:
			a = s.tell(attempt.Event{})
		case <-stop:
			stop = nil
			a = s.tell(attempt.Event{Kind: attempt.Stop, Err: context.Cause(ctx)})
		}
	}
	return a.Token, a.Err
}

func (s *shell) tell(e attempt.Event) attempt.Action {
	e.At, e.Jitter = s.client.now(), jitter()
	return s.step(e)
}

// begin makes a call in a goroutine of its own, and cuts off the one before.
func (s *shell) begin(ctx context.Context, a attempt.Action, call send) {
	if s.cut != nil {
		s.cut()
	}
	kind := attempt.Reply
	if a.Do == attempt.SendCancel {
		kind = attempt.CancelReply
	}
	if a.Do == attempt.SendAcquire {
		s.lastSent = s.client.now().Mono
		if s.firstSent == 0 {
			s.firstSent = s.lastSent
		}
	}
	ctx, s.cut = context.WithCancel(ctx)
	s.open++
	go func() { // waited for by end
		token, err := call(ctx)
		s.replies <- attempt.Event{Kind: kind, Try: a.Try, Token: token, Err: err}
	}()
}

// end cuts off what is under way and waits for it.
func (s *shell) end() {
	if s.cut != nil {
		s.cut()
	}
	for ; s.open > 0; s.open-- {
		<-s.replies
	}
}
