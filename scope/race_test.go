package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/scope"
)

type racer = func(ctx context.Context) (string, error)

// after is a racer that returns v or err after d, or what its context says before that.
func after(d time.Duration, v string, err error) racer {
	return func(ctx context.Context) (string, error) {
		select {
		case <-time.After(d):
			return v, err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// deaf is a racer that ignores its context.
func deaf(d time.Duration, v string, err error) racer {
	return func(context.Context) (string, error) {
		time.Sleep(d)
		return v, err
	}
}

// bin keeps what was discarded.
type bin struct {
	mu     sync.Mutex
	values []string
	bad    error // of a context that was no good
}

func (b *bin) discard(ctx context.Context, v string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values = append(b.values, v)
	if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
		b.bad = fmt.Errorf("discarded with a context that has ended (%v) or has no limit", ctx.Err())
	}
}

func (b *bin) want(t *testing.T, values ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if fmt.Sprint(b.values) != fmt.Sprint(values) {
		t.Errorf("discarded: %v, want %v", b.values, values)
	}
	wantNo(t, b.bad)
}

func TestS21_FirstSuccessAfterAFailure(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		v, err := scope.First(t.Context(),
			after(time.Second, "", errFirst), after(2*time.Second, "second", nil), after(time.Hour, "third", nil))
		wantNo(t, err)
		if took := time.Since(start); v != "second" || took != 2*time.Second {
			t.Errorf("got %q after %v", v, took)
		}
	})
}

func TestS21_AllFail(t *testing.T) {
	in(t, func(t *testing.T) {
		_, err := scope.First(t.Context(), after(2*time.Second, "", errFirst), after(time.Second, "", errSecond))
		all, ok := errors.AsType[*scope.Failures](err)
		if !ok || len(all.Errs) != 2 || all.Errs[0] != errFirst || all.Errs[1] != errSecond {
			t.Errorf("error is %v, want both in the order of the functions", err)
		}
	})
}

func TestS22_EmptyAndSingleRace(t *testing.T) {
	in(t, func(t *testing.T) {
		_, err := scope.First[string](t.Context())
		wantIs(t, err, scope.ErrEmpty)

		var same bool
		v, err := scope.Race[string]{Accept: func(string, error) bool { return false }}.Run(t.Context(),
			func(ctx context.Context) (string, error) {
				same = ctx == t.Context()
				return "beside", errFirst
			})
		if v != "beside" || err != errFirst || !same {
			t.Errorf("got %q, %v, on the caller's context: %v", v, err, same)
		}
	})
}

func TestS23_WinnersContextStaysAlive(t *testing.T) {
	in(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var winners, losers context.Context
		v, err := scope.First(ctx,
			func(ctx context.Context) (string, error) {
				winners = ctx
				return "winner", nil
			},
			func(ctx context.Context) (string, error) {
				losers = ctx
				return after(time.Hour, "", nil)(ctx)
			})
		wantNo(t, err)
		synctest.Wait()
		if v != "winner" || winners.Err() != nil {
			t.Errorf("won %q, with its context at %v", v, winners.Err())
		}
		if got := context.Cause(losers); got != scope.ErrLost {
			t.Errorf("the loser's cause is %v", got)
		}
		cancel(errCause)
		if got := context.Cause(winners); got != errCause {
			t.Errorf("the caller ended and the winner's cause is %v", got)
		}
	})
}

func TestS24_LateValueIsDiscarded(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		start := time.Now()
		v, err := scope.Race[string]{Discard: b.discard}.Run(t.Context(),
			after(time.Second, "winner", nil), deaf(3*time.Second, "late", nil), deaf(2*time.Second, "none", errFirst))
		wantNo(t, err)
		if took := time.Since(start); v != "winner" || took != 3*time.Second {
			t.Errorf("got %q after %v, want it after the losers' end at 3s", v, took)
		}
		b.want(t, "late")
	})
}

func TestS24_LosersLeftToAScope(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		rest := scope.New(t.Context(), scope.Config{})
		start := time.Now()
		v, err := scope.Race[string]{Discard: b.discard, Leave: rest}.Run(t.Context(),
			after(time.Second, "winner", nil), deaf(3*time.Second, "late", nil))
		wantNo(t, err)
		if took := time.Since(start); v != "winner" || took != time.Second {
			t.Errorf("got %q after %v, want it at once", v, took)
		}
		b.want(t)
		wantNo(t, rest.Close(t.Context(), nil))
		b.want(t, "late")
	})
}

func TestEndOfTheScopeCancelsItsRacers(t *testing.T) {
	in(t, func(t *testing.T) {
		rest := scope.New(t.Context(), scope.Config{})
		time.AfterFunc(time.Second, func() { rest.Cancel(errCause) })
		_, err := scope.Race[string]{Leave: rest}.Run(t.Context(), after(time.Hour, "", nil), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		wantIs(t, err, context.Canceled, errCause)
		_, err = scope.Race[string]{Leave: rest}.Run(t.Context(), after(0, "a", nil), after(0, "b", nil))
		wantIs(t, err, scope.ErrClosed, errCause)
		wantNo(t, rest.Close(t.Context(), nil))
	})
}

func TestS25_CallerEndsDuringTheRace(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errCause) })
		start := time.Now()
		v, err := scope.Race[string]{Discard: b.discard}.Run(ctx,
			after(time.Hour, "", nil), deaf(2*time.Second, "late", nil), deaf(0, "", errFirst))
		if took := time.Since(start); v != "" || err != errCause || took != 2*time.Second {
			t.Errorf("got %q, %v after %v", v, err, took)
		}
		b.want(t, "late")
	})
}

func TestWinnerThatIsThereBeatsTheCallersEnd(t *testing.T) {
	for range 50 { // which of two ready cases a select takes is a matter of chance
		in(t, func(t *testing.T) {
			var b bin
			ctx, cancel := context.WithCancelCause(t.Context())
			v, err := scope.Race[string]{Discard: b.discard, Accept: func(v string, _ error) bool { return v != "no" }}.Run(ctx,
				after(0, "no", nil),
				func(context.Context) (string, error) {
					time.Sleep(time.Second)
					cancel(errCause)
					return "won", nil
				})
			// The loop hears of the end at once with the value, or just before it.
			switch {
			case err == nil && v == "won":
				b.want(t, "no")
			case err == errCause && v == "":
				b.want(t, "no", "won")
			default:
				t.Errorf("got %q, %v", v, err)
			}
		})
	}
}

func TestWinnerBehindALoserBeatsTheCallersEnd(t *testing.T) {
	for range 50 { // which of two ready cases a select takes is a matter of chance
		in(t, func(t *testing.T) {
			var b bin
			ctx, cancel := context.WithCancelCause(t.Context())
			slow := func(v string, _ error) bool {
				if v == "first" {
					time.Sleep(5 * time.Second) // meanwhile all else happens
				}
				return v == "won"
			}
			time.AfterFunc(4*time.Second, func() { cancel(errCause) })
			v, err := scope.Race[string]{Accept: slow, Discard: b.discard}.Run(ctx,
				deaf(time.Second, "first", nil), deaf(2*time.Second, "second", nil), deaf(3*time.Second, "won", nil))
			if v != "won" || err != nil {
				t.Errorf("got %q, %v", v, err)
			}
			b.want(t, "first", "second")
		})
	}
}

func TestS26_TwoEndTogether(t *testing.T) {
	for range 50 {
		in(t, func(t *testing.T) {
			var b bin
			v, err := scope.Race[string]{Discard: b.discard}.Run(t.Context(), deaf(time.Second, "a", nil), deaf(time.Second, "b", nil))
			wantNo(t, err)
			b.want(t, map[string]string{"a": "b", "b": "a"}[v])
		})
	}
}

func TestFirstToEnd(t *testing.T) {
	in(t, func(t *testing.T) {
		always := func(string, error) bool { return true }
		v, err := scope.Race[string]{Accept: always}.Run(t.Context(), after(time.Second, "", errFirst), after(2*time.Second, "late", nil))
		if v != "" || err != errFirst {
			t.Errorf("got %q, %v", v, err)
		}
	})
}

func TestNothingAccepted(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		_, err := scope.Race[string]{Discard: b.discard, Accept: func(string, error) bool { return false }}.Run(t.Context(),
			after(time.Second, "a", nil), after(2*time.Second, "b", nil))
		if err == nil || err.Error() != "the result of racer 1 was not accepted; the result of racer 2 was not accepted" {
			t.Errorf("error is %v", err)
		}
		b.want(t, "a", "b")
	})
}

// startsOf returns what has a racer note when it starts.
func (b *book) startsOf(start time.Time) func(string, racer) racer {
	return func(name string, r racer) racer {
		return func(ctx context.Context) (string, error) {
			b.note("%s at %v", name, time.Since(start))
			return r(ctx)
		}
	}
}

func TestS27_StaggeredStarts(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		start := time.Now()
		at := b.startsOf(start)
		v, err := scope.Race[string]{Stagger: 10 * time.Second}.Run(t.Context(),
			at("a", after(4*time.Second, "", errFirst)), // fails early: b starts at once, and the wait anew
			at("b", after(time.Hour, "", nil)),
			at("c", after(20*time.Second, "c", nil)),
			at("d", after(time.Hour, "", nil)))
		wantNo(t, err)
		if v != "c" {
			t.Errorf("won %q", v)
		}
		b.want(t, "a at 0s", "b at 4s", "c at 14s", "d at 24s")
	})
}

func TestS27_AtMostLimitAtATime(t *testing.T) {
	in(t, func(t *testing.T) {
		var b book
		start := time.Now()
		at := b.startsOf(start)
		_, err := scope.Race[string]{Limit: 2, Stagger: time.Second}.Run(t.Context(),
			at("a", after(time.Minute, "", errFirst)), at("b", after(3*time.Second, "", errSecond)), at("c", after(2*time.Minute, "c", nil)))
		wantNo(t, err)
		b.want(t, "a at 0s", "b at 1s", "c at 4s")
	})
}

func TestRacerPanics(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		start := time.Now()
		_, p, _ := apart(func() {
			_, _ = scope.Race[string]{Discard: b.discard}.Run(t.Context(),
				func(context.Context) (string, error) { panic(errFirst) }, after(time.Hour, "", nil), deaf(time.Second, "late", nil))
		})
		got, ok := p.(*scope.ChildPanic)
		if took := time.Since(start); !ok || got.Value != errFirst || got.Child != "racer 1" || took != time.Second {
			t.Errorf("panicked with %v after %v", p, took)
		}
		b.want(t, "late")
	})
}

func TestRacerExits(t *testing.T) {
	in(t, func(t *testing.T) {
		gone := func(context.Context) (string, error) {
			runtime.Goexit()
			return "", nil
		}
		v, err := scope.First(t.Context(), gone, after(time.Second, "second", nil))
		wantNo(t, err)
		if v != "second" {
			t.Errorf("won %q", v)
		}
		_, err = scope.First(t.Context(), gone, gone)
		wantIs(t, err, guard.ErrExited)
	})
}

func TestDiscardTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		in(t, func(t *testing.T) {
			start := time.Now()
			_, err := scope.Race[string]{DiscardTimeout: timeout, Discard: func(ctx context.Context, _ string) { <-ctx.Done() }}.Run(t.Context(),
				after(0, "winner", nil), deaf(time.Second, "late", nil))
			wantNo(t, err)
			if took := time.Since(start); took != time.Second+want {
				t.Errorf("took %v, want %v more than 1s", took, want)
			}
		})
	}
}

func TestAllInTheOrderOfTheFunctions(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		all, err := scope.All(t.Context(), after(2*time.Second, "a", nil), after(time.Second, "b", nil))
		wantNo(t, err)
		if took := time.Since(start); fmt.Sprint(all) != "[a b]" || took != 2*time.Second {
			t.Errorf("got %v after %v", all, took)
		}
		all, err = scope.All[string](t.Context())
		if err != nil || len(all) != 0 {
			t.Errorf("without functions: %v, %v", all, err)
		}
	})
}

func TestAllFailsFastAndDiscards(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		start := time.Now()
		all, err := scope.Gather[string]{Discard: b.discard}.Run(t.Context(),
			after(time.Second, "early", nil), after(2*time.Second, "", errFirst), after(time.Hour, "", nil), deaf(3*time.Second, "late", nil))
		if took := time.Since(start); all != nil || err != errFirst || took != 3*time.Second {
			t.Errorf("got %v, %v after %v", all, err, took)
		}
		b.want(t, "early", "late")
	})
}

func TestAllDiscardsWhenOnePanics(t *testing.T) {
	in(t, func(t *testing.T) {
		var b bin
		_, p, _ := apart(func() {
			_, _ = scope.Gather[string]{Discard: b.discard}.Run(t.Context(), after(0, "early", nil), func(context.Context) (string, error) {
				time.Sleep(time.Second)
				panic(errFirst)
			})
		})
		if got, ok := p.(*scope.ChildPanic); !ok || got.Value != errFirst || got.Child != "2" {
			t.Errorf("panicked with %v", p)
		}
		b.want(t, "early")
	})
}

func TestGatherLimit(t *testing.T) {
	in(t, func(t *testing.T) {
		start := time.Now()
		all, err := scope.Gather[string]{Limit: 2}.Run(t.Context(), deaf(time.Second, "a", nil), deaf(time.Second, "b", nil), deaf(time.Second, "c", nil))
		wantNo(t, err)
		if took := time.Since(start); fmt.Sprint(all) != "[a b c]" || took != 2*time.Second {
			t.Errorf("got %v after %v", all, took)
		}
		_, err = scope.Gather[string]{Limit: 1}.Run(t.Context(), deaf(time.Second, "", errFirst), deaf(time.Second, "b", nil), deaf(time.Second, "c", nil))
		wantIs(t, err, errFirst)
	})
}
