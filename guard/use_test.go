package guard_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
)

func TestG1_ValueComesBackAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{release: func(context.Context, guard.Outcome) error {
			time.Sleep(time.Second)
			return nil
		}}
		v, err := guard.Use(t.Context(), d.resource(), func(_ context.Context, l *lease) (string, error) {
			d.note("body")
			if key, err := l.Value(); key != 1 || err != nil {
				t.Errorf("Value gave %d, %v; want 1", key, err)
			}
			return "done", nil
		})
		if v != "done" || err != nil {
			t.Errorf("Use gave %q, %v; want the body's value", v, err)
		}
		d.wantBook(t, "acquire", "body", "release", "released")
		d.wantOutcome(t, guard.Completed, nil)
	})
}

func TestG2_BothErrorsAreKeptBodyFirst(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { return errRelease }}
	v, err := guard.Use(t.Context(), d.resource(), with("partial", errBody))
	wantIs(t, err, errBody, errRelease)
	wantParts(t, err, errBody, errRelease)
	if text := err.Error(); !strings.HasPrefix(text, errBody.Error()) || !strings.Contains(text, "release key: "+errRelease.Error()) {
		t.Errorf("error reads %q, want the body's error first, then the release's", text)
	}
	if v != "partial" {
		t.Errorf("value %q, want what the body returned", v)
	}
	d.wantOutcome(t, guard.Failed, errBody)
}

func TestG2_BodyErrorAloneIsReturnedAsItIs(t *testing.T) {
	d := &desk{}
	if _, err := guard.Use(t.Context(), d.resource(), with("", errBody)); !sameError(err, errBody) {
		t.Errorf("error %v, want the body's own", err)
	}
}

func TestG3_ValueComesTogetherWithAReleaseError(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { return errRelease }}
	v, err := guard.Use(t.Context(), d.resource(), with("done", nil))
	if v != "done" {
		t.Errorf("value %q, want the body's", v)
	}
	wantParts(t, err, nil, errRelease)
	if want := "release key: " + errRelease.Error(); err.Error() != want {
		t.Errorf("error reads %q, want %q", err, want)
	}
}

type cargo struct{ text string }

func bodyThatPanics(v any) func(context.Context, *lease) (string, error) {
	return func(context.Context, *lease) (string, error) { panic(v) }
}

func TestG4_PanicGoesOnWithItsFrames(t *testing.T) {
	d, thrown := &desk{}, &cargo{"overboard"}
	_, p, trace := apart(func() { guard.Use(t.Context(), d.resource(), bodyThatPanics(thrown)) })
	if p != any(thrown) {
		t.Errorf("panic value %v, want the very same", p)
	}
	if !strings.Contains(trace, "bodyThatPanics") {
		t.Errorf("the frames of the body are gone:\n%s", trace)
	}
	d.wantBook(t, "acquire", "release", "released")
	o := d.wantOutcome(t, guard.Panicked, nil)
	pe, ok := errors.AsType[*guard.PanicError](o.Err)
	if !ok || pe.Value != any(thrown) || !strings.Contains(string(pe.Stack), "bodyThatPanics") {
		t.Errorf("Release was told %v, want a *PanicError with the value and the stack", o.Err)
	}
}

func TestG5_PanicWinsOverTheReleaseFailure(t *testing.T) {
	releases := map[string]func(context.Context, guard.Outcome) error{
		"error":  func(context.Context, guard.Outcome) error { return errRelease },
		"panic":  func(context.Context, guard.Outcome) error { panic(errRelease) },
		"goexit": func(context.Context, guard.Outcome) error { runtime.Goexit(); return nil },
	}
	for name, release := range releases {
		d := &desk{release: release}
		_, p, trace := apart(func() { guard.Use(t.Context(), d.resource(), bodyThatPanics("first")) })
		if p != "first" || !strings.Contains(trace, "bodyThatPanics") {
			t.Errorf("%s: panic %v, want the body's with its frames", name, p)
		}
		want := errRelease
		if name == "goexit" {
			want = guard.ErrExited
		}
		es := d.heard(guard.StepRelease)
		if len(es) != 1 || !errors.Is(es[0].Err, want) || es[0].Outcome.Kind != guard.Panicked {
			t.Errorf("%s: the observer heard %+v, want the release's failure once", name, es)
		}
	}
}

func TestG5_PanicOfReleaseIsAReleaseError(t *testing.T) {
	d := &desk{release: func(context.Context, guard.Outcome) error { panic("hatch stuck") }}
	v, err := guard.Use(t.Context(), d.resource(), with("done", nil))
	pe, ok := errors.AsType[*guard.PanicError](err)
	if v != "done" || !ok || pe.Value != "hatch stuck" || len(pe.Stack) == 0 {
		t.Errorf("Use gave %q, %v; want the value and the panic as an error", v, err)
	}
}

func TestG6_GoexitGoesOnAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		returned, p, _ := apart(func() {
			guard.Use(t.Context(), d.resource(), func(context.Context, *lease) (string, error) {
				runtime.Goexit()
				return "", nil
			})
		})
		if returned || p != nil {
			t.Errorf("returned %v, panic %v; want a Goexit that goes on", returned, p)
		}
		d.wantBook(t, "acquire", "release", "released")
		d.wantOutcome(t, guard.Exited, guard.ErrExited)
	})
}

func TestG7_GoexitInsideAPanicIsExited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		returned, p, _ := apart(func() {
			guard.Use(t.Context(), d.resource(), func(context.Context, *lease) (string, error) {
				defer runtime.Goexit()
				panic("swallowed by the Goexit")
			})
		})
		if returned || p != nil {
			t.Errorf("returned %v, panic %v; want a Goexit that goes on", returned, p)
		}
		d.wantOutcome(t, guard.Exited, guard.ErrExited)
	})
}

func TestG24_NestedReleasesAreStrictlyLastInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		slow := func(name string) guard.Resource[string] {
			return guard.Resource[string]{
				Acquire: func(context.Context) (string, error) { return name, nil },
				Release: func(context.Context, string, guard.Outcome) error {
					order = append(order, name+" begins")
					time.Sleep(time.Second)
					order = append(order, name+" ends")
					return nil
				},
			}
		}
		_, err := guard.Use(t.Context(), slow("outer"), func(ctx context.Context, _ *guard.Lease[string]) (int, error) {
			return guard.Use(ctx, slow("inner"), func(context.Context, *guard.Lease[string]) (int, error) { return 0, nil })
		})
		wantNo(t, err)
		if want := []string{"inner begins", "inner ends", "outer begins", "outer ends"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

// broker is something with a Close that a guard could mistake for its own; so is its permit.
type broker struct{ closed int }

func (b *broker) Close() error { b.closed++; return nil }

type permit struct{ *broker }

func TestG26_BrokerIsNeverClosed(t *testing.T) {
	b := &broker{}
	released := 0
	res := guard.Resource[permit]{
		Acquire: func(context.Context) (permit, error) { return permit{b}, nil },
		Release: func(context.Context, permit, guard.Outcome) error { released++; return nil },
	}
	type body = func(context.Context, *guard.Lease[permit]) (int, error)
	bodies := []body{
		func(context.Context, *guard.Lease[permit]) (int, error) { return 1, nil },
		func(context.Context, *guard.Lease[permit]) (int, error) { return 0, errBody },
		func(context.Context, *guard.Lease[permit]) (int, error) { panic(errBody) },
		func(context.Context, *guard.Lease[permit]) (int, error) { runtime.Goexit(); return 0, nil },
	}
	for _, body := range bodies {
		apart(func() { guard.Use(t.Context(), res, body) })
		apart(func() { guard.Execute(t.Context(), res, body) })
	}
	l, err := guard.Open(t.Context(), res)
	wantNo(t, err)
	l, err = l.Transfer()
	wantNo(t, err)
	wantNo(t, l.Close(t.Context(), guard.Outcome{}))
	if b.closed != 0 || released != 2*len(bodies)+1 {
		t.Errorf("broker closed %d times, %d releases; want 0 and %d", b.closed, released, 2*len(bodies)+1)
	}
}

func TestWorkSucceeded(t *testing.T) {
	releases := &desk{release: func(context.Context, guard.Outcome) error { return errRelease }}
	use := func(body func() error) error {
		_, err := guard.Use(t.Context(), releases.resource(), func(context.Context, *lease) (string, error) { return "", body() })
		return err
	}
	inner := func(err error) func() error { return func() error { return use(func() error { return err }) } }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing failed":                         {nil, true},
		"the release":                            {use(func() error { return nil }), true},
		"both releases":                          {use(inner(nil)), true},
		"the inner work":                         {use(inner(errBody)), false},
		"the work":                               {use(func() error { return errBody }), false},
		"work that joins the error of a release": {use(func() error { return errors.Join(inner(nil)(), errBody) }), false},
		"an error of nobody's":                   {errBody, false},
	} {
		if got := guard.WorkSucceeded(c.err); got != c.want {
			t.Errorf("%s failed: the work succeeded %v, want %v", name, got, c.want)
		}
	}
}
