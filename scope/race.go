package scope

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/guard"
)

// Race runs functions of which one result is wanted. The zero value takes the first success.
type Race[T any] struct {
	// Name is the racers' name in errors, with their number. Empty means "racer".
	Name string
	// Accept says whether a result wins; nil accepts each without an error. One that always
	// says yes makes it a race to be first to end.
	Accept func(v T, err error) bool
	// Discard gets the values that came without an error and did not win, each once, several
	// at the same time. Its context has the caller's values, not its cancellation, and ends after DiscardTimeout.
	Discard func(ctx context.Context, v T)
	// DiscardTimeout is 10 s if it is 0.
	DiscardTimeout time.Duration
	// Stagger is how long a start waits after the one before; a failure ends the wait. 0
	// starts all at once.
	Stagger time.Duration
	// Limit is how many run at the same time; 0 is no limit.
	Limit int
	// Leave gets the losers that have not ended when the race is decided: it waits for them,
	// and their errors are no failures of it. Its end cancels racers, and a closed one starts
	// none. nil lets Run wait.
	Leave *Scope
}

// First runs all functions and returns the first success, when all have ended. See Race.
func First[T any](ctx context.Context, fs ...func(ctx context.Context) (T, error)) (T, error) {
	return Race[T]{}.Run(ctx, fs...)
}

// Run runs the functions, in their order, until one wins, and returns its result. The others'
// contexts are cancelled with the cause ErrLost, and Run returns when all have ended. The
// winner's context is not cancelled: it ends when ctx does, so that what the winner returned
// may depend on it.
//
// Where none wins, the error has those of all, in their order; where ctx ends before, it is
// context.Cause(ctx). A single function is called on the caller's goroutine with ctx, and its
// result is returned whatever Accept would say. Without functions Run returns ErrEmpty. A
// panic cancels the others and goes on when they have ended.
func (r Race[T]) Run(ctx context.Context, fs ...func(ctx context.Context) (T, error)) (T, error) {
	var none T
	switch len(fs) {
	case 0:
		return none, ErrEmpty
	case 1:
		return fs[0](ctx)
	}
	m := &match[T]{Race: r, ctx: ctx, fs: fs, cancels: make([]context.CancelCauseFunc, len(fs)), results: make(chan arrival[T], len(fs))}
	if r.Leave != nil {
		return m.decide(ctx, r.Leave)
	}
	var v T
	err := Run(ctx, Config{Name: "race", Supervise: true}, func(ctx context.Context, s *Scope) (err error) {
		v, err = m.decide(ctx, s)
		return err
	})
	return v, err
}

// A match is a race that is run.
type match[T any] struct {
	Race[T]
	ctx     context.Context
	fs      []func(ctx context.Context) (T, error)
	cancels []context.CancelCauseFunc
	results chan arrival[T]

	mu      sync.Mutex // guards the fields below
	decided bool
}

type arrival[T any] struct {
	index int
	Result[T]
}

// decide starts racers in where until one has won, all have ended or ctx ended. When it
// returns, what came is discarded but for the winner's, and what comes later its racer discards.
func (m *match[T]) decide(ctx context.Context, where *Scope) (T, error) {
	errs := make([]error, len(m.fs))
	started, ended := 0, 0
	timer := time.NewTimer(m.Stagger)
	defer timer.Stop()
	for due := true; ended < len(m.fs); {
		if due && started < len(m.fs) && (m.Limit <= 0 || started-ended < m.Limit) {
			m.start(ctx, where, started)
			started++
			due = m.Stagger == 0
			timer.Reset(m.Stagger)
			continue
		}
		select {
		case f := <-m.results:
			ended++
			if m.wins(f) {
				return m.end(f)
			}
			due, errs[f.index] = true, m.loses(f)
		case <-timer.C:
			due = true
		case <-ctx.Done():
			return m.interrupted(ctx)
		}
	}
	failures := Failures{Errs: errs}
	var none T
	return none, failures.join()
}

// start starts a racer. Its context is the caller's and not the scope's, which it outlives if
// it wins; the scope's end is passed on to it while it runs.
func (m *match[T]) start(ctx context.Context, where *Scope, i int) {
	own, cancel := context.WithCancelCause(m.ctx)
	m.cancels[i] = cancel
	var v T
	err := where.start(ctx, job{
		name: m.label(i),
		run: func(ctx context.Context) (err error) {
			defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
			v, err = m.fs[i](own)
			return err
		},
		awaiter: &awaiter{
			settled: func(err error) { m.arrive(arrival[T]{i, Result[T]{v, err}}) },
			alone:   true,
		},
	})
	if err != nil {
		m.arrive(arrival[T]{i, Result[T]{Err: err}})
	}
}

// arrive hands a result in, or discards its value where the race is over.
func (m *match[T]) arrive(f arrival[T]) {
	m.mu.Lock()
	late := m.decided
	if !late {
		m.results <- f // has room for all
	}
	m.mu.Unlock()
	if late {
		m.discard(f)
	}
}

func (m *match[T]) label(i int) string { return fmt.Sprintf("%s %d", cmp.Or(m.Name, "racer"), i+1) }

func (m *match[T]) wins(f arrival[T]) bool {
	if m.Accept == nil {
		return f.Err == nil
	}
	return m.Accept(f.Value, f.Err)
}

func (m *match[T]) loses(f arrival[T]) error {
	m.discard(f)
	if f.Err == nil {
		return fmt.Errorf("the result of %s was not accepted", m.label(f.index))
	}
	return f.Err
}

// end decides the race for f.
func (m *match[T]) end(f arrival[T]) (T, error) {
	m.settle()
	for i, cancel := range m.cancels {
		if i != f.index && cancel != nil {
			cancel(ErrLost)
		}
	}
	m.discardRest()
	return f.Value, f.Err
}

// interrupted ends the race when ctx has ended, and with it the racers' contexts. A winner that
// is there already wins.
func (m *match[T]) interrupted(ctx context.Context) (T, error) {
	for {
		select {
		case f := <-m.results:
			if m.wins(f) {
				return m.end(f)
			}
			m.discard(f)
			continue
		default:
		}
		m.settle()
		m.discardRest()
		var none T
		return none, context.Cause(ctx)
	}
}

// settle decides the race: who arrives from now on is late.
func (m *match[T]) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = true
}

// discardRest discards what came before that and did not win.
func (m *match[T]) discardRest() {
	for len(m.results) > 0 {
		m.discard(<-m.results)
	}
}

func (m *match[T]) discard(f arrival[T]) {
	if f.Err == nil {
		discard(m.ctx, m.Discard, m.DiscardTimeout, f.Value)
	}
}

// discard gives a value that nobody wants to its disposer.
func discard[T any](ctx context.Context, dispose func(context.Context, T), limit time.Duration, v T) {
	if dispose == nil {
		return
	}
	if limit <= 0 {
		limit = guard.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	dispose(ctx, v)
}
