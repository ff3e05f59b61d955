package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/guard"
)

func TestG20_CommitFails(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "caller"))
	defer cancel()
	d := &desk{release: func(context.Context, guard.Outcome) error { return errRelease }}
	d.commit = func(ctx context.Context) error {
		if _, limited := ctx.Deadline(); limited || ctx.Value(key{}) != "caller" {
			t.Error("Commit runs on another context than the caller's")
		}
		return errCommit
	}
	v, err := guard.Use(ctx, d.resource(), with("done", nil))
	wantParts(t, err, errCommit, errRelease)
	if v != "done" {
		t.Errorf("value %q, want what the body returned", v)
	}
	d.wantBook(t, "acquire", "commit", "release", "released")
	d.wantOutcome(t, guard.Failed, errCommit)
}

func TestG20_CommitObeysTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &desk{commit: func(ctx context.Context) error { return ctx.Err() }}
	_, err := guard.Use(ctx, d.resource(), func(context.Context, *lease) (string, error) {
		cancel(errCause)
		return "done", nil
	})
	if !sameError(err, context.Canceled) {
		t.Errorf("error %v, want Commit's", err)
	}
	if o := d.wantOutcome(t, guard.Cancelled, context.Canceled); !errors.Is(o.Cause, errCause) {
		t.Errorf("cause %v, want the caller's", o.Cause)
	}
}

func TestG20_NoCommitUnlessTheBodyCompleted(t *testing.T) {
	bodies := map[string]func(context.Context, *lease) (string, error){
		"error":  with("", errBody),
		"panic":  bodyThatPanics("x"),
		"goexit": func(context.Context, *lease) (string, error) { runtime.Goexit(); return "", nil },
		"closed": func(ctx context.Context, l *lease) (string, error) {
			return "", l.Close(ctx, guard.Outcome{})
		},
	}
	for name, body := range bodies {
		d := &desk{commit: func(context.Context) error { t.Errorf("%s: Commit was called", name); return nil }}
		apart(func() { guard.Use(t.Context(), d.resource(), body) })
		d.wantBook(t, "acquire", "release", "released")
	}
}

func TestG20_PanicOfCommitGoesOnAfterTheRelease(t *testing.T) {
	d := &desk{commit: func(context.Context) error { panic("torn") }}
	if _, p, _ := apart(func() { guard.Use(t.Context(), d.resource(), with("", nil)) }); p != "torn" {
		t.Errorf("panic %v, want Commit's", p)
	}
	d.wantBook(t, "acquire", "commit", "release", "released")
	d.wantOutcome(t, guard.Panicked, nil)
}

func TestG21_CommittedButNotReleased(t *testing.T) {
	d := &desk{
		commit:  func(context.Context) error { return nil },
		release: func(context.Context, guard.Outcome) error { return errRelease },
	}
	v, err := guard.Use(t.Context(), d.resource(), with("done", nil))
	wantParts(t, err, nil, errRelease) // Body nil: it was committed
	if v != "done" {
		t.Errorf("value %q, want the body's", v)
	}
	d.wantOutcome(t, guard.Completed, nil)
}

func TestG21_CloseCommits(t *testing.T) {
	d := &desk{commit: func(context.Context) error { return errCommit }}
	l, err := guard.Open(t.Context(), d.resource())
	wantNo(t, err)
	for range 2 {
		if err := l.Close(t.Context(), guard.Outcome{Kind: guard.Completed}); !sameError(err, errCommit) {
			t.Errorf("Close gave %v, want Commit's error", err)
		}
	}
	d.wantBook(t, "acquire", "commit", "release", "released")
	d.wantOutcome(t, guard.Failed, errCommit)
}

func TestG22_TransferLeavesTheOldHandleInert(t *testing.T) {
	d := &desk{commit: func(context.Context) error { return nil }}
	kept, err := guard.Use(t.Context(), d.resource(), func(ctx context.Context, l *lease) (*lease, error) {
		kept, err := l.Transfer()
		wantNo(t, err)
		wantNo(t, l.Close(ctx, guard.Outcome{Kind: guard.Completed}))
		if v, err := l.Value(); v != 0 || !errors.Is(err, guard.ErrReleased) {
			t.Errorf("the old handle gave %d, %v; want ErrReleased", v, err)
		}
		if _, err := l.Transfer(); !errors.Is(err, guard.ErrReleased) {
			t.Errorf("the old handle was moved again: %v", err)
		}
		if l.Done() != kept.Done() {
			t.Error("Done differs between the handles")
		}
		return kept, nil
	})
	wantNo(t, err)
	d.wantBook(t, "acquire")
	if v, err := kept.Value(); v != 1 || err != nil {
		t.Errorf("the new handle gave %d, %v; want 1", v, err)
	}
	wantNo(t, kept.Close(t.Context(), guard.Outcome{Kind: guard.Completed}))
	d.wantBook(t, "acquire", "commit", "release", "released")
}

func TestG22_TransferRacesClose(t *testing.T) {
	for range 300 {
		d := &desk{}
		l, err := guard.Open(t.Context(), d.resource())
		wantNo(t, err)
		var both sync.WaitGroup
		both.Go(func() { l.Close(t.Context(), guard.Outcome{}) })
		both.Go(func() {
			next, err := l.Transfer()
			if err != nil {
				wantIs(t, err, guard.ErrReleased)
				return
			}
			if _, err := next.Value(); err != nil {
				t.Errorf("moved, but Value gave %v", err)
			}
			wantNo(t, next.Close(t.Context(), guard.Outcome{}))
		})
		both.Wait()
		d.wantBook(t, "acquire", "release", "released")
	}
}

// forget opens a lease and loses it, moved or not.
func forget(t *testing.T, d *desk, move bool) {
	l, err := guard.Open(t.Context(), d.resource())
	wantNo(t, err)
	if move {
		_, err = l.Transfer()
		wantNo(t, err)
	}
}

func TestG23_ForgottenLeaseIsReportedNotReleased(t *testing.T) {
	for _, move := range []bool{false, true} {
		leaks := make(chan guard.Event, 9)
		d := &desk{change: func(r *guard.Resource[int]) {
			r.Observe = func(e guard.Event) {
				if e.Step == guard.StepLeak {
					leaks <- e
				}
			}
		}}
		l, err := guard.Open(t.Context(), d.resource()) // closed ones are not reported
		wantNo(t, err)
		wantNo(t, l.Close(t.Context(), guard.Outcome{}))
		l = nil
		forget(t, &desk{change: func(r *guard.Resource[int]) { r.Observe = nil }}, move) // nobody to tell
		before := time.Now()
		forget(t, d, move)

		e := collect(t, leaks)
		if e.Held <= 0 || e.Held > time.Since(before) {
			t.Errorf("held for %v, of the %v since before its Open", e.Held, time.Since(before))
		}
		_, place, _ := strings.Cut(e.Err.Error(), "opened at\n")
		first, _, _ := strings.Cut(place, "\n")
		if e.Name != "key" || !strings.HasSuffix(first, "guard_test.forget") || !strings.Contains(place, "lease_test.go:") {
			t.Errorf("the report is %q, want the place of Open", e.Err)
		}
		runtime.GC()
		if len(leaks) != 0 {
			t.Errorf("one more report: %v", (<-leaks).Err)
		}
		d.wantBook(t, "acquire", "release", "released", "acquire")
	}
}

// collect runs the garbage collector until there is a report.
func collect(t *testing.T, leaks <-chan guard.Event) guard.Event {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); runtime.GC() {
		select {
		case e := <-leaks:
			return e
		default:
			runtime.Gosched()
		}
	}
	t.Fatal("the forgotten lease was not reported")
	return guard.Event{}
}

func TestEventsTellHowLong(t *testing.T) {
	d := &desk{}
	_, err := guard.Use(t.Context(), d.resource(), with("", errBody))
	wantIs(t, err, errBody)
	es := d.heard(guard.StepRelease)
	if len(es) != 1 || es[0].Name != "key" || es[0].Err != nil || es[0].Outcome.Kind != guard.Failed || es[0].Late {
		t.Errorf("heard %+v, want one good release of a failed work", es)
	}
}

func TestKindNames(t *testing.T) {
	names := []string{"abandoned", "completed", "failed", "cancelled", "panicked", "exited", "unknown"}
	for k, want := range names {
		if got := guard.Kind(k).String(); got != want {
			t.Errorf("kind %d is %q, want %q", k, got, want)
		}
	}
}
