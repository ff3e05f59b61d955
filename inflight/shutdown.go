package inflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/guard"
)

const (
	// DefaultBudget is the Budget of a Stage that sets none.
	DefaultBudget = 10 * time.Second
	// DefaultGrace is the Grace of a Stage that sets none.
	DefaultGrace = time.Second
)

// Stage is one step of a Shutdown.
type Stage struct {
	// Name stands in errors.
	Name string

	// Stop ends what the stage stands for, within its context. A panic in it is an error of
	// the stage. Required.
	Stop func(ctx context.Context) error

	// Budget is how long the context of Stop lives. Zero means DefaultBudget.
	Budget time.Duration

	// Grace is how much longer a Stop that ignores its context is waited for. Zero means
	// DefaultGrace.
	Grace time.Duration
}

// ErrStuck says that the Stop of a stage had not returned after its Budget and Grace. It still
// runs.
var ErrStuck = errors.New("it has not stopped and goes on")

// ShutdownError is what a Shutdown returns in which a stage failed. It is the errors of all.
type ShutdownError struct{ Stages []*StageError } // in the order of the stages

// Error prints one line.
func (e *ShutdownError) Error() string {
	texts := make([]string, len(e.Stages))
	for i, s := range e.Stages {
		texts[i] = s.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors of the stages.
func (e *ShutdownError) Unwrap() []error {
	errs := make([]error, len(e.Stages))
	for i, s := range e.Stages {
		errs[i] = s
	}
	return errs
}

// StageError tells which stage failed. It unwraps to Err, which wraps ErrStuck when Stop had not
// returned in time, and is a *guard.PanicError when it panicked.
type StageError struct {
	Stage string
	Err   error
	// Done is closed when Stop has returned, or was never called. Whoever ends what a
	// stuck stage uses waits for it first. What such a Stop returns in the end is told to
	// nobody: it keeps that itself.
	Done <-chan struct{}
}

// Error names the stage.
func (e *StageError) Error() string { return fmt.Sprintf("stage %s: %v", e.Stage, e.Err) }

// Unwrap returns the stage's error.
func (e *StageError) Unwrap() error { return e.Err }

// Shutdown stops things in order: stop what brings new work in, drain the operations, destroy
// the values, end the loops they need. Each stage begins when the one before has ended or used
// up its budget, and all stages run, whatever became of the others. The error is nil or a
// *ShutdownError.
//
// The context of a stage has the values of ctx and its own time limit, as a release of package
// guard has: at a shutdown ctx has often ended already. So Shutdown takes at most the sum of
// all budgets and graces.
func Shutdown(ctx context.Context, stages ...Stage) error {
	var failed []*StageError
	for _, s := range stages {
		if err := s.stop(context.WithoutCancel(ctx)); err != nil {
			failed = append(failed, err)
		}
	}
	if failed == nil {
		return nil
	}
	return &ShutdownError{failed}
}

// stop is a release by package guard, of nothing else than the stage itself.
func (s Stage) stop(ctx context.Context) *StageError {
	returned := make(chan error, 1)
	l, err := s.open(ctx, returned)
	if err != nil {
		never := make(chan struct{})
		close(never)
		return &StageError{Stage: s.Name, Err: err, Done: never}
	}
	closed := l.Close(ctx, guard.Outcome{})
	select {
	case err = <-returned:
	default:
		err = s.unreturned(closed)
	}
	if err == nil {
		return nil
	}
	return &StageError{Stage: s.Name, Err: err, Done: l.Done()}
}

// unreturned is the error of a Stop that has not returned: it goes on, or panicked.
func (s Stage) unreturned(closed error) error {
	if errors.Is(closed, guard.ErrReleaseTimeout) {
		return fmt.Errorf("%w (after %v)", ErrStuck, s.budget()+s.grace())
	}
	if e, ok := errors.AsType[*guard.Error](closed); ok {
		return e.Release
	}
	return closed
}

func (s Stage) budget() time.Duration { return cmp.Or(s.Budget, DefaultBudget) }
func (s Stage) grace() time.Duration  { return cmp.Or(s.Grace, DefaultGrace) }

func (s Stage) open(ctx context.Context, returned chan<- error) (*guard.Lease[struct{}], error) {
	if s.Stop == nil {
		return nil, errors.New("inflight: Stop is nil")
	}
	if s.Budget < 0 || s.Grace < 0 {
		return nil, fmt.Errorf("inflight: Budget %v or Grace %v is negative: use zero for the default", s.Budget, s.Grace)
	}
	return guard.Open(ctx, guard.Resource[struct{}]{
		Name:    s.Name,
		Acquire: func(context.Context) (struct{}, error) { return struct{}{}, nil },
		Release: func(ctx context.Context, _ struct{}, _ guard.Outcome) error {
			err := s.Stop(ctx)
			returned <- err
			return err
		},
		Timeout: s.budget(),
		Grace:   s.grace(),
	})
}
