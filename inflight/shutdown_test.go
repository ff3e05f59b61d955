package inflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/inflight"
)

type traceKey struct{}

func TestF24_StageOverItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p probe
		let := make(chan struct{})
		stage := func(name string, stop func(context.Context) error) inflight.Stage {
			return inflight.Stage{Name: name, Budget: 3 * time.Second, Stop: func(ctx context.Context) error {
				p.note(name)
				if end, ok := ctx.Deadline(); !ok || time.Until(end) != 3*time.Second || ctx.Err() != nil || ctx.Value(traceKey{}) != "t1" {
					t.Errorf("stage %s began with %v left, %v", name, time.Until(end), ctx.Err())
				}
				return stop(ctx)
			}}
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "t1"))
		cancel() // as after a signal
		start := time.Now()
		err := inflight.Shutdown(ctx,
			stage("intake", func(context.Context) error { time.Sleep(time.Second); return errDisk }),
			stage("work", func(context.Context) error { <-let; return errCause }),
			stage("loops", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }),
			stage("log", func(context.Context) error { panic(errCause) }),
			stage("last", func(context.Context) error { return nil }),
		)
		if took, want := time.Since(start), time.Second+3*time.Second+inflight.DefaultGrace+3*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		p.wantBook(t, "intake", "work", "loops", "log", "last")
		wantIs(t, err, errDisk, inflight.ErrStuck, context.DeadlineExceeded, errCause)
		stages := parts(t, err)
		if len(stages) != 4 || stages[0].Stage != "intake" || stages[1].Stage != "work" || stages[2].Stage != "loops" || stages[3].Stage != "log" {
			t.Fatalf("errors %v, want those of four stages in order", err)
		}
		wantText(t, stages[1], "stage work: ", "after 4s")
		if !isOpen(stages[1].Done) || isOpen(stages[0].Done) {
			t.Error("Done does not tell that the stage goes on")
		}
		if pe, ok := errors.AsType[*guard.PanicError](stages[3]); !ok || len(pe.Stack) == 0 {
			t.Errorf("the panic became %v", stages[3].Err)
		}
		close(let)
		<-stages[1].Done
	})
}

func parts(t *testing.T, err error) []*inflight.StageError {
	t.Helper()
	e, ok := err.(*inflight.ShutdownError)
	if !ok {
		t.Fatalf("error %v is %T", err, err)
	}
	return e.Stages
}

func TestF24_NonsenseStagesDoNotStopTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran, ok := 0, func(context.Context) error { return nil }
		err := inflight.Shutdown(t.Context(),
			inflight.Stage{Name: "a"},
			inflight.Stage{Name: "b", Budget: -1, Stop: ok},
			inflight.Stage{Name: "c", Grace: -1, Stop: ok},
			inflight.Stage{Name: "d", Stop: func(ctx context.Context) error {
				ran++
				if end, _ := ctx.Deadline(); time.Until(end) != inflight.DefaultBudget {
					t.Errorf("budget %v, want the default", time.Until(end))
				}
				return nil
			}},
		)
		wantText(t, err, "stage a: inflight: Stop is nil", "stage b: inflight: Budget -1ns", "stage c: ", "Grace -1ns")
		if stages := parts(t, err); len(stages) != 3 || isOpen(stages[0].Done) || ran != 1 {
			t.Errorf("errors %v, ran %d", err, ran)
		}
		wantNo(t, inflight.Shutdown(t.Context()))
		wantNo(t, inflight.Shutdown(t.Context(), inflight.Stage{Name: "d", Stop: ok}))
	})
}

// TestF24_StopThatTellsOfAnotherLimit: it has returned, whatever its error is made of.
func TestF24_StopThatTellsOfAnotherLimit(t *testing.T) {
	err := inflight.Shutdown(t.Context(), inflight.Stage{Name: "a", Stop: func(context.Context) error { return guard.ErrReleaseTimeout }})
	if stages := parts(t, err); len(stages) != 1 || stages[0].Err != guard.ErrReleaseTimeout || errors.Is(err, inflight.ErrStuck) || isOpen(stages[0].Done) {
		t.Errorf("the error is %v", err)
	}
}

func TestF23_LoopStageBeforeItsValues(t *testing.T) {
	inBubble(t, func(t *testing.T, l *inflight.Loop) {
		destroyed := false
		a, err := inflight.Bind(l, "icon", 7, func(int) error { destroyed = true; return nil })
		wantNo(t, err)
		loop := inflight.Stage{Name: "loop", Stop: l.Shutdown}
		values := inflight.Stage{Name: "values", Stop: a.Destroy}

		err = inflight.Shutdown(t.Context(), loop, values) // the wrong order
		wantIs(t, err, inflight.ErrOwned)
		wantText(t, err, "stage loop: ", "destroy icon first")
		if len(parts(t, err)) != 1 || !destroyed {
			t.Errorf("destroyed %v, errors %v; want the loop's only", destroyed, err)
		}
		wantNo(t, inflight.Shutdown(t.Context(), values, loop))
	})
}
