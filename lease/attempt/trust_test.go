package attempt_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

const sec = time.Second

func at(d time.Duration) attempt.Instant { return attempt.Instant{Mono: d, Boot: d} }

func token(ttl, left, elapsed time.Duration) lease.Token {
	return lease.Token{
		RequestID: "r", LeaseID: "l", Fence: 1, TTL: ttl, Left: left, Elapsed: elapsed,
		Slots: []lease.GrantedSlot{{Pool: "g", ID: "g-0", Units: 1, Whole: true}},
	}
}

func TestTrustOfAnAcquire(t *testing.T) {
	for _, c := range []struct {
		name         string
		now, sent    time.Duration
		left, waited time.Duration // what the answer says
		ttl          time.Duration
		limits       attempt.Limits
		want         time.Duration // of trust left at now; 0 is too late
	}{
		{"at once", 0, 0, 30 * sec, 0, 30 * sec, attempt.Limits{}, 24 * sec},
		{"K1: granted after a poll of 29 s", 29 * sec, 0, 30 * sec, 29 * sec, 30 * sec, attempt.Limits{}, 24 * sec},
		{"K1: TTL 1", 29*sec + 10*time.Millisecond, 0, sec, 29 * sec, sec, attempt.Limits{}, 790 * time.Millisecond},
		{"K2: repeated after a lost reply", 25 * sec, 25 * sec, 5100 * time.Millisecond, 0, 30 * sec, attempt.Limits{}, 0},
		{"a slow answer", 10 * sec, 0, 30 * sec, 0, 30 * sec, attempt.Limits{}, 14 * sec},
		{"a quarter of the margin", 22500 * time.Millisecond, 0, 30 * sec, 0, 30 * sec, attempt.Limits{}, 1500 * time.Millisecond},
		{"less than that", 22501 * time.Millisecond, 0, 30 * sec, 0, 30 * sec, attempt.Limits{}, 0},
		{"all of it gone, no margin", 30 * sec, 0, 30 * sec, 0, 30 * sec, attempt.Limits{Margin: 1}, 0},
		{"a margin of its own", 0, 0, 30 * sec, 0, 30 * sec, attempt.Limits{Margin: sec}, 29 * sec},
		{"a margin above the TTL", 0, 0, 30 * sec, 0, 30 * sec, attempt.Limits{Margin: 31 * sec}, 0},
		{"elapsed above what the call took", 2 * sec, 0, 30 * sec, time.Hour, 30 * sec, attempt.Limits{}, 24 * sec},
		{"the same, not from the clock's origin", 102 * sec, 100 * sec, 30 * sec, time.Hour, 30 * sec, attempt.Limits{}, 24 * sec},
		{"left beyond any lease", 0, 0, math.MaxInt64, math.MaxInt64, 30 * sec, attempt.Limits{}, lease.LongestTTL - 6*sec},
	} {
		trust, err := c.limits.Trust(at(c.now), at(c.sent), token(c.ttl, c.left, c.waited))
		if left := trust.Left(at(c.now)); left != c.want {
			t.Errorf("%s: trust of %v, want %v", c.name, left, c.want)
		}
		if late := errors.Is(err, lease.CodeLeaseLost.Err()); late != (c.want == 0) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

func trusted(t *testing.T, now, sent attempt.Instant, answer lease.Token) attempt.Trust {
	t.Helper()
	trust, err := attempt.Limits{}.Trust(now, sent, answer)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func TestI8TrustIsTheLatestEnd(t *testing.T) {
	trust := trusted(t, at(0), at(0), token(30*sec, 30*sec, 0)) // until 24
	for _, c := range []struct {
		now, sent, left time.Duration
		want            time.Duration
	}{
		{1 * sec, 1 * sec, 10 * sec, 23 * sec},   // ends sooner: does not shorten
		{10 * sec, 10 * sec, 30 * sec, 24 * sec}, // until 34
		{12 * sec, 9 * sec, 30 * sec, 22 * sec},  // an older answer that comes later
		{33 * sec, 10 * sec, 30 * sec, 1 * sec},  // the same answer again
	} {
		if !trust.Extend(at(c.now), at(c.sent), token(30*sec, c.left, 0), 6*sec) {
			t.Fatalf("at %v: no trust", c.now)
		}
		if left := trust.Left(at(c.now)); left != c.want {
			t.Errorf("at %v: %v left, want %v", c.now, left, c.want)
		}
	}
}

func TestI8EndedTrustIsNotRevived(t *testing.T) {
	trust := trusted(t, at(0), at(0), token(30*sec, 30*sec, 0))
	if trust.Extend(at(24*sec), at(23*sec), token(30*sec, 30*sec, 0), 6*sec) {
		t.Error("an answer that came at the end of trust revived it")
	}
	if left := trust.Left(at(23 * sec)); left != 0 {
		t.Errorf("a clock that went back gave %v of trust", left)
	}
	var zero attempt.Trust
	if zero.Extend(at(0), at(0), token(30*sec, 30*sec, 0), 0) || zero.Left(attempt.Instant{Mono: -sec, Boot: -sec}) != 0 {
		t.Error("trust that never began was extended")
	}
}

// The machine sleeps for an hour with 3 s of trust left. The monotonic clock
// does not see it.
func TestK23SleepEndsTrust(t *testing.T) {
	trust := trusted(t, at(0), at(0), token(30*sec, 30*sec, 0))
	if left := trust.Left(at(21 * sec)); left != 3*sec {
		t.Fatalf("%v left before the sleep", left)
	}
	awake := attempt.Instant{Mono: 21 * sec, Boot: 21*sec + time.Hour}
	if left := trust.Left(awake); left != 0 {
		t.Errorf("%v left after it", left)
	}
	if trust.Extend(awake, at(20*sec), token(30*sec, 30*sec, 0), 6*sec) {
		t.Error("an answer from before the sleep revived it")
	}
}

// Where the second clock was set back the first one decides, and the other
// way round.
func TestI8WhicheverClockSaysFirst(t *testing.T) {
	for _, now := range []attempt.Instant{{Mono: 124 * sec, Boot: 3 * sec}, {Mono: 101 * sec, Boot: 124 * sec}} {
		trust := trusted(t, at(100*sec), at(100*sec), token(30*sec, 30*sec, 0))
		if left := trust.Left(now); left != 0 {
			t.Errorf("%v left at %+v", left, now)
		}
	}
}

// A machine that sleeps during the call: its monotonic clock does not count
// what the broker did.
func TestK23SleepDuringTheCall(t *testing.T) {
	awake := attempt.Instant{Mono: 10 * sec, Boot: 29 * sec}
	trust := trusted(t, awake, at(0), token(30*sec, 30*sec, 29*sec))
	if left := trust.Left(awake); left > 24*sec {
		t.Errorf("%v left", left)
	}
	// Where the second clock is no better than the first, neither may count it.
	trust = trusted(t, at(10*sec), at(0), token(30*sec, 30*sec, 29*sec))
	if left := trust.Left(at(10 * sec)); left > 24*sec {
		t.Errorf("with one clock: %v left", left)
	}
}

func TestRenewed(t *testing.T) {
	held := token(30*sec, 30*sec, 0)
	other := func(change func(*lease.Token)) lease.Token {
		answer := held
		change(&answer)
		return answer
	}
	plain := errors.New("connection reset")
	for _, c := range []struct {
		name   string
		now    time.Duration // sent 1 s before, with trust until 24
		answer lease.Token
		err    error
		beat   attempt.Beat
		code   lease.Code
		left   time.Duration
	}{
		{"in time", 11 * sec, held, nil, attempt.Kept, "", 23 * sec},
		{"just in time", 24*sec - 1, held, nil, attempt.Kept, "", 23 * sec},
		{"too late", 24 * sec, held, nil, attempt.Gone, lease.CodeLeaseLost, 0},
		{"an error too late", 24 * sec, lease.Token{}, plain, attempt.Gone, lease.CodeLeaseLost, 0},
		{"no answer", 11 * sec, lease.Token{}, plain, attempt.Missed, lease.CodeInternal, 13 * sec},
		{"broker away", 11 * sec, lease.Token{}, lease.CodeUnavailable.Err(), attempt.Missed, lease.CodeUnavailable, 13 * sec},
		{"stopped", 11 * sec, lease.Token{}, lease.CodeStopped.Err(), attempt.Missed, lease.CodeStopped, 13 * sec},
		{"expired", 11 * sec, lease.Token{}, lease.CodeLeaseExpired.Err(), attempt.Gone, lease.CodeLeaseExpired, 13 * sec},
		{"revoked", 11 * sec, lease.Token{}, lease.CodeLeaseRevoked.Err(), attempt.Gone, lease.CodeLeaseRevoked, 13 * sec},
		{"released", 11 * sec, lease.Token{}, lease.CodeLeaseReleased.Err(), attempt.Gone, lease.CodeLeaseReleased, 13 * sec},
		{"abandoned", 11 * sec, lease.Token{}, lease.CodeLeaseAbandoned.Err(), attempt.Gone, lease.CodeLeaseAbandoned, 13 * sec},
		{"unknown", 11 * sec, lease.Token{}, lease.CodeLeaseUnknown.Err(), attempt.Gone, lease.CodeLeaseUnknown, 13 * sec},
		{"foreign", 11 * sec, lease.Token{}, lease.CodeLeaseForeign.Err(), attempt.Gone, lease.CodeLeaseForeign, 13 * sec},
		{"no id", 11 * sec, lease.Token{}, lease.CodeLeaseMissing.Err(), attempt.Gone, lease.CodeLeaseMissing, 13 * sec},
		{"empty", 11 * sec, lease.Token{}, nil, attempt.Missed, lease.CodeReplyInvalid, 13 * sec},
		{"another lease", 11 * sec, other(func(t *lease.Token) { t.LeaseID = "m" }), nil, attempt.Missed, lease.CodeReplyInvalid, 13 * sec},
		{"another fence", 11 * sec, other(func(t *lease.Token) { t.Fence = 2 }), nil, attempt.Missed, lease.CodeReplyInvalid, 13 * sec},
	} {
		trust := trusted(t, at(0), at(0), held)
		beat, err := attempt.Renewed(&trust, attempt.Limits{}, at(c.now), at(c.now-sec), held, c.answer, c.err)
		if beat != c.beat || lease.CodeOf(err) != c.code || trust.Left(at(c.now)) != c.left {
			t.Errorf("%s: %v, %v, %v left; want %v, %s, %v", c.name, beat, err, trust.Left(at(c.now)), c.beat, c.code, c.left)
		}
	}
}
