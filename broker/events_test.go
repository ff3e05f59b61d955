package broker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// A watch collects events until its context ends.
type watch struct {
	events []broker.Event
	ended  chan error
	stop   context.CancelFunc
}

func (f farm) watch(t *testing.T, from uint64) *watch {
	ctx, stop := context.WithCancel(t.Context())
	w := &watch{ended: make(chan error, 1), stop: stop}
	go func() {
		w.ended <- f.Watch(ctx, from, func(ev broker.Event) error {
			w.events = append(w.events, ev)
			return nil
		})
	}()
	return w
}

// seen stops the watch and returns what it saw.
func (w *watch) seen(t *testing.T) []broker.Event {
	t.Helper()
	synctest.Wait()
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the watch ended with %v", err)
	}
	return w.events
}

func kinds(events []broker.Event) string {
	var names []string
	for _, ev := range events {
		names = append(names, ev.Kind)
	}
	return strings.Join(names, " ")
}

func TestEventsTellTheStory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		w := f.watch(t, 0)
		synctest.Wait()
		first := f.take(t)
		waiter := begin(t.Context(), f, wish(time.Hour))
		synctest.Wait()
		mustDo(t, f.Release(t.Context(), first))
		second := (<-waiter).token
		mustDo(t, f.Revoke(t.Context(), second.LeaseID.Ref(), "needed"))
		time.Sleep(time.Minute)
		events := w.seen(t)
		if got, want := kinds(events), "granted queued released granted revoked quarantined freed"; got != want {
			t.Fatalf("told %s, want %s", got, want)
		}
		for i, ev := range events {
			if i > 0 && ev.Number != events[i-1].Number+1 {
				t.Errorf("event %d follows %d", ev.Number, events[i-1].Number)
			}
			if string(ev.Lease) == string(second.LeaseID) || string(ev.Request) == string(second.RequestID) {
				t.Errorf("event %+v shows an id", ev)
			}
		}
		revoked := events[4]
		if revoked.Lease != second.LeaseID.Ref() || revoked.Fence != second.Fence || revoked.Reason != "needed" || revoked.Why != "operator" {
			t.Errorf("the revoke was told as %+v", revoked)
		}
	})
}

// A watch from any number on sees the same.
func TestWatchIsResumable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		w := f.watch(t, 0)
		synctest.Wait()
		for range 300 {
			mustDo(t, f.Release(t.Context(), f.take(t)))
		}
		all := w.seen(t)
		if len(all) != 600 {
			t.Fatalf("%d events, want 600", len(all))
		}
		for _, i := range []int{0, 1, 255, 256, 599} {
			again := f.watch(t, all[i].Number)
			if got := again.seen(t); !slices.Equal(got, all[i:]) {
				t.Fatalf("from event %d on: %d events, want %d", i, len(got), len(all[i:]))
			}
		}
		err := f.Watch(t.Context(), all[599].Number+2, nil)
		wantCode(t, err, lease.CodeRequestInvalid)
		err = f.Watch(t.Context(), all[0].Number, func(broker.Event) error { return errMind })
		if !errors.Is(err, errMind) {
			t.Fatalf("a watcher's own error came back as %v", err)
		}
	})
}

func TestWatchSaysWhatIsCompacted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := openWith(t, broker.Config{Store: memory(), Events: 10}, pool("g", "g-0"))
		w := f.watch(t, 0)
		synctest.Wait()
		for range 50 {
			mustDo(t, f.Release(t.Context(), f.take(t)))
			synctest.Wait() // the watcher keeps up
		}
		all := w.seen(t)
		wantCode(t, f.Watch(t.Context(), all[0].Number, nil), lease.CodeCompacted)
		tail := all[len(all)-10:]
		if got := f.watch(t, tail[0].Number).seen(t); !slices.Equal(got, tail) {
			t.Fatalf("of the last 10 events %d are there", len(got))
		}
	})
}

// A number never comes twice, however soon the next start comes and whatever
// the wall clock says; a watcher from before a start hears that it missed some.
func TestEventNumbersGrowOverRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		last := uint64(0)
		for range 5 {
			f := open(t, s, pool("g", "g-0"))
			if last > 0 {
				wantCode(t, f.Watch(t.Context(), last+1, nil), lease.CodeCompacted)
			}
			w := f.watch(t, 0)
			synctest.Wait()
			for range 100 {
				// Events without a fence: none of these is granted.
				mustDo(t, f.Drain(t.Context(), "g", ""))
				mustDo(t, f.Undrain(t.Context(), "g", ""))
			}
			events := w.seen(t)
			if events[0].Number <= last {
				t.Fatalf("event %d came after %d", events[0].Number, last)
			}
			last = events[len(events)-1].Number
			mustDo(t, f.stop())
		}
	})
}

// Nothing is told before it is durable.
func TestEventsWaitForTheirCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &gated{Store: memory(), gate: make(chan struct{})}
		f := open(t, slow, pool("g", "g-0", "g-1"))
		w := f.watch(t, 0)
		synctest.Wait()
		slow.shut()
		first := begin(t.Context(), f, wish(0))
		synctest.Wait()
		second := begin(t.Context(), f, wish(0))
		time.Sleep(10 * time.Second)
		if len(w.events) > 0 {
			t.Fatalf("told %s before the commit", kinds(w.events))
		}
		slow.open()
		mustDo(t, (<-first).err)
		mustDo(t, (<-second).err)
		if got := w.seen(t); kinds(got) != "granted granted" || got[0].Fence >= got[1].Fence {
			t.Fatalf("told %+v", got)
		}
	})
}

func TestWatchEndsWithTheBroker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		w := f.watch(t, 0)
		synctest.Wait()
		f.take(t)
		mustDo(t, f.stop())
		wantCode(t, <-w.ended, lease.CodeStopped)
		if kinds(w.events) != "granted" {
			t.Fatalf("told %s", kinds(w.events))
		}
	})
}

// A watcher that is always behind still hears that its context has ended.
func TestWatchHearsItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		ctx, cancel := context.WithCancelCause(t.Context())
		told := 0
		err := f.Watch(ctx, f.firstEvent(t), func(broker.Event) error {
			told++
			cancel(errMind)
			_, err := f.Apply(t.Context(), lease.SourceAPI, nil, false)
			return err
		})
		if !errors.Is(err, errMind) || told == 0 {
			t.Fatalf("after %d events: %v", told, err)
		}
	})
}

// firstEvent returns the number of an event that is kept.
func (f farm) firstEvent(t *testing.T) uint64 {
	w := f.watch(t, 0)
	synctest.Wait()
	f.take(t)
	return w.seen(t)[0].Number
}
