package attempt

import (
	"context"
	"errors"
	"time"

	"github.com/berth-dev/berth/lease"
)

// An Acquire is one acquire, from its first call to a token or an error (I9).
// It is a plain value: a copy goes its own way. Nobody may use the request's
// id for anything else, nor after the attempt has ended with an error.
type Acquire struct {
	id     lease.RequestID
	wait   time.Duration
	limits Limits
	phase  phase
	ends   time.Duration // when the phase ends
	calls  calls
	sent   Instant // of the last acquire call
	stands bool    // an earlier call may have left a waiter or a lease, or may yet
	cause  error   // why it is being cancelled
	result Action
}

type phase uint8

const (
	fresh phase = iota
	asking
	cancelling
	ended
)

// NewAcquire returns the attempt for the request. The first [Tick] starts it.
func NewAcquire(r lease.Request, limits Limits) Acquire {
	return Acquire{id: r.ID, wait: r.Wait, limits: limits.withDefaults()}
}

// Step takes in what happened and returns what to do now. After [Done] it
// returns the same Done whatever comes.
func (a *Acquire) Step(e Event) Action {
	switch a.phase {
	case fresh:
		a.phase, a.ends = asking, e.At.Mono+a.wait+a.limits.Slack
		a.calls.restart(e.At)
		return a.ask(e)
	case asking:
		return a.ask(e)
	case cancelling:
		return a.undo(e)
	default:
		return a.result
	}
}

// ask goes on with asking.
func (a *Acquire) ask(e Event) Action {
	switch {
	case e.Kind == Stop:
		return a.giveUp(e, stopped(a.id, e.Err))
	case e.Kind == Reply && e.Try == a.calls.try:
		return a.answered(e)
	case e.At.Mono >= a.ends:
		return a.giveUp(e, a.overdue())
	case a.calls.overdue(e.At):
		return a.lose(e, errNoAnswer)
	}
	return a.send(e)
}

func (a *Acquire) send(e Event) Action {
	do := a.calls.next(e.At, SendAcquire, a.limits.Poll+a.limits.Reply, a.ends)
	if do.Do == SendAcquire {
		a.sent = e.At
	}
	return do
}

func (a *Acquire) answered(e Event) Action {
	if e.Err == nil {
		return a.granted(e)
	}
	switch answerOf(e.Err) {
	case lost:
		return a.lose(e, e.Err)
	case unreached:
		a.stands = a.stands || a.limits.Duplicates
		a.calls.fail(e, e.Err)
		return a.ask(e.tick())
	case queued:
		a.stands = true
		a.calls.restart(a.sent.Add(firstPause))
		return a.ask(e.tick())
	case refused:
		a.calls.open = a.limits.Duplicates
		return a.giveUp(e, e.Err)
	case settled:
		return a.end(lease.Token{}, e.Err)
	default:
		return a.giveUp(e, e.Err)
	}
}

// granted hands the token out, unless it is invalid or comes too late: then
// it is given back by a cancel, as nobody ever had it.
func (a *Acquire) granted(e Event) Action {
	a.stands = true
	if err := e.Token.Check(a.id); err != nil {
		return a.giveUp(e, err)
	}
	if _, err := a.limits.Trust(e.At, a.sent, e.Token); err != nil {
		return a.giveUp(e, err)
	}
	return a.end(e.Token, nil)
}

// lose takes the last call for one that may have been served.
func (a *Acquire) lose(e Event, err error) Action {
	a.stands = true
	a.calls.fail(e, err)
	return a.ask(e.tick())
}

// giveUp ends the attempt with the cause, after a cancel where a call may have
// left something or may still be under way.
func (a *Acquire) giveUp(e Event, cause error) Action {
	if !a.calls.open && !a.stands {
		return a.end(lease.Token{}, cause)
	}
	a.phase, a.cause, a.ends = cancelling, cause, e.At.Mono+a.limits.Cancel
	a.calls.restart(e.At)
	return a.undo(e.tick())
}

// undo goes on with cancelling. What still comes of the acquire is not looked
// at: a token among it is the cancel's to end.
func (a *Acquire) undo(e Event) Action {
	switch {
	case e.Kind == CancelReply:
		return a.undone(e)
	case e.At.Mono >= a.ends:
		return a.end(lease.Token{}, a.unknown())
	case a.calls.overdue(e.At):
		a.calls.fail(e, errNoAnswer)
	}
	return a.calls.next(e.At, SendCancel, a.limits.Reply, a.ends)
}

// undone takes in the answer to a cancel. Any call's answer counts; that a
// call failed counts of the last one.
func (a *Acquire) undone(e Event) Action {
	if e.Err == nil || ends(codeOf(e.Err)) {
		return a.end(lease.Token{}, a.cause)
	}
	if e.Try == a.calls.try {
		a.calls.fail(e, e.Err)
	}
	if !again(e.Err) {
		return a.end(lease.Token{}, a.unknown())
	}
	return a.undo(e.tick())
}

func (a *Acquire) end(t lease.Token, err error) Action {
	a.phase, a.result = ended, Action{Do: Done, Try: a.calls.try, Token: t, Err: err}
	return a.result
}

// overdue is the cause of an attempt that outlives its request.
func (a *Acquire) overdue() error {
	code := lease.CodeTimedOut
	if codeOf(a.calls.last) == lease.CodeUnavailable {
		code = lease.CodeUnavailable
	}
	return lease.Errorf(code, "cannot get an answer to request %s within its wait of %v and %v more: %v; see whether the broker runs, then ask again with a new request", a.id, a.wait, a.limits.Slack, a.calls.last)
}

// unknown is the error of an attempt whose cancel was not answered.
func (a *Acquire) unknown() error {
	return lease.Errorf(lease.CodeOutcomeUnknown, "cannot tell how request %s ended: %w; its cancel failed as well (%v), and the broker takes back by itself what it may have given; ask again with a new request", a.id, a.cause, a.calls.last)
}

// stopped is the error of an acquire that its caller ended because of cause.
func stopped(id lease.RequestID, cause error) error {
	if cause == nil {
		cause = context.Canceled
	}
	code := lease.CodeCancelled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = lease.CodeTimedOut
	}
	return lease.Errorf(code, "request %s was given up by its caller: %w", id, cause)
}
