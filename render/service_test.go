package render_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
	"github.com/berth-dev/berth/render"
)

func TestAJobGoesThroughItsSteps(t *testing.T) {
	f := newFarm(t, 1)
	receipt, err := execute(t, t.Context(), f.service(render.SVG{Longest: 32}), f.job("j"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []render.StepKind
	for _, s := range f.steps {
		kinds = append(kinds, s.Kind)
	}
	if !slices.Equal(kinds, []render.StepKind{render.Queued, render.Started, render.Ended}) || f.steps[1].Slot != "gpu/gpu-0" || f.steps[2].Result.Receipt.Bytes != receipt.Bytes {
		t.Errorf("steps %+v", f.steps)
	}
	demandFiles(t, f.outputs, "j.png")
}

func TestSVGFailures(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		r      render.SVG
		says   string
	}{
		"broken":      {"<svg>\n<g>\n</svg>", render.SVG{}, "line 3"},
		"no svg":      {"a photograph", render.SVG{}, "size"},
		"large":       {square, render.SVG{MaxBytes: 10}, "10 bytes"},
		"many pixels": {square, render.SVG{Longest: 9000}, "8192"},
		"cut":         {square[:len(square)-4], render.SVG{}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 1)
			j := f.job("j")
			write(t, filepath.Join(f.sources, "j.svg"), c.source)
			_, err := execute(t, t.Context(), f.service(c.r), j)
			demandCode(t, err, lease.CodeSourceUnreadable, c.says, "j.svg")
			demandFiles(t, f.outputs)
			if p := policy.Of(err); p.Class != policy.Input || p.Retry != policy.Never {
				t.Errorf("policy %+v", p)
			}
		})
	}
}

func TestWhatIsLeftOutIsInTheReceipt(t *testing.T) {
	f := newFarm(t, 1)
	receipt, err := execute(t, t.Context(), f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		w.LeaveOut("text", "filter")
		return paints(ctx, w)
	})), f.job("j"))
	if err != nil || !slices.Equal(receipt.LeftOut, []string{"text", "filter"}) {
		t.Errorf("left out %q, error %v", receipt.LeftOut, err)
	}
}

func TestMissingSources(t *testing.T) {
	f := newFarm(t, 1)
	for _, key := range []string{"absent.svg", "/absent/too.svg", "."} {
		for _, r := range []render.Renderer{render.SVG{}, paints} {
			_, err := execute(t, t.Context(), f.service(r), render.Job{JobID: "j", SourceKey: key, OutputKey: "j.png"})
			demandCode(t, err, lease.CodeSourceMissing, "sourceKey")
		}
	}
	demandFiles(t, f.outputs)
}

func TestABadJobAsksForNoSlot(t *testing.T) {
	f := newFarm(t, 1)
	_, err := execute(t, t.Context(), f.service(paints), render.Job{JobID: "a b", SourceKey: "a", OutputKey: "b"})
	demandCode(t, err, lease.CodeJobInvalid, "jobId")
	if s, err := f.broker.Status(t.Context(), true); err != nil || s.Acquired != 0 {
		t.Errorf("acquired %d, error %v", s.Acquired, err)
	}
}

func TestBR054_EveryWayOutGivesTheSlotBack(t *testing.T) {
	for name, c := range map[string]struct {
		r    rendererFunc
		code lease.Code
	}{
		"an error without a code": {func(context.Context, render.Work) error { return errors.New("no paint") }, lease.CodeRendererFailed},
		"an error with a code":    {func(context.Context, render.Work) error { return lease.Errorf(lease.CodeSourceUnreadable, "no") }, lease.CodeSourceUnreadable},
		"a panic":                 {func(context.Context, render.Work) error { panic("no brush") }, lease.CodeRendererFailed},
		"an ended goroutine":      {func(context.Context, render.Work) error { runtime.Goexit(); return nil }, lease.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 1)
			s := f.service(c.r)
			results := s.Run(t.Context(), []render.Job{f.job("a"), f.job("b")}, 1, nil)
			for _, r := range results {
				demandCode(t, r.Err, c.code)
			}
			if last := f.steps[len(f.steps)-1]; last.Kind != render.Ended || last.Result.Err == nil {
				t.Errorf("the last step is %+v", last)
			}
			demandFiles(t, f.outputs)
		})
	}
}

func TestBR046_OnlyStartedWorkHoldsASlot(t *testing.T) {
	f := newFarm(t, 2)
	var jobs []render.Job
	for i := range 10 {
		jobs = append(jobs, f.job(fmt.Sprint("job-", i)))
	}
	gate := make(chan struct{})
	var inside, most atomic.Int32
	var started sync.WaitGroup
	started.Add(2)
	var once [2]sync.Once
	s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		once[w.Slots[0].ID[4]-'0'].Do(started.Done)
		select {
		case <-gate:
			return paints(ctx, w)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	var cancels []context.CancelFunc
	of := func(ctx context.Context, j render.Job) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		if j.JobID >= "job-5" {
			cancels = append(cancels, cancel)
			cancel()
		}
		t.Cleanup(cancel)
		return ctx
	}
	go func() {
		started.Wait()
		close(gate)
	}()
	var lock sync.Mutex
	results := s.Run(t.Context(), jobs, 10, func(ctx context.Context, j render.Job) context.Context {
		lock.Lock()
		defer lock.Unlock()
		return of(ctx, j)
	})
	for i, r := range results {
		if r.Job != jobs[i] {
			t.Fatalf("result %d is of job %s", i, r.Job.JobID)
		}
		if i < 5 && r.Err != nil {
			t.Errorf("job %d: %v", i, r.Err)
		}
		if i >= 5 {
			demandCode(t, r.Err, lease.CodeCancelled)
		}
	}
	if most.Load() != 2 || len(cancels) != 5 {
		t.Errorf("%d jobs ran at once, %d were cancelled", most.Load(), len(cancels))
	}
	demandFiles(t, f.outputs, "job-0.png", "job-1.png", "job-2.png", "job-3.png", "job-4.png")
}

func TestRunIsBounded(t *testing.T) {
	f := newFarm(t, 4)
	var inside, most atomic.Int32
	s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return paints(ctx, w)
	}))
	var jobs []render.Job
	for i := range 30 {
		jobs = append(jobs, f.job(fmt.Sprint(i)))
	}
	for _, r := range s.Run(t.Context(), jobs, 3, nil) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d jobs ran at once", most.Load())
	}
	if got := len(files(t, f.outputs)); got != 30 {
		t.Errorf("%d outputs", got)
	}
}

func TestBR083_CancelInEachPhase(t *testing.T) {
	f := newFarm(t, 1)
	why := errors.New("not needed any more")
	held, err := f.keeper.Acquire(t.Context(), lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []render.StepKind{render.Queued, render.Started} {
		if kind == render.Started {
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
			<-ctx.Done()
			return errors.New("the renderer says something else")
		}))
		s.Observe = func(step render.Step) {
			if step.Kind == kind {
				cancel(why)
			}
		}
		_, err := execute(t, ctx, s, f.job("j"))
		demandCode(t, err, lease.CodeCancelled, "not needed")
		if !errors.Is(err, why) {
			t.Errorf("%s: error %v does not wrap the cause", kind, err)
		}
		if p := policy.Of(err); p.Class != policy.Cancelled || p.Retry != policy.Never {
			t.Errorf("%s: policy %+v", kind, p)
		}
	}
	demandFiles(t, f.outputs)
}

// While all slots are taken the job waits in the broker.
func TestACancelledWaiterEndsAsCancelled(t *testing.T) {
	f := newFarm(t, 1)
	held, err := f.keeper.Acquire(t.Context(), lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.service(paints).Execute(ctx, f.job("j"))
		done <- err
	}()
	for queued := 0; queued == 0; {
		s, err := f.broker.Status(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		queued = s.Queued
	}
	cancel()
	err = <-done
	demandCode(t, err, lease.CodeCancelled)
	if p := policy.Of(err); p.Class != policy.Cancelled {
		t.Errorf("policy %+v", p)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBodyAndReleaseErrorsAreBothKept(t *testing.T) {
	for name, body := range map[string]error{"after a failure": errors.New("no paint"), "after an output": nil} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 1)
			s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
				f.stop() // no release gets through any more
				if body != nil {
					return body
				}
				return paints(ctx, w)
			}))
			receipt, err := execute(t, t.Context(), s, f.job("j"))
			var both *guard.Error
			if !errors.As(err, &both) || both.Release == nil {
				t.Fatalf("error %v has no release error", err)
			}
			if !errors.Is(err, body) && body != nil || (body == nil) != (both.Body == nil) {
				t.Errorf("the body's error in %v is %v, want %v", err, both.Body, body)
			}
			if placed := receipt.Bytes > 0; placed != (body == nil) {
				t.Errorf("receipt %+v", receipt)
			}
		})
	}
}

func TestWorkThatMayStillRunKeepsItsSlot(t *testing.T) {
	f := newFarm(t, 1)
	_, err := execute(t, t.Context(), f.service(rendererFunc(func(context.Context, render.Work) error {
		return hold.StillRunning(lease.Errorf(lease.CodeRendererFailed, "it hangs in the kernel"))
	})), f.job("j"))
	demandCode(t, err, lease.CodeRendererFailed, "hangs in the kernel")
	s, err := f.broker.Status(t.Context(), true)
	if err != nil || s.Free != 0 || s.Quarantined != 1 {
		t.Errorf("free %d, quarantined %d, error %v", s.Free, s.Quarantined, err)
	}
}

func TestOutputsThatCannotBeMadeSaySo(t *testing.T) {
	f := newFarm(t, 1)
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "in the way")
	s := f.service(paints)
	s.Outputs = file
	_, err := execute(t, t.Context(), s, f.job("j"))
	demandCode(t, err, lease.CodeOutputFailed, "file")
	if err := os.Mkdir(filepath.Join(f.outputs, "j.png"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = execute(t, t.Context(), f.service(paints), f.job("j"))
	demandCode(t, err, lease.CodeOutputFailed, "j.png")
	if left := files(t, f.outputs); len(left) != 0 {
		t.Errorf("left %s", strings.Join(left, ", "))
	}
}
