package attempt_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

const ms = time.Millisecond

// A walk drives one attempt and says what it answers, step by step.
type walk struct {
	t    *testing.T
	step func(attempt.Event) attempt.Action
}

func acquire(t *testing.T, wait time.Duration, limits attempt.Limits) walk {
	a := attempt.NewAcquire(lease.Request{ID: "r", Wait: wait}, limits)
	return walk{t, a.Step}
}

// tick, reply and so on tell the attempt what happened and demand its action.
func (w walk) tick(now time.Duration, do attempt.Do, until time.Duration) {
	w.t.Helper()
	w.want(attempt.Event{At: at(now)}, do, until)
}

func (w walk) fails(now time.Duration, try int, err error, do attempt.Do, until time.Duration) {
	w.t.Helper()
	w.want(attempt.Event{Kind: attempt.Reply, At: at(now), Try: try, Err: err}, do, until)
}

func (w walk) want(e attempt.Event, do attempt.Do, until time.Duration) {
	w.t.Helper()
	if a := w.step(e); a.Do != do || a.Until != until {
		w.t.Fatalf("at %v: told to do %d until %v, want %d until %v (%v)", e.At.Mono, a.Do, a.Until, do, until, a.Err)
	}
}

// ends tells it what happened and demands that it has ended so.
func (w walk) ends(e attempt.Event, code lease.Code) error {
	w.t.Helper()
	a := w.step(e)
	if a.Do != attempt.Done || lease.CodeOf(a.Err) != code {
		w.t.Fatalf("at %v: told to do %d with %v, want the end with %s", e.At.Mono, a.Do, a.Err, code)
	}
	if again := w.step(attempt.Event{At: e.At.Add(time.Hour)}); again.Do != attempt.Done || again.Err != a.Err {
		w.t.Fatalf("then: told to do %d with %v", again.Do, again.Err)
	}
	if (a.Err == nil) != (a.Token.LeaseID != "") {
		w.t.Fatalf("ended with token %v and error %v", a.Token.LeaseID, a.Err)
	}
	return a.Err
}

func reply(now time.Duration, try int, token lease.Token, err error) attempt.Event {
	return attempt.Event{Kind: attempt.Reply, At: at(now), Try: try, Token: token, Err: err}
}

func cancelReply(now time.Duration, try int, err error) attempt.Event {
	return attempt.Event{Kind: attempt.CancelReply, At: at(now), Try: try, Err: err}
}

func stop(now time.Duration, cause error) attempt.Event {
	return attempt.Event{Kind: attempt.Stop, At: at(now), Err: cause}
}

var errReset = errors.New("connection reset")

func TestAcquireAtOnce(t *testing.T) {
	w := acquire(t, 0, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 10*sec)
	w.tick(5*ms, attempt.Wait, 10*sec)
	w.ends(reply(10*ms, 1, token(30*sec, 30*sec, 0), nil), "")
}

// A dead caller takes nothing: not one call is sent.
func TestBR010StoppedBeforeTheFirstCall(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{})
	err := w.ends(stop(0, context.Canceled), lease.CodeCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not hold its cause", err)
	}
	w = acquire(t, time.Hour, attempt.Limits{})
	w.ends(stop(0, context.DeadlineExceeded), lease.CodeTimedOut)
	w = acquire(t, time.Hour, attempt.Limits{})
	w.ends(stop(0, nil), lease.CodeCancelled)
}

func TestBR004RepeatsWithGrowingPauses(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 33*sec)
	now := time.Duration(0)
	for try, pause := range []time.Duration{25, 50, 100, 200, 400, 800, 1000, 1000} {
		w.fails(now, try+1, errReset, attempt.Wait, now+pause*ms)
		w.tick(now+pause*ms-1, attempt.Wait, now+pause*ms)
		now += pause * ms
		w.tick(now, attempt.SendAcquire, now+33*sec)
	}
	for range 70 {
		now += 33 * sec
		w.tick(now, attempt.Wait, now+sec) // not answered in time
		now += sec
		w.tick(now, attempt.SendAcquire, now+33*sec)
	}
	w.fails(now, 79, lease.CodeUnavailable.Err(), attempt.Wait, now+sec)
}

func TestJitterSpreadsRepeats(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 33*sec)
	w.want(attempt.Event{Kind: attempt.Reply, Try: 1, Err: errReset, Jitter: 0.5}, attempt.Wait, 37500*time.Microsecond)
}

func TestQueuedAsksAgainAtOnce(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{Poll: 20 * sec, Reply: 2 * sec})
	w.tick(0, attempt.SendAcquire, 22*sec)
	w.fails(20*sec, 1, lease.CodeQueued.Err(), attempt.SendAcquire, 42*sec)
	// A broker that answers at once is not asked in a tight loop.
	w.fails(20*sec+10*ms, 2, lease.CodeQueued.Err(), attempt.Wait, 20*sec+50*ms)
	w.tick(20*sec+50*ms, attempt.SendAcquire, 42*sec+50*ms)
	w.ends(reply(21*sec, 3, token(30*sec, 30*sec, 0), nil), "")
}

// K16: the broker counts the wait; every answer it remembers is the end, with
// no cancel.
func TestK16AnswersThatTheBrokerRemembers(t *testing.T) {
	for _, code := range []lease.Code{
		lease.CodeRequestInvalid, lease.CodeNameInvalid, lease.CodeTTLOutOfRange, lease.CodePoolUnknown,
		lease.CodeUnsatisfiable, lease.CodeRequestMismatch, lease.CodeNoCapacity, lease.CodeTimedOut,
		lease.CodeAbsent, lease.CodeCancelled, lease.CodeTooManyShapes, lease.CodeTooManyWaiters, lease.CodeFinished,
		lease.CodeLeaseReleased, lease.CodeLeaseAbandoned, lease.CodeLeaseExpired, lease.CodeLeaseRevoked,
	} {
		w := acquire(t, 3*sec, attempt.Limits{Duplicates: true})
		w.tick(0, attempt.SendAcquire, 13*sec)
		w.fails(0, 1, errReset, attempt.Wait, 25*ms)
		w.tick(25*ms, attempt.SendAcquire, 13*sec)
		w.ends(reply(3*sec, 2, lease.Token{}, code.Err()), code)
	}
}

// An answer that nobody remembers is the end only when no copy of the call
// can be served after it.
func TestRefusedWhileACopyIsUnderWay(t *testing.T) {
	for _, code := range []lease.Code{lease.CodeStoreFull, lease.CodeStopped, lease.CodeSessionUnknown} {
		w := acquire(t, 0, attempt.Limits{})
		w.tick(0, attempt.SendAcquire, 10*sec)
		w.ends(reply(0, 1, lease.Token{}, code.Err()), code)

		w = acquire(t, 0, attempt.Limits{})
		w.tick(0, attempt.SendAcquire, 10*sec)
		w.fails(0, 1, lease.CodeUnavailable.Err(), attempt.Wait, 25*ms)
		w.tick(25*ms, attempt.SendAcquire, 10*sec)
		w.ends(reply(30*ms, 2, lease.Token{}, code.Err()), code)

		w = acquire(t, 0, attempt.Limits{Duplicates: true})
		w.tick(0, attempt.SendAcquire, 10*sec)
		w.fails(5*ms, 1, code.Err(), attempt.SendCancel, 5*ms+3*sec)
		w.ends(cancelReply(10*ms, 2, nil), code)

		for _, before := range []error{errReset, lease.CodeOutcomeUnknown.Err(), lease.CodeStoreFailed.Err(), lease.CodeQueued.Err()} {
			w = acquire(t, 0, attempt.Limits{})
			w.tick(0, attempt.SendAcquire, 10*sec)
			w.step(reply(0, 1, lease.Token{}, before))
			w.tick(50*ms, attempt.SendAcquire, 10*sec)
			w.fails(60*ms, 2, code.Err(), attempt.SendCancel, 60*ms+3*sec)
			w.ends(cancelReply(70*ms, 3, nil), code)
		}
	}
}

// A call that was cut off may have been served, and one that is under way may
// yet be: both are cancelled.
func TestCancelsWhatMayStand(t *testing.T) {
	w := acquire(t, 0, attempt.Limits{Poll: sec, Reply: sec})
	w.tick(0, attempt.SendAcquire, 2*sec)
	w.tick(2*sec, attempt.Wait, 2*sec+25*ms)
	w.want(stop(2*sec+10*ms, context.Canceled), attempt.SendCancel, 3*sec+10*ms)

	w = acquire(t, 0, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 10*sec)
	w.want(stop(sec, context.Canceled), attempt.SendCancel, 4*sec)

	w = acquire(t, 0, attempt.Limits{Duplicates: true})
	w.tick(0, attempt.SendAcquire, 10*sec)
	w.fails(0, 1, lease.CodeUnavailable.Err(), attempt.Wait, 25*ms)
	w.want(stop(10*ms, context.Canceled), attempt.SendCancel, 3*sec+10*ms)

	w = acquire(t, 0, attempt.Limits{}) // none reached the broker
	w.tick(0, attempt.SendAcquire, 10*sec)
	w.fails(0, 1, lease.CodeUnavailable.Err(), attempt.Wait, 25*ms)
	w.ends(stop(10*ms, context.Canceled), lease.CodeCancelled)
}

func TestBR002TokenAfterTheCancel(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 33*sec)
	w.want(stop(sec, context.Canceled), attempt.SendCancel, 4*sec)
	w.want(reply(sec, 1, token(30*sec, 30*sec, 0), nil), attempt.Wait, 4*sec)
	err := w.ends(cancelReply(2*sec, 2, nil), lease.CodeCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not hold its cause", err)
	}
}

func TestBR012InvalidReplyIsGivenBack(t *testing.T) {
	for name, bad := range map[string]func(*lease.Token){
		"no lease":        func(t *lease.Token) { t.LeaseID = "" },
		"no fence":        func(t *lease.Token) { t.Fence = 0 },
		"no slot":         func(t *lease.Token) { t.Slots = nil },
		"another request": func(t *lease.Token) { t.RequestID = "q" },
		"negative time":   func(t *lease.Token) { t.Left = -1 },
	} {
		w := acquire(t, 0, attempt.Limits{})
		w.tick(0, attempt.SendAcquire, 10*sec)
		answer := token(30*sec, 30*sec, 0)
		bad(&answer)
		if a := w.step(reply(0, 1, answer, nil)); a.Do != attempt.SendCancel {
			t.Errorf("%s: told to do %d", name, a.Do)
		}
		w.ends(cancelReply(0, 2, nil), lease.CodeReplyInvalid)
	}
	for _, code := range []lease.Code{lease.CodeReplyInvalid, lease.CodeInternal, "a_newer_code"} {
		w := acquire(t, 0, attempt.Limits{})
		w.tick(0, attempt.SendAcquire, 10*sec)
		w.fails(0, 1, code.Err(), attempt.SendCancel, 3*sec)
		w.ends(cancelReply(0, 2, nil), code)
	}
}

func TestI8LateAcquireIsGivenBack(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{})
	w.tick(0, attempt.SendAcquire, 33*sec)
	w.fails(sec, 1, errReset, attempt.Wait, sec+25*ms)
	w.tick(2*sec, attempt.SendAcquire, 35*sec)
	// Trust counts from the second call: 2 + 0 + 30 - 6.
	w.want(reply(26*sec, 2, token(30*sec, 30*sec, 0), nil), attempt.SendCancel, 29*sec)
	w.ends(cancelReply(26*sec, 3, nil), lease.CodeLeaseLost)
}

// An answer to an earlier call is not counted from the later one.
func TestAnswerToAnEarlierCall(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{Poll: sec, Reply: sec})
	w.tick(0, attempt.SendAcquire, 2*sec)
	w.tick(2*sec, attempt.Wait, 2*sec+25*ms)
	w.tick(3*sec, attempt.SendAcquire, 5*sec)
	w.want(reply(4*sec, 1, token(30*sec, 30*sec, 0), nil), attempt.Wait, 5*sec)
	w.ends(reply(4*sec, 2, token(30*sec, 26*sec, 0), nil), "")
	// The last call's own answer counts also in the pause after it.
	w = acquire(t, time.Hour, attempt.Limits{Poll: sec, Reply: sec})
	w.tick(0, attempt.SendAcquire, 2*sec)
	w.tick(2*sec, attempt.Wait, 2*sec+25*ms)
	w.ends(reply(2*sec, 1, token(30*sec, 30*sec, 0), nil), "")
}

func TestLimitOfItsOwn(t *testing.T) {
	w := acquire(t, 5*sec, attempt.Limits{Slack: sec})
	w.tick(0, attempt.SendAcquire, 6*sec)
	w.tick(6*sec-1, attempt.Wait, 6*sec)
	w.tick(6*sec, attempt.SendCancel, 9*sec)
	w.ends(cancelReply(6*sec, 2, nil), lease.CodeTimedOut)

	w = acquire(t, 0, attempt.Limits{Slack: sec}) // no broker at all
	w.tick(0, attempt.SendAcquire, sec)
	w.fails(0, 1, lease.Errorf(lease.CodeUnavailable, "dial: refused"), attempt.Wait, 25*ms)
	err := w.ends(attempt.Event{At: at(sec)}, lease.CodeUnavailable)
	if !strings.Contains(err.Error(), "dial: refused") {
		t.Errorf("%v does not say why", err)
	}

	w = acquire(t, 0, attempt.Limits{Slack: sec})
	w.tick(0, attempt.SendAcquire, sec)
	w.fails(0, 1, errReset, attempt.Wait, 25*ms)
	w.tick(sec, attempt.SendCancel, 4*sec)
	w.ends(cancelReply(sec, 2, nil), lease.CodeTimedOut)
}

func TestI9CancelIsRepeatedThenUnknown(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{Cancel: 4 * sec})
	w.tick(0, attempt.SendAcquire, 33*sec)
	w.want(stop(0, context.Canceled), attempt.SendCancel, 3*sec)
	w.want(cancelReply(0, 2, lease.CodeUnavailable.Err()), attempt.Wait, 25*ms)
	w.tick(25*ms, attempt.SendCancel, 3*sec+25*ms)
	w.tick(3*sec+25*ms, attempt.Wait, 3*sec+75*ms)
	w.tick(3*sec+75*ms, attempt.SendCancel, 4*sec)
	w.want(stop(4*sec-1, context.Canceled), attempt.Wait, 4*sec)
	err := w.ends(attempt.Event{At: at(4 * sec)}, lease.CodeOutcomeUnknown)
	if ref := string(lease.RequestID("r").Ref()); !strings.Contains(err.Error(), ref) {
		t.Errorf("%v does not name the request %s", err, ref)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not hold its cause", err)
	}
}

func TestAnswersToACancel(t *testing.T) {
	cancelling := func() walk {
		w := acquire(t, time.Hour, attempt.Limits{})
		w.tick(0, attempt.SendAcquire, 33*sec)
		w.want(stop(0, context.Canceled), attempt.SendCancel, 3*sec)
		return w
	}
	for _, code := range []lease.Code{lease.CodeTimedOut, lease.CodeLeaseExpired, lease.CodeCancelled, lease.CodeFinished, lease.CodeNoCapacity} {
		cancelling().ends(cancelReply(sec, 2, code.Err()), lease.CodeCancelled)
	}
	for _, code := range []lease.Code{lease.CodeStopped, lease.CodeNameInvalid} {
		cancelling().ends(cancelReply(sec, 2, code.Err()), lease.CodeOutcomeUnknown)
	}
	for _, err := range []error{errReset, lease.CodeOutcomeUnknown.Err(), lease.CodeInternal.Err(), lease.CodeStoreFailed.Err()} {
		cancelling().want(cancelReply(sec, 2, err), attempt.Wait, sec+25*ms)
		cancelling().ends(cancelReply(10*sec, 2, err), lease.CodeOutcomeUnknown)
	}
}

// That an earlier call was cut off says nothing about the last one.
func TestCallsThatWereCutOff(t *testing.T) {
	w := acquire(t, time.Hour, attempt.Limits{Poll: sec, Reply: sec})
	w.tick(0, attempt.SendAcquire, 2*sec)
	w.tick(2*sec, attempt.Wait, 2*sec+25*ms)
	w.tick(3*sec, attempt.SendAcquire, 5*sec)
	w.fails(3*sec, 1, context.Canceled, attempt.Wait, 5*sec)
	w.want(stop(4*sec, context.Canceled), attempt.SendCancel, 5*sec)
	w.fails(4*sec, 2, context.Canceled, attempt.Wait, 5*sec)
	w.tick(5*sec, attempt.Wait, 5*sec+25*ms)
	w.tick(6*sec, attempt.SendCancel, 7*sec)
	w.want(cancelReply(6*sec, 3, context.Canceled), attempt.Wait, 7*sec)
	w.ends(cancelReply(6*sec, 3, nil), lease.CodeCancelled)
}
