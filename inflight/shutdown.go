package inflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// StageError tells which stage failed. It unwraps to Err, which is guard.ErrReleaseTimeout when
// Stop had not returned after Budget and Grace, and a *guard.PanicError when it panicked.
type StageError struct {
	Stage string
	Err   error
	// Done is closed when Stop has returned, or was never called. Whoever ends what a
	// stuck stage uses waits for it first.
	Done <-chan struct{}
}

// Error names the stage.
func (e *StageError) Error() string { return fmt.Sprintf("stage %s: %v", e.Stage, e.Err) }

// Unwrap returns the stage's error.
func (e *StageError) Unwrap() error { return e.Err }

// Shutdown stops things in order: stop what brings new work in, drain the operations, destroy
// the values, end the loops they need. Each stage begins when the one before has ended or used
// up its budget, and all stages run, whatever became of the others. The errors are joined, each
// a *StageError.
//
// The context of a stage has the values of ctx and its own time limit, as a release of package
// guard has: at a shutdown ctx has often ended already. So Shutdown takes at most the sum of
// all budgets and graces.
func Shutdown(ctx context.Context, stages ...Stage) error {
	var errs []error
	for _, s := range stages {
		if err := s.stop(context.WithoutCancel(ctx)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stop is a release by package guard, of nothing else than the stage itself.
func (s Stage) stop(ctx context.Context) error {
	l, err := s.open(ctx)
	if err != nil {
		never := make(chan struct{})
		close(never)
		return &StageError{Stage: s.Name, Err: err, Done: never}
	}
	err = l.Close(ctx, guard.Outcome{})
	if e, ok := errors.AsType[*guard.Error](err); ok {
		return &StageError{Stage: s.Name, Err: e.Release, Done: l.Done()}
	}
	return err
}

func (s Stage) open(ctx context.Context) (*guard.Lease[struct{}], error) {
	if s.Stop == nil {
		return nil, errors.New("inflight: Stop is nil")
	}
	if s.Budget < 0 || s.Grace < 0 {
		return nil, fmt.Errorf("inflight: Budget %v or Grace %v is negative: use zero for the default", s.Budget, s.Grace)
	}
	return guard.Open(ctx, guard.Resource[struct{}]{
		Name:    s.Name,
		Acquire: func(context.Context) (struct{}, error) { return struct{}{}, nil },
		Release: func(ctx context.Context, _ struct{}, _ guard.Outcome) error { return s.Stop(ctx) },
		Timeout: cmp.Or(s.Budget, DefaultBudget),
		Grace:   cmp.Or(s.Grace, DefaultGrace),
	})
}
