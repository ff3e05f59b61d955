package attempt_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// A world is a broker with one request, as simple as can be, and a link that
// delays, drops and, where it is said to, doubles whatever is sent.
type world struct {
	t          *rapid.T
	now        attempt.Instant
	duplicates bool
	up, down   []packet // under way to the broker and back

	state   string // of the request: "", "waiting", "held", or how it ended
	granted time.Duration
	ttl     time.Duration
}

type packet struct {
	do    attempt.Do
	try   int
	sent  time.Duration
	event attempt.Event
}

// move lets time pass, up to d and mostly not at all. The machine may sleep.
func (w *world) move(d time.Duration) {
	step := time.Duration(rapid.Int64Range(0, int64(d)).Draw(w.t, "step"))
	w.now = w.now.Add(step)
	if rapid.IntRange(0, 19).Draw(w.t, "sleep") == 0 {
		w.now.Boot += time.Minute
	}
	if w.state == "held" && w.now.Boot >= w.granted+w.ttl {
		w.state = "lease_expired"
	}
}

// serve delivers one packet to the broker, or loses it.
func (w *world) serve() {
	i := rapid.IntRange(0, len(w.up)-1).Draw(w.t, "up")
	p := w.up[i]
	if !w.duplicates || rapid.Bool().Draw(w.t, "taken off") {
		w.up = append(w.up[:i:i], w.up[i+1:]...)
	}
	if rapid.IntRange(0, 3).Draw(w.t, "lost") == 0 {
		w.down = append(w.down, packet{do: p.do, event: attempt.Event{Kind: kind(p.do), Try: p.try, Err: errReset}})
		return
	}
	e := w.answer(p)
	e.Kind, e.Try = kind(p.do), p.try
	w.down = append(w.down, packet{do: p.do, event: e})
}

func kind(do attempt.Do) attempt.EventKind {
	if do == attempt.SendCancel {
		return attempt.CancelReply
	}
	return attempt.Reply
}

func (w *world) answer(p packet) attempt.Event {
	if rapid.IntRange(0, 9).Draw(w.t, "away") == 0 {
		return attempt.Event{Err: lease.CodeUnavailable.Err()}
	}
	switch p.do {
	case attempt.SendAcquire:
		return w.acquire(p)
	case attempt.SendCancel:
		switch w.state {
		case "", "waiting":
			w.state = "cancelled"
		case "held":
			w.state = "lease_abandoned"
		}
		return attempt.Event{}
	default:
		was := w.state
		if was == "held" {
			w.state = "lease_released"
			return attempt.Event{}
		}
		return attempt.Event{Err: lease.Code(was).Err()}
	}
}

func (w *world) acquire(p packet) attempt.Event {
	switch w.state {
	case "held":
		return attempt.Event{Token: w.token(0)}
	case "", "waiting":
	default:
		return attempt.Event{Err: lease.Code(w.state).Err()}
	}
	choices := []string{"held", "waiting", "timed_out", "no_capacity"}
	if w.state == "" {
		choices = append(choices, "")
	}
	switch w.state = rapid.SampledFrom(choices).Draw(w.t, "decision"); w.state {
	case "":
		return attempt.Event{Err: lease.CodeStoreFull.Err()}
	case "held":
		w.granted = w.now.Boot
		return attempt.Event{Token: w.token(w.now.Boot - p.sent)}
	case "waiting":
		return attempt.Event{Err: lease.CodeQueued.Err()}
	}
	return attempt.Event{Err: lease.Code(w.state).Err()}
}

// token is the broker's answer; at most every fifth cannot be used.
func (w *world) token(elapsed time.Duration) lease.Token {
	t := token(w.ttl, w.granted+w.ttl-w.now.Boot, min(elapsed, time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(w.t, "elapsed"))))
	if rapid.IntRange(0, 4).Draw(w.t, "invalid") == 0 {
		t.Slots = nil
	}
	return t
}

// event draws what happens next: an answer comes, the caller stops, or only
// time passes.
func (w *world) event() attempt.Event {
	e := attempt.Event{Jitter: rapid.Float64Range(0, 0.999).Draw(w.t, "jitter")}
	switch n := rapid.IntRange(0, 9).Draw(w.t, "event"); {
	case n == 0:
		e.Kind, e.Err = attempt.Stop, context.Canceled
	case n < 6 && len(w.down) > 0:
		i := rapid.IntRange(0, len(w.down)-1).Draw(w.t, "down")
		e.Kind, e.Try, e.Token, e.Err = w.down[i].event.Kind, w.down[i].event.Try, w.down[i].event.Token, w.down[i].event.Err
		if !w.duplicates {
			w.down = append(w.down[:i:i], w.down[i+1:]...)
		}
	}
	e.At = w.now
	return e
}

// run drives an attempt to its end and returns it and what was sent.
func (w *world) run(step func(attempt.Event) attempt.Action) (attempt.Action, []attempt.Do) {
	var sent []attempt.Do
	e := attempt.Event{At: w.now}
	for range 10000 {
		a := step(e)
		switch a.Do {
		case attempt.Done:
			return a, sent
		case attempt.Wait:
		default:
			sent = append(sent, a.Do)
			w.up = append(w.up, packet{do: a.Do, try: a.Try, sent: w.now.Boot})
			if a.Try != len(sent) {
				w.t.Fatalf("send %d has the number %d", len(sent), a.Try)
			}
		}
		if a.Until <= w.now.Mono {
			w.t.Fatalf("at %v: to be asked again at %v", w.now.Mono, a.Until)
		}
		for len(w.up) > 0 && rapid.Bool().Draw(w.t, "serve") {
			w.serve()
		}
		w.move(2 * (a.Until - w.now.Mono))
		e = w.event()
	}
	w.t.Fatal("the attempt does not end")
	return attempt.Action{}, nil
}

// flush delivers all that is still under way.
func (w *world) flush() {
	for _, p := range w.up {
		w.answer(p)
	}
}

func newWorld(t *rapid.T) *world {
	return &world{
		t: t, duplicates: rapid.Bool().Draw(t, "duplicates"),
		ttl: time.Duration(rapid.IntRange(1, 60).Draw(t, "ttl")) * sec,
	}
}

// I9 and BR-002 in every order of events: an acquire ends with a token or an
// error; after an error nothing is held or queued, nor will be; once a cancel
// was sent no token is handed out and the id is not used.
func TestI9AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		limits := attempt.Limits{
			Poll: 5 * sec, Slack: 20 * sec, Duplicates: w.duplicates,
			Margin: time.Duration(rapid.IntRange(0, 3).Draw(t, "margin")) * sec,
		}
		a := attempt.NewAcquire(lease.Request{ID: "r", Wait: 20 * sec}, limits)
		end, sent := w.run(a.Step)
		cancels := 0
		for _, do := range sent {
			if do == attempt.SendCancel {
				cancels++
			} else if cancels > 0 {
				t.Fatal("the id was used after a cancel of it was sent")
			}
		}
		if (end.Err == nil) != (end.Token.LeaseID != "") {
			t.Fatalf("ended with token %v and error %v", end.Token.LeaseID, end.Err)
		}
		w.checkEnd(end, cancels)
	})
}

func (w *world) checkEnd(end attempt.Action, cancels int) {
	code := lease.CodeOf(end.Err)
	switch {
	case end.Err == nil && cancels > 0:
		w.t.Fatal("a token was handed out after a cancel")
	case end.Err == nil && end.Token.Check("r") != nil:
		w.t.Fatal("an invalid token was handed out")
	case end.Err == nil && w.state != "held":
		w.t.Fatalf("a token was handed out, and the request is %s", w.state)
	case code == lease.CodeOutcomeUnknown && cancels == 0:
		w.t.Fatal("the outcome is unknown, and no cancel was sent")
	case end.Err != nil && code != lease.CodeOutcomeUnknown:
		w.flush()
		if w.state == "held" || w.state == "waiting" {
			w.t.Fatalf("after the error %v the request is %s", end.Err, w.state)
		}
	}
}

// A give-back in every order of events: where it ends well the lease is not
// held any more, and else the answer is the broker's.
func TestGiveBackAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.state = rapid.SampledFrom([]string{"held", "held", "lease_expired", "lease_unknown", "lease_abandoned"}).Draw(t, "state")
		before := w.state
		g := attempt.NewRelease("l", attempt.Limits{})
		end, _ := w.run(g.Step)
		switch code := lease.CodeOf(end.Err); {
		case end.Err == nil && w.state == "held":
			t.Fatal("it ended well, and the lease is held")
		case end.Err == nil && before != "held" && before != "lease_unknown":
			t.Fatalf("it ended well, and the lease was %s", before)
		case end.Err != nil && code != lease.CodeOutcomeUnknown && string(code) != w.state:
			t.Fatalf("it ended with %s, and the lease is %s", code, w.state)
		}
	})
}
