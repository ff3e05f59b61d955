package scope

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/guard"
)

// Config says how a scope treats its children. The zero value cancels all when one fails.
type Config struct {
	// Name is the scope's name in errors.
	Name string
	// Supervise lets the others go on when a child fails.
	Supervise bool
	// Contain makes a child's panic an error like any other, a *guard.PanicError.
	Contain bool
	// Limit is how many children run at the same time; 0 is no limit. A child that starts
	// others in its own scope keeps its place meanwhile: with all places taken by such, each
	// waits until the context that it gave to Go ends.
	Limit int
	// Ages notes when each child starts, for [Child]. That makes a start a tenth dearer.
	Ages bool
	// Keep is how many errors are kept; of the others there is a count. 0 means 16.
	Keep int
	// OnFailure hears of every failure as it happens, on the goroutine of the child, so of
	// several at once. It must not wait for the scope.
	OnFailure func(child string, err error)
}

const defaultKeep = 16

// Scope owns the goroutines that were started in it. It begins with [Run] or [New]; it is
// ended by Run when its body and all children have ended, or by Close. Its methods may be
// called from any goroutine.
type Scope struct {
	cfg    Config
	parent context.Context
	ctx    childContext  // of all children
	places chan struct{} // one for each child that may run; nil without a limit
	plain  part          // of plain children
	cancel context.CancelCauseFunc

	mu      sync.Mutex // guards the fields of this block
	state   state
	newest  *child        // the children, linked, with some that have ended:
	listed  int32         // so many,
	full    int32         // and when there are this many, those are taken out
	stopped error         // why children are cancelled by the scope itself
	trouble *trouble      // nil while there is none
	own     *ownContext   // made when it is first asked for
	holds   *holding      // what Own acquired, the newest first
	idle    chan struct{} // closed when no child runs; made for whoever waits, as is ended
	ended   chan struct{} // closed when all is over

	block  bool // made by Run
	joins  bool // its caller waits for joined, which takes no memory, unlike ended
	joined sync.WaitGroup

	// running rises under mu only. The last child to end takes mu where the end is awaited,
	// which is set, under mu, before running is looked at. They lie apart from mu, which is
	// used on one core while children end on another.
	awaited atomic.Bool
	running atomic.Int64
}

type state int32

const (
	open      state = iota
	joining         // the body of Run has ended, or drained workers end: nothing runs next
	closing         // nothing new
	releasing       // no child runs
	over
)

type ownContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// trouble is what did not go well.
type trouble struct {
	failures Failures
	cut      bool // a child gave up because its context had ended
	panicked *ChildPanic
	result   error // of the scope that is over
}

func (s *Scope) troubleLocked() *trouble {
	if s.trouble == nil {
		s.trouble = new(trouble)
	}
	return s.trouble
}

// told returns a copy of what did not go well so far, and why the scope cancelled its children.
func (s *Scope) told() (t trouble, stopped error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble != nil {
		t = *s.trouble
	}
	return t, s.stopped
}

// Run runs body, on the caller's goroutine, and all that is started in its scope, and returns
// when the last has ended. ctx of the body is the children's. With an error of the body, or of
// a child, all others are cancelled; so they are when the body panics or calls runtime.Goexit,
// which goes on after the join.
//
// It returns the first error, or a *Failures with all where there are several. A child that
// returns the error or the cause of its cancelled context has not failed, and a body that does
// so adds nothing to the failure that cancelled it. Where it was ctx that ended, and a child or
// the body gave up for that, Run returns context.Cause(ctx). Where the body itself called
// Cancel, Run returns what the body returns. After Run its context is done with the cause
// [ErrClosed].
func Run(ctx context.Context, cfg Config, body func(ctx context.Context, s *Scope) error) error {
	s := start(ctx, cfg, true)
	err := s.runBody(body)
	if s.trouble != nil {
		return s.blockResult(err)
	}
	return err
}

// runBody runs the body and joins the children on every way out that does not return.
func (s *Scope) runBody(body func(ctx context.Context, s *Scope) error) error {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause := error(guard.ErrExited)
		if p := recover(); p != nil {
			defer panic(p) // goes on after the join, with its frames still on the stack
			cause = &guard.PanicError{Value: p, Stack: debug.Stack()}
		}
		s.stop(cause)
		s.joinBlock()
	}()
	err := body(&s.ctx, s)
	returned = true
	if err != nil {
		s.fail("", err)
		s.stop(err)
	}
	s.joinBlock()
	return err
}

// blockResult is what Run returns where there was trouble: never nil where work was cut short
// from outside.
func (s *Scope) blockResult(body error) error {
	t := s.trouble
	switch {
	case t.panicked != nil:
		panic(t.panicked)
	case t.result != nil:
		return t.result
	case t.cut && context.Cause(s.parent) != nil:
		return context.Cause(s.parent)
	}
	return body
}

// New makes a scope for a component. Whoever has it must call Close, also when ctx has ended,
// which cancels the children but does not wait for them.
func New(ctx context.Context, cfg Config) *Scope { return start(ctx, cfg, false) }

func start(ctx context.Context, cfg Config, block bool) *Scope {
	s := &Scope{cfg: cfg, block: block, parent: ctx, full: keepEnded}
	if s.cfg.Keep == 0 {
		s.cfg.Keep = defaultKeep
	}
	s.ctx.scope, s.plain.scope = s, s
	s.ctx.Context, s.cancel = context.WithCancelCause(ctx)
	if cfg.Limit > 0 {
		s.places = make(chan struct{}, cfg.Limit)
	}
	return s
}

// Context returns the scope's own context. It ends when the scope is closed, after that of the
// children; that of a Run ends when Run returns. A failure ends only the children's.
func (s *Scope) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own = new(ownContext)
		s.own.Context, s.own.cancel = context.WithCancelCause(s.parent)
		if s.state >= closing {
			s.own.cancel(cmp.Or(s.stopped, ErrClosed))
		}
	}
	return s.own.Context
}

// Child is a child that runs.
type Child struct {
	Name string
	Age  time.Duration // since its start, where Config.Ages is set; else 0
}

// Running returns the children that run now, the newest first.
func (s *Scope) Running() []Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runningLocked()
}

func (s *Scope) runningLocked() []Child {
	var all []Child
	for c := s.newest; c != nil; c = c.older {
		if c.over.Load() {
			continue
		}
		if d, ok := c.describe(); ok {
			all = append(all, d)
		}
	}
	return all
}

// describe says what the child does; a worker may have nothing to do.
func (c *child) describe() (Child, bool) {
	if c.part.desk != nil {
		name, busy := c.part.desk.doing()
		return Child{Name: name}, busy
	}
	d := Child{Name: c.name}
	if c.part.since != 0 {
		d.Age = now() - c.part.since
	}
	return d, true
}

// A childContext is the context of all children of a scope. It knows the scope, so that a wait
// for the scope from inside it is found out.
type childContext struct {
	context.Context
	scope *Scope
}

type insideKey struct{ scope *Scope }

// Value implements context.Context.
func (c *childContext) Value(key any) any {
	if k, ok := key.(insideKey); ok && k.scope == c.scope {
		return c.scope
	}
	return c.Context.Value(key)
}

func (s *Scope) inside(ctx context.Context) bool { return ctx.Value(insideKey{s}) != nil }
