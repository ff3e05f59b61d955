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

func release(t *testing.T, limits attempt.Limits) walk {
	g := attempt.NewRelease("l", limits)
	return walk{t, g.Step}
}

func abandon(t *testing.T, limits attempt.Limits) walk {
	g := attempt.NewAbandon("l", limits)
	return walk{t, g.Step}
}

// given demands that the event ends the attempt with the code.
func (w walk) given(e attempt.Event, code lease.Code) error {
	w.t.Helper()
	a := w.step(e)
	again := w.step(attempt.Event{At: e.At.Add(time.Hour)})
	if a.Do != attempt.Done || lease.CodeOf(a.Err) != code || again.Do != attempt.Done || again.Err != a.Err {
		w.t.Fatalf("told to do %d with %v, then %d with %v; want the end with %q", a.Do, a.Err, again.Do, again.Err, code)
	}
	return a.Err
}

func TestAnswersToAGiveBack(t *testing.T) {
	unknown, released, abandoned := lease.CodeLeaseUnknown, lease.CodeLeaseReleased, lease.CodeLeaseAbandoned
	for _, c := range []struct {
		answer            lease.Code
		released, repeat  lease.Code // the end of a release, on the first call and on a repeat
		abandoned, second lease.Code // the same of an abandon
	}{
		{"", "", "", "", ""},
		{released, "", "", "", ""},
		{abandoned, abandoned, abandoned, "", ""},
		{unknown, unknown, "", unknown, ""},
		{lease.CodeLeaseExpired, lease.CodeLeaseExpired, lease.CodeLeaseExpired, lease.CodeLeaseExpired, lease.CodeLeaseExpired},
		{lease.CodeLeaseRevoked, lease.CodeLeaseRevoked, lease.CodeLeaseRevoked, lease.CodeLeaseRevoked, lease.CodeLeaseRevoked},
		{lease.CodeLeaseForeign, lease.CodeLeaseForeign, lease.CodeLeaseForeign, lease.CodeLeaseForeign, lease.CodeLeaseForeign},
		{lease.CodeStopped, lease.CodeStopped, lease.CodeStopped, lease.CodeStopped, lease.CodeStopped},
	} {
		var err error
		if c.answer != "" {
			err = c.answer.Err()
		}
		for _, kind := range []struct {
			start         func(*testing.T, attempt.Limits) walk
			first, repeat lease.Code
		}{{release, c.released, c.repeat}, {abandon, c.abandoned, c.second}} {
			w := kind.start(t, attempt.Limits{})
			w.tick(0, attempt.SendGiveBack, 3*sec)
			w.given(reply(0, 1, lease.Token{}, err), kind.first)

			w = kind.start(t, attempt.Limits{})
			w.tick(0, attempt.SendGiveBack, 3*sec)
			w.fails(0, 1, errReset, attempt.Wait, 25*ms)
			w.tick(25*ms, attempt.SendGiveBack, 3*sec+25*ms)
			w.given(reply(30*ms, 2, lease.Token{}, err), kind.repeat)
		}
	}
}

// BR-052: a release that fails is sent again within its limit.
func TestBR052GiveBackIsRepeated(t *testing.T) {
	w := release(t, attempt.Limits{GiveBack: 5 * sec, Reply: 2 * sec})
	w.tick(0, attempt.SendGiveBack, 2*sec)
	for _, err := range []error{errReset, lease.CodeUnavailable.Err(), lease.CodeOutcomeUnknown.Err(), lease.CodeInternal.Err(), lease.CodeStoreFailed.Err()} {
		other := release(t, attempt.Limits{})
		other.tick(0, attempt.SendGiveBack, 3*sec)
		other.fails(0, 1, err, attempt.Wait, 25*ms)
	}
	w.tick(2*sec, attempt.Wait, 2*sec+25*ms)
	w.tick(3*sec, attempt.SendGiveBack, 5*sec)
	err := w.given(attempt.Event{At: at(5 * sec)}, lease.CodeOutcomeUnknown)
	if ref := string(lease.LeaseID("l").Ref()); !strings.Contains(err.Error(), ref) {
		t.Errorf("%v does not name the lease %s", err, ref)
	}

	w = release(t, attempt.Limits{})
	w.tick(0, attempt.SendGiveBack, 3*sec)
	err = w.given(reply(10*sec, 1, lease.Token{}, context.DeadlineExceeded), lease.CodeOutcomeUnknown)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v passes for the caller's time being over", err)
	}
}

func TestGiveBackWithNoLimit(t *testing.T) {
	w := release(t, attempt.Limits{GiveBack: -1})
	w.tick(0, attempt.SendGiveBack, 3*sec)
	w.tick(time.Hour, attempt.Wait, time.Hour+25*ms)
	w.tick(2*time.Hour, attempt.SendGiveBack, 2*time.Hour+3*sec)
	err := w.given(stop(3*time.Hour, context.Canceled), lease.CodeOutcomeUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not hold its cause", err)
	}
}

// The answer to an earlier call is as good as that to the last one.
func TestGiveBackAnsweredLate(t *testing.T) {
	w := release(t, attempt.Limits{})
	w.tick(0, attempt.SendGiveBack, 3*sec)
	w.tick(3*sec, attempt.Wait, 3*sec+25*ms)
	w.tick(4*sec, attempt.SendGiveBack, 7*sec)
	w.given(reply(4*sec, 1, lease.Token{}, lease.CodeLeaseUnknown.Err()), lease.CodeLeaseUnknown)
}

// That an earlier call was cut off says nothing about the last one.
func TestGiveBackCutOff(t *testing.T) {
	w := release(t, attempt.Limits{})
	w.tick(0, attempt.SendGiveBack, 3*sec)
	w.tick(3*sec, attempt.Wait, 3*sec+25*ms)
	w.tick(4*sec, attempt.SendGiveBack, 7*sec)
	w.fails(4*sec, 1, context.Canceled, attempt.Wait, 7*sec)
	w.fails(5*sec, 2, errReset, attempt.Wait, 5*sec+50*ms)
}
