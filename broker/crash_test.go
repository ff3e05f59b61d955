package broker_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/lease"
)

// Whatever was answered before a crash is true after it: grants, releases,
// cancels, refusals, ends of waits, and what a listing showed.
func TestK24NothingHeardIsUndone(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { crashOnce(t, seed) })
		})
	}
}

// crashOnce has callers ask all kinds of things until the store crashes, and
// asks again after it.
func crashOnce(t *testing.T, seed uint64) {
	s := memory()
	f := open(t, s, pool("g", names(6)...))
	heard := make([]*hearsay, 12)
	var all sync.WaitGroup
	for i := range heard {
		heard[i] = &hearsay{rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		all.Go(func() { heard[i].ask(t, f) })
	}
	time.Sleep(time.Duration(seed%50) * time.Millisecond)
	s.Crash(seed%2 == 0)
	all.Wait()
	f.stop()

	f = open(t, s.Reopen())
	now := f.audit(t)
	for _, h := range heard {
		h.check(t, f, now)
	}
}

// A hearsay is what one caller was told.
type hearsay struct {
	rng       *rand.Rand
	held      []lease.Token
	released  []lease.Token
	cancelled []lease.Request
	refused   []lease.Request
	doubtful  int // tokens of which a release was not answered
	shown     lease.Status
}

// ask goes on until the broker says no more. Between two calls it waits a
// random while, so that crashes come at every moment.
func (h *hearsay) ask(t *testing.T, f farm) {
	for err := error(nil); lease.CodeOf(err) != lease.CodeOutcomeUnknown; {
		time.Sleep(time.Duration(h.rng.IntN(3000)) * time.Microsecond)
		switch h.rng.IntN(6) {
		case 0, 1:
			err = h.acquire(t, f)
		case 2, 3:
			err = h.release(t, f)
		case 4:
			r := wish(0)
			if err = f.Cancel(t.Context(), r.ID); err == nil {
				h.cancelled = append(h.cancelled, r)
			}
		case 5:
			var shown lease.Status
			if shown, err = f.Status(t.Context(), true); err == nil {
				h.shown = shown
			}
		}
	}
}

func (h *hearsay) acquire(t *testing.T, f farm) error {
	r := wish(time.Duration(h.rng.IntN(3)) * time.Millisecond)
	token, err := f.Acquire(t.Context(), r)
	switch lease.CodeOf(err) {
	case "":
		h.held = append(h.held, token)
	case lease.CodeNoCapacity, lease.CodeTimedOut:
		h.refused = append(h.refused, r)
	case lease.CodeOutcomeUnknown:
	default:
		t.Error(err)
	}
	return err
}

func (h *hearsay) release(t *testing.T, f farm) error {
	if len(h.held) == 0 {
		return nil
	}
	token := h.held[0]
	h.held = h.held[1:]
	err := f.Release(t.Context(), token)
	if err == nil {
		h.released = append(h.released, token)
	} else {
		h.doubtful++
	}
	return err
}

// check asks the next broker about everything that was heard.
func (h *hearsay) check(t *testing.T, f farm, now lease.Status) {
	for _, token := range h.held {
		if again, err := f.Renew(t.Context(), token); err != nil || again.Fence != token.Fence {
			t.Errorf("a lease that was granted: %+v, %v", again, err)
		}
	}
	for _, token := range h.released {
		_, err := f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseReleased)
	}
	for _, r := range append(h.cancelled, h.refused...) {
		if token, err := f.Acquire(t.Context(), r); err == nil {
			t.Errorf("a request that had ended was granted: %+v", token)
		}
	}
	if h.shown.Acquired > now.Acquired || h.shown.Released > now.Released {
		t.Errorf("a listing showed %+v, and now it is %+v", h.shown, now)
	}
}

// A waiter that was told its place is still in the queue after a crash, in
// that place.
func TestK24PlacesInTheQueueStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, poolWith("g", lease.Settings{TTL: time.Hour}, "g-0"))
		token := f.take(t)
		wishes := []lease.Request{wish(time.Hour), wish(time.Hour), wish(time.Hour)}
		for _, r := range wishes {
			begin(t.Context(), f, r)
			synctest.Wait()
		}
		if s := f.audit(t); s.Queued != 3 {
			t.Fatalf("%d wait", s.Queued)
		}
		crashed := s.Reopen()
		f.stop()
		f = open(t, crashed)
		waiters := f.audit(t).Pools[0].Waiters
		for i, r := range wishes {
			if waiters[i].Ref != r.ID.Ref() {
				t.Fatalf("place %d is %s's, want %s's", i+1, waiters[i].Ref, r.ID.Ref())
			}
		}
		mustDo(t, f.Release(t.Context(), token))
	})
}
