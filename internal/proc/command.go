package proc

import (
	"context"
	"io"
	"time"
)

// Defaults of a [Command].
const (
	DefaultGrace = 5 * time.Second
	DefaultTail  = 4 << 10
)

// killLimit bounds the wait for a killed group. Only processes that hang
// inside the kernel need longer than an instant.
const killLimit = 10 * time.Second

// A Command says what to run. Only Path must be set. A Command is a plain
// value: it may be copied and run any number of times, also at once.
type Command struct {
	// Path is the program; a name without a slash is looked up in PATH.
	Path string
	Args []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Env is added to the caller's environment; a later entry wins.
	Env []string
	// Stdout and Stderr get the command's output as it comes, never two
	// writes at once. Nil discards. A Write that blocks holds up the command
	// and Run. The command's stdin is empty.
	Stdout, Stderr io.Writer
	// Grace is the time between SIGTERM and SIGKILL; 0 means 5 s.
	Grace time.Duration
	// Linger is how long processes of the group may go on after the command
	// itself has exited before they are ended; 0 means not at all.
	Linger time.Duration
	// Tail is how many bytes from the end of stderr an error keeps; 0 means
	// 4096.
	Tail int
}

// Run runs the command and blocks until every process of its group is gone.
// The error is an [*Error], or nil where the command exited with 0.
//
// When ctx ends, the group gets SIGTERM (and SIGCONT, so that a stopped
// process can act on it), and what is left after Grace gets SIGKILL. When the
// command exits and leaves processes behind, these get the same after Linger;
// the command's own status stands, and [Status.Leftovers] counts them. Output
// that the group wrote is passed on to the last byte; an open pipe in a process
// that left the group does not hold up Run.
//
// On Linux the command is also killed when the calling process dies. Elsewhere
// it is not. On Windows there is neither a group nor SIGTERM: only the command
// itself is killed, at once, and a process that it left behind with an open
// pipe holds up Run.
func (c Command) Run(ctx context.Context) (Status, error) {
	if ctx.Err() != nil {
		return Status{}, c.failure(Cancelled, context.Cause(ctx))
	}
	out, err := c.connect()
	if err != nil {
		return Status{}, c.failure(NotStarted, err)
	}
	p, err := c.start(out)
	if err != nil {
		out.close()
		return Status{}, c.startFailure(err)
	}
	cancelled := p.run(ctx, c)
	lost := out.finish()
	return c.conclude(ctx, p, out, cancelled, lost)
}

// conclude turns what happened into a status and an error, the weightiest
// first.
func (c Command) conclude(ctx context.Context, p *process, out *output, cancelled bool, lost error) (Status, error) {
	status := p.reap()
	e := &Error{Path: c.Path, Status: status, Tail: out.tail.String(), Alive: p.outlived, Err: lost}
	switch {
	case len(p.outlived) > 0:
		e.Kind = Outlived
	case cancelled:
		e.Kind = Cancelled
	case !status.Success():
		e.Kind = Failed
	case lost != nil:
		e.Kind = OutputLost
	default:
		return status, nil
	}
	if cancelled {
		e.Err = context.Cause(ctx)
	}
	return status, e
}

func (c Command) grace() time.Duration {
	if c.Grace > 0 {
		return c.Grace
	}
	return DefaultGrace
}
