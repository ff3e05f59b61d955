package render

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/scope"
)

// A Service renders jobs, each under a lease of its own. Keeper, Lease and
// Renderer must be set; fields are not changed after the first call. It owns
// neither the Keeper nor any goroutine between calls. All methods may be
// called from any goroutine.
type Service struct {
	// Keeper holds the leases.
	Keeper *hold.Keeper
	// Lease is what each job asks for. Its id is ignored; its note is the
	// job's id.
	Lease lease.Request
	// Sources and Outputs are the directories that keys are relative to; empty
	// is the current one. Outputs is made if it is missing.
	Sources, Outputs string
	// Renderer returns the renderer of a job.
	Renderer func(Job) Renderer
	// Limit returns how long a job's renderer may run; nil or 0 is no limit,
	// and a time below 0 has passed already.
	Limit func(Job) time.Duration
	// SkipExisting leaves out a job whose output is there already, whole.
	SkipExisting bool
	// Observe hears of each step of each job, one at a time. It must not
	// block, panic or call the service.
	Observe func(Step)

	mu sync.Mutex // guards the field below
	// found is what directories of outputs held when they were first used.
	found map[string][]string

	telling sync.Mutex // one step at a time
}

// A Step is what happens to a job.
type Step struct {
	Kind StepKind
	Job  Job
	// Slot is where the job runs, as in [Receipt]; empty for Queued.
	Slot string
	// Result is set for Ended.
	Result Result
}

// A StepKind says what happened. Each job is Queued once and Ended once.
type StepKind string

// The kinds of steps.
const (
	Queued  StepKind = "queued"  // it asks for a slot
	Started StepKind = "started" // it has one and renders
	Ended   StepKind = "ended"   // its work has stopped and its slot is given back
)

// A Result is how a job ended: well where Err is nil. With a release that
// failed after the output was in place there are both, Receipt.Bytes and Err.
type Result struct {
	Job     Job
	Receipt Receipt
	Err     error
}

// Execute renders one job: it validates it, acquires a lease, renders, puts
// the output in place and gives the lease back. It blocks until all that is
// done. The error has a code of package lease: that of a cancellation, of the
// loss of the lease or of the time limit where one of these ended the
// renderer, whatever the renderer says; nothing is retried. Where the release
// failed too, both errors are in it ([github.com/berth-dev/berth/guard.Error]).
func (s *Service) Execute(ctx context.Context, j Job) (receipt Receipt, err error) {
	// What stands if the renderer ends its goroutine.
	err = lease.Errorf(lease.CodeInternal, "job %s: its renderer ended its goroutine", shortened(j.JobID))
	s.tell(Step{Kind: Queued, Job: j})
	defer func() {
		s.tell(Step{Kind: Ended, Job: j, Slot: receipt.Slot, Result: Result{j, receipt, err}})
	}()
	receipt, err = s.execute(ctx, j)
	return receipt, err
}

// Run renders the jobs, at most atOnce at a time, in their order, and returns
// their results in the same order. It blocks until each has ended; after the
// end of ctx the remaining jobs end as cancelled, without a slot. of gives a
// job a context of its own, below the one it is given; nil leaves it that. Two
// jobs must not have the same output. A renderer's panic cancels the other
// jobs, and goes on when all have ended.
func (s *Service) Run(ctx context.Context, jobs []Job, atOnce int, of func(context.Context, Job) context.Context) []Result {
	if of == nil {
		of = func(ctx context.Context, _ Job) context.Context { return ctx }
	}
	results := make([]Result, len(jobs))
	for i, j := range jobs {
		results[i] = Result{Job: j, Err: lease.Errorf(lease.CodeInternal, "job %s: its renderer ended its goroutine", shortened(j.JobID))}
	}
	cfg := scope.Config{Name: "render", Supervise: true, Limit: max(atOnce, 1)}
	// Each job's error is in its result; what the scope adds is a Goexit, which is there too.
	_ = scope.Run(ctx, cfg, func(ctx context.Context, all *scope.Scope) error {
		for i, j := range jobs {
			one := func(ctx context.Context) error {
				receipt, err := s.Execute(of(ctx, j), j)
				results[i] = Result{j, receipt, err}
				return nil
			}
			if err := all.Go(ctx, j.JobID, one); err != nil {
				_ = one(ctx) // ctx has ended, and so does the job
			}
		}
		return nil
	})
	return results
}

func (s *Service) tell(step Step) {
	if s.Observe == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.Observe(step)
}

func (s *Service) execute(ctx context.Context, j Job) (Receipt, error) {
	receipt := Receipt{JobID: j.JobID, OutputKey: j.OutputKey}
	if err := j.Check(); err != nil {
		return receipt, lease.Errorf(lease.CodeJobInvalid, "cannot render job %s: %v", shortened(j.JobID), err)
	}
	if ctx.Err() != nil {
		return receipt, stopped(ctx, j, nil)
	}
	root, err := s.open()
	if err != nil {
		return receipt, err
	}
	defer root.Close()
	if s.SkipExisting {
		if size, err := whole(root, filepath.FromSlash(j.output())); err == nil {
			receipt.Skipped, receipt.Bytes = true, size
			return receipt, nil
		}
	}
	request := s.Lease
	request.ID, request.Note = lease.NewRequestID(), j.JobID
	err = s.Keeper.With(ctx, request, func(ctx context.Context, l *hold.Lease) error {
		return s.hold(ctx, j, l, root, &receipt)
	})
	return receipt, coded(ctx, j, err)
}

func (s *Service) open() (*os.Root, error) {
	dir, err := filepath.Abs(s.Outputs)
	if err != nil {
		return nil, outputFailed(s.Outputs, err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, outputFailed(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, outputFailed(dir, err)
	}
	return root, nil
}

// hold renders while the lease is held.
func (s *Service) hold(ctx context.Context, j Job, l *hold.Lease, root *os.Root, receipt *Receipt) (err error) {
	began := time.Now()
	defer func() { receipt.Took = time.Since(began) }()
	w, err := s.work(j, l)
	if err != nil {
		return err
	}
	receipt.Slot, receipt.Lease, receipt.Fence = names(w.Slots), l.Ref(), w.Fence
	w.leftOut = &receipt.LeftOut
	s.tell(Step{Kind: Started, Job: j, Slot: receipt.Slot})
	if err := readable(w.Source); err != nil {
		return err
	}
	out := s.output(root, w, l, &receipt.Bytes)
	_, err = guard.Use(ctx, out, func(ctx context.Context, g *guard.Lease[*output]) (none struct{}, err error) {
		o, err := g.Value()
		if err != nil {
			return none, err
		}
		w.Output = o.path()
		return none, s.render(ctx, w)
	})
	return err
}

// output is the job's file: staged while the renderer writes it, in its place
// once that is done and the lease still trusted, and else removed.
func (s *Service) output(root *os.Root, w Work, l *hold.Lease, size *int64) guard.Resource[*output] {
	return guard.Resource[*output]{
		Name:    "the staged output",
		Acquire: func(context.Context) (*output, error) { return s.stage(root, w, l.Ref()) },
		Commit: func(_ context.Context, o *output) (err error) {
			*size, err = o.commit(func() error {
				_, err := l.Fence()
				return err
			})
			return err
		},
		Release: func(_ context.Context, o *output, how guard.Outcome) error {
			if how.Kind == guard.Completed {
				return nil // it is in its place
			}
			return o.discard()
		},
	}
}

func (s *Service) work(j Job, l *hold.Lease) (w Work, err error) {
	w = Work{Job: j, Source: filepath.FromSlash(j.SourceKey)}
	if !filepath.IsAbs(w.Source) {
		if w.Source, err = filepath.Abs(filepath.Join(s.Sources, w.Source)); err != nil {
			return w, missing(err)
		}
	}
	if w.Slots, err = l.Slots(); err != nil {
		return w, err
	}
	if w.Fence, err = l.Fence(); err != nil {
		return w, err
	}
	if after, bounded := l.Handover(); bounded {
		w.StopWithin = l.Margin() + after
	}
	return w, nil
}

// readable refuses a source that cannot be opened, and a directory.
func readable(source string) error {
	f, err := os.Open(source)
	if err != nil {
		return missing(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return missing(errors.Join(err, &fs.PathError{Op: "open", Path: source, Err: errors.New("it is a directory")}))
	}
	return nil
}

func (s *Service) stage(root *os.Root, w Work, ref lease.Ref) (*output, error) {
	out, err := stage(root, w.Job.output(), w.Fence, ref)
	if err != nil {
		return nil, err
	}
	return out, out.sweep(s.foundIn(root, filepath.Dir(out.key)), w.Fence)
}

// foundIn returns the staged files that were in a directory of outputs when
// this service first used it.
func (s *Service) foundIn(root *os.Root, dir string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list, ok := s.found[dir]; ok {
		return list
	}
	list := []string{}
	if entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir)); err == nil {
		for _, e := range entries {
			if strings.Contains(e.Name(), ".staged") {
				list = append(list, e.Name())
			}
		}
	}
	if s.found == nil {
		s.found = map[string][]string{}
	}
	s.found[dir] = list
	return list
}

// render calls the renderer, within the job's limit. Where the context ended,
// that is why it failed, whatever it says.
func (s *Service) render(ctx context.Context, w Work) error {
	if s.Limit != nil {
		if limit := s.Limit(w.Job); limit != 0 {
			late := lease.Errorf(lease.CodeRendererTimedOut, "its renderer ran longer than %v; give it more time or less to do", limit)
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, late)
			defer cancel()
		}
	}
	err := call(ctx, s.Renderer(w.Job), w)
	if err != nil && ctx.Err() != nil {
		return stopped(ctx, w.Job, err)
	}
	return err
}
