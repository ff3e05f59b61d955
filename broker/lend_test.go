package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/lease"
)

func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		first := f.take(t)
		second := begin(t.Context(), f, wish(time.Minute))
		synctest.Wait()
		mustDo(t, f.Release(t.Context(), first))
		got := <-second
		mustDo(t, got.err)
		if got.token.Fence <= first.Fence || got.token.Slots[0].ID != "g-0" || got.token.Left != lease.DefaultTTL {
			t.Fatalf("second lease %+v after %+v", got.token, first)
		}
		if s := f.audit(t); s.Held != 1 || s.Acquired != 2 || s.Released != 1 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestRenewGivesTimeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		for range 5 {
			time.Sleep(20 * time.Second)
			again, err := f.Renew(t.Context(), token)
			mustDo(t, err)
			if again.Left != token.TTL || again.LeaseID != token.LeaseID || again.Fence != token.Fence {
				t.Fatalf("renewed to %+v from %+v", again, token)
			}
		}
		time.Sleep(31 * time.Second)
		_, err := f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseExpired)
	})
}

func TestExpiryQuarantinesUntilHandover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		f.take(t)
		began := time.Now()
		_, err := f.Acquire(t.Context(), wish(time.Hour))
		mustDo(t, err)
		// TTL 30 s and handover 15 s, seen within a quarter of a second.
		if took := time.Since(began); took < 45*time.Second || took > 46*time.Second {
			t.Fatalf("handed on after %v", took)
		}
	})
}

func TestAbandonKeepsTheSlotBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		mustDo(t, f.Abandon(t.Context(), token, "its work does not stop"))
		mustDo(t, f.Abandon(t.Context(), token, "again"))
		if s := f.audit(t); s.Quarantined != 1 || s.Released != 1 || s.Free != 0 {
			t.Fatalf("after the abandon %+v", s)
		}
		_, err := f.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseAbandoned)
		// A late release says that the work has stopped after all.
		wantCode(t, f.Release(t.Context(), token), lease.CodeLeaseAbandoned)
		if s := f.audit(t); s.Free != 1 {
			t.Fatalf("after the late release %+v", s)
		}
	})
}

func TestCancelBeforeTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		r := wish(0)
		mustDo(t, f.Cancel(t.Context(), r.ID))
		_, err := f.Acquire(t.Context(), r)
		wantCode(t, err, lease.CodeCancelled)
		wantCode(t, f.Cancel(t.Context(), "no such name!"), lease.CodeNameInvalid)
	})
}

// Somebody may work under a lease whose request is cancelled.
func TestK13CancelOfALeaseAbandonsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		stranger := f.As("someone else")
		mustDo(t, stranger.Cancel(t.Context(), token.RequestID))
		if _, err := f.Renew(t.Context(), token); err != nil {
			t.Fatalf("a stranger's cancel of the id did harm: %v", err)
		}
		mustDo(t, f.Cancel(t.Context(), token.RequestID))
		if s := f.audit(t); s.Held != 0 || s.Quarantined != 1 {
			t.Fatalf("after the cancel %+v", s)
		}
	})
}

func TestK14RepeatAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		r := wish(0)
		token, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		time.Sleep(10 * time.Second)
		again, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		if again.LeaseID != token.LeaseID || again.Left > token.Left-10*time.Second {
			t.Fatalf("the repeat got %+v after %+v", again, token)
		}
		other := r
		other.Priority = 5
		_, err = f.Acquire(t.Context(), other)
		wantCode(t, err, lease.CodeRequestMismatch)
		mustDo(t, f.Release(t.Context(), token))
		_, err = f.Acquire(t.Context(), r)
		wantCode(t, err, lease.CodeLeaseReleased)
	})
}

// A wait longer than one call may last is one call to its caller: the token
// must tell all of it as elapsed, or trust would have ended before it began.
func TestK1ElapsedCountsFromTheFirstCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), poolWith("g", lease.Settings{TTL: time.Second}, "g-0"))
		token := f.take(t)
		began := time.Now()
		second := begin(t.Context(), f, wish(time.Hour))
		for time.Since(began) < 95*time.Second {
			time.Sleep(300 * time.Millisecond)
			_, err := f.Renew(t.Context(), token)
			mustDo(t, err)
		}
		mustDo(t, f.Release(t.Context(), token))
		got := <-second
		mustDo(t, got.err)
		waited := time.Since(began)
		if off := waited - got.token.Elapsed; off < 0 || off > time.Millisecond {
			t.Fatalf("the token says %v elapsed, it was %v", got.token.Elapsed, waited)
		}
	})
}

func TestTokenSharesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spec := pool("g", "g-0")
		spec.Slots[0].Labels = map[string]string{"model": "a"}
		f := open(t, memory(), spec)
		spec.Slots[0].Labels["model"] = "spoilt"
		r := wish(0)
		for range 2 {
			token, err := f.Acquire(t.Context(), r)
			mustDo(t, err)
			if token.Slots[0].Labels["model"] != "a" {
				t.Fatalf("the labels are %v", token.Slots[0].Labels)
			}
			token.Slots[0].Labels["model"] = "spoilt"
		}
	})
}

func TestBR009OwnershipCannotBeGuessed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0", "g-1"))
		previous := f.take(t)
		mustDo(t, f.Release(t.Context(), previous))
		token, other := f.take(t), f.take(t)
		for _, c := range []struct {
			id   lease.LeaseID
			want lease.Code
		}{
			{lease.LeaseID(token.Slots[0].ID), lease.CodeLeaseUnknown},
			{lease.LeaseID(token.RequestID), lease.CodeLeaseUnknown},
			{lease.LeaseID(token.LeaseID.Ref()), lease.CodeLeaseUnknown},
			{"", lease.CodeLeaseMissing},
			{previous.LeaseID, lease.CodeLeaseReleased},
		} {
			guess := token
			guess.LeaseID = c.id
			_, err := f.Renew(t.Context(), guess)
			wantCode(t, err, c.want)
			if err := f.Release(t.Context(), guess); c.want != lease.CodeLeaseReleased {
				wantCode(t, err, c.want)
			}
		}
		stranger := f.As("someone else")
		wantCode(t, stranger.Release(t.Context(), token), lease.CodeLeaseForeign)
		_, err := stranger.Renew(t.Context(), other)
		wantCode(t, err, lease.CodeLeaseForeign)
		if s := f.audit(t); s.Held != 2 || s.Released != 1 {
			t.Fatalf("the guesses changed something: %+v", s)
		}
	})
}

func TestBR010DeadContextTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(errMind)
		late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer stop()
		for range 100 {
			if _, err := f.Acquire(cancelled, wish(0)); !errors.Is(err, errMind) {
				t.Fatalf("a cancelled context got %v", err)
			}
			if _, err := f.Acquire(late, wish(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a past deadline got %v", err)
			}
		}
		if s := f.audit(t); s.Acquired != 0 || s.Queued != 0 {
			t.Fatalf("something was taken: %+v", s)
		}
		f.take(t)
		for range 100 {
			_, err := f.Acquire(t.Context(), wish(0))
			wantCode(t, err, lease.CodeNoCapacity)
		}
		if s := f.audit(t); s.Held != 1 {
			t.Fatalf("held %d, want 1", s.Held)
		}
	})
}

// The token alone is the right to release: nothing is remembered beside it.
func TestBR011AnotherProcessReleases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		id := f.take(t).LeaseID
		mustDo(t, f.stop())
		f = open(t, s)
		for range 2 {
			mustDo(t, f.Release(t.Context(), lease.Token{LeaseID: id}))
		}
		if s := f.audit(t); s.Released != 1 || s.Free != 1 {
			t.Fatalf("after two releases %+v", s)
		}
	})
}

func TestBR031LateReleaseLeavesTheNextAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		a := f.take(t)
		got := <-begin(t.Context(), f, wish(time.Minute))
		mustDo(t, got.err)
		for range 2 {
			wantCode(t, f.Release(t.Context(), a), lease.CodeLeaseExpired)
			_, err := f.Renew(t.Context(), a)
			wantCode(t, err, lease.CodeLeaseExpired)
			wantCode(t, f.Release(t.Context(), a), lease.CodeLeaseExpired)
		}
		if _, err := f.Renew(t.Context(), got.token); err != nil {
			t.Fatalf("the next holder was disturbed: %v", err)
		}
		if s := f.audit(t); s.Held != 1 || s.Orphaned != 1 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestBR044NeverSuccessWithoutASlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0", "g-1", "g-2"))
		for range 3 {
			f.take(t)
		}
		_, err := f.Acquire(t.Context(), wish(0))
		wantCode(t, err, lease.CodeNoCapacity)
		_, err = f.Acquire(t.Context(), wish(time.Second))
		wantCode(t, err, lease.CodeTimedOut)
		many := wish(time.Second)
		many.Claims[0].Count = 4
		_, err = f.Acquire(t.Context(), many)
		wantCode(t, err, lease.CodeUnsatisfiable)
		_, err = f.Acquire(t.Context(), lease.Request{ID: lease.NewRequestID()})
		wantCode(t, err, lease.CodeRequestInvalid)
	})
}

func TestBR048ReleasingTwiceMakesNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0", "g-1"))
		a, b := f.take(t), f.take(t)
		var releases sync.WaitGroup
		for range 10 {
			releases.Go(func() {
				if err := f.Release(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
		}
		releases.Wait()
		_, err := f.Acquire(t.Context(), lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "none"}}})
		wantCode(t, err, lease.CodePoolUnknown)
		wantCode(t, f.Release(t.Context(), lease.Token{}), lease.CodeLeaseMissing)
		f.take(t)
		_, err = f.Acquire(t.Context(), wish(0))
		wantCode(t, err, lease.CodeNoCapacity)
		mustDo(t, f.Release(t.Context(), b))
		if s := f.audit(t); s.Free != 1 || s.Released != 2 || s.Held != 1 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestUnheardCallsSayThatTheOutcomeIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		mustDo(t, f.stop())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errMind)
		if err := f.Release(ctx, token); !errors.Is(err, errMind) {
			t.Fatalf("a dead context got %v", err)
		}
	})
}
