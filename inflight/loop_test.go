package inflight_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/inflight"
)

// inBubble gives f a loop in a bubble, which must have ended when f returns.
func inBubble(t *testing.T, f func(t *testing.T, l *inflight.Loop)) {
	synctest.Test(t, func(t *testing.T) { f(t, inflight.NewLoop(inflight.LoopConfig{Name: "window"})) })
}

func TestLoopRunsPostsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		var got []int
		for i := range 5 {
			wantNo(t, l.Post(func() {
				got = append(got, i)
				if i == 0 {
					wantNo(t, l.Post(func() { got = append(got, 5) }))
				}
			}))
		}
		synctest.Wait()
		wantNo(t, l.Shutdown(t.Context()))
		if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
		wantIs(t, l.Post(func() { t.Error("ran after the end") }), inflight.ErrClosed)
		wantText(t, l.Post(nil), "post to window: the function is nil")
		wantNo(t, l.Shutdown(t.Context()))
	})
}

func TestLoopShutdownRunsWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		ran := 0
		for range 3 {
			wantNo(t, l.Post(func() { time.Sleep(time.Second); ran++ }))
		}
		synctest.Wait()
		err := l.Shutdown(ended())
		wantIs(t, err, inflight.ErrPending, errCause)
		wantText(t, err, "shut window down: a function of it runs and 2 wait")
		wantIs(t, l.Post(func() {}), inflight.ErrClosed)
		wantNo(t, l.Shutdown(t.Context()))
		if ran != 3 {
			t.Errorf("ran %d of 3", ran)
		}
	})
}

func TestLoopShutdownFromInside(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		wantNo(t, l.Post(func() { wantIs(t, l.Shutdown(context.Background()), inflight.ErrInside) }))
		wantNo(t, l.Post(func() {})) // it has closed nothing
		synctest.Wait()
		wantNo(t, l.Shutdown(t.Context()))
	})
}

func TestLoopGoesOnAfterGoexit(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		a, err := inflight.Bind(l, "icon", 7, func(int) error { runtime.Goexit(); return nil })
		wantNo(t, err)
		for range 3 {
			wantText(t, a.Do(t.Context(), func(int) error { runtime.Goexit(); return nil }), "called runtime.Goexit")
		}
		wantNo(t, a.Do(t.Context(), func(int) error { return nil }))
		wantText(t, a.Destroy(t.Context()), "destroy icon: the function panicked or called runtime.Goexit")
		wantNo(t, l.Shutdown(t.Context()))
	})
}

func TestF21_DestroyRunsOnTheLoopAndIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		var p probe
		inside := func(name string) {
			if !errors.Is(l.Shutdown(context.Background()), inflight.ErrInside) {
				t.Errorf("%s ran off the loop", name)
			}
			time.Sleep(time.Second)
			p.note(name)
		}
		a, err := inflight.Bind(l, "icon", 7, func(v int) error {
			inside("destroy")
			if v != 7 {
				t.Errorf("destroyed %d, want 7", v)
			}
			return errDisk
		})
		wantNo(t, err)
		wantIs(t, a.Do(t.Context(), func(v int) error { inside("use"); return errCause }), errCause)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				wantIs(t, a.Destroy(t.Context()), errDisk)
				p.note("returned")
			})
		}
		all.Wait()
		p.wantBook(t, "use", "destroy", "returned", "returned", "returned")
		wantIs(t, a.Do(t.Context(), func(int) error { t.Error("used after its end"); return nil }), inflight.ErrReleased)
		wantNo(t, l.Shutdown(t.Context()))
		wantIs(t, a.Destroy(t.Context()), errDisk) // the same after the loop's end
		wantIs(t, a.Do(t.Context(), nil), inflight.ErrReleased)
	})
}

func TestF21_DestroyFromTheLoopItself(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		var p probe
		a, err := inflight.Bind(l, "icon", 7, func(int) error { p.note("destroy"); return nil })
		wantNo(t, err)
		wantNo(t, l.Post(func() {
			wantNo(t, a.Do(context.Background(), func(int) error { p.note("use"); return nil }))
			wantNo(t, a.Destroy(context.Background()))
			p.note("returned")
		}))
		synctest.Wait()
		p.wantBook(t, "use", "destroy", "returned")
		wantNo(t, l.Shutdown(t.Context()))
	})
}

// TestF21_DestroyInsideADo would take the value from under the function that uses it.
func TestF21_DestroyInsideADo(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		var p probe
		a, err := inflight.Bind(l, "icon", 7, func(int) error { p.note("destroy"); return nil })
		wantNo(t, err)
		wantIs(t, a.Do(t.Context(), func(int) error {
			wantNo(t, a.Do(t.Context(), func(int) error { return nil }))
			err := a.Destroy(t.Context())
			p.note("still in use")
			return err
		}), inflight.ErrInside)
		wantNo(t, l.Post(func() { // a Do that did not return uses it no more
			func() {
				defer func() { recover() }()
				a.Do(context.Background(), func(int) error { panic(errDisk) })
			}()
			wantNo(t, a.Destroy(context.Background()))
		}))
		synctest.Wait()
		p.wantBook(t, "still in use", "destroy")
		wantNo(t, l.Shutdown(t.Context()))
	})
}

func TestF21_WaitsThatGiveUp(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		var p probe
		a, err := inflight.Bind(l, "icon", 7, func(int) error { p.note("destroy"); return nil })
		wantNo(t, err)
		wantNo(t, l.Post(func() { time.Sleep(time.Second) }))
		err = a.Do(ended(), func(int) error { t.Error("a withdrawn function ran"); return nil })
		wantIs(t, err, inflight.ErrPending, errCause)

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		wantNo(t, a.Do(ctx, func(int) error { time.Sleep(time.Second); p.note("used"); return nil })) // it had begun

		wantNo(t, l.Post(func() { time.Sleep(time.Second) }))
		wantIs(t, a.Destroy(ended()), inflight.ErrPending, errCause)
		wantIs(t, l.Shutdown(t.Context()), inflight.ErrOwned) // posted is not done
		p.wantBook(t, "used")
		wantNo(t, a.Destroy(t.Context()))
		wantNo(t, a.Destroy(ended()))
		p.wantBook(t, "used", "destroy")
		wantNo(t, l.Shutdown(t.Context()))
	})
}

func TestF22_ShutdownIsRefusedWhileValuesAreBound(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		nothing := func(int) error { return nil }
		icon, err := inflight.Bind(l, "icon", 1, nothing)
		wantNo(t, err)
		font, err := inflight.Bind(l, "font", 2, nothing)
		wantNo(t, err)

		err = l.Shutdown(t.Context())
		wantIs(t, err, inflight.ErrOwned)
		wantText(t, err, "shut window down: values are bound to it: destroy font, icon first")
		wantNo(t, font.Do(t.Context(), nothing)) // nothing has changed
		wantNo(t, font.Destroy(t.Context()))
		wantText(t, l.Shutdown(t.Context()), "destroy icon first")
		wantNo(t, icon.Destroy(t.Context()))
		wantNo(t, l.Shutdown(t.Context()))

		_, err = inflight.Bind(l, "late", 3, nothing)
		wantIs(t, err, inflight.ErrClosed)
		_, err = inflight.Bind[int](l, "late", 3, nil)
		wantText(t, err, "bind late: the destroy function is nil")
	})
}

// lane is an executor of somebody else's, which may refuse.
type lane struct {
	loop *inflight.Loop
	err  error
}

func (l *lane) Post(f func()) error {
	if l.err != nil {
		return l.err
	}
	return l.loop.Post(f)
}

// TestF22_RefusedDestroyCanBeTriedAgain: never on another goroutine instead.
func TestF22_RefusedDestroyCanBeTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		on, destroyed := &lane{l, errDisk}, 0
		a, err := inflight.Bind(on, "icon", 7, func(int) error { destroyed++; return nil })
		wantNo(t, err)
		err = a.Destroy(t.Context())
		wantIs(t, err, errDisk)
		wantText(t, err, "destroy icon")
		wantIs(t, a.Do(t.Context(), func(int) error { return nil }), errDisk)
		if destroyed != 0 {
			t.Error("destroyed elsewhere")
		}
		on.err = nil
		wantNo(t, a.Destroy(t.Context()))
		on.err = errDisk
		wantNo(t, a.Destroy(t.Context()))
		if destroyed != 1 {
			t.Errorf("destroyed %d times", destroyed)
		}
		wantNo(t, l.Shutdown(t.Context()))
	})
}

// TestF21_ManyAtOnce needs real threads: destroys from everywhere race with the end of the loop.
func TestF21_ManyAtOnce(t *testing.T) {
	for range 100 {
		l, destroyed := inflight.NewLoop(inflight.LoopConfig{Pinned: true}), 0
		a, err := inflight.Bind(l, "icon", 7, func(int) error { destroyed++; return nil })
		wantNo(t, err)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				wantNo(t, a.Destroy(t.Context()))
				wantNo(t, l.Shutdown(t.Context()))
			})
		}
		all.Go(func() {
			if err := l.Shutdown(t.Context()); err != nil {
				wantIs(t, err, inflight.ErrOwned)
			}
		})
		all.Wait()
		if destroyed != 1 {
			t.Fatalf("destroyed %d times", destroyed)
		}
	}
}
