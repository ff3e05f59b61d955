package render

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/internal/proc"
	"github.com/berth-dev/berth/lease"
)

// A Program says how to render with a program. Path and Args, and the values
// of Env, are templates: {source}, {sourcedir}, {output}, {outputdir}, {job},
// {slot}, {slots}, {pool} and {fence} stand for those of the work.
type Program struct {
	// Path is the program; a name without a slash is looked up in PATH.
	Path string
	Args []string
	// Env is added to the caller's environment and to what says of the lease:
	// BERTH_SLOT, BERTH_SLOTS, BERTH_POOL, BERTH_FENCE, BERTH_LABEL_NAME and,
	// where labels name a device, CUDA_VISIBLE_DEVICES.
	Env []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Grace is the time between SIGTERM and SIGKILL; 0 means 5 s.
	Grace time.Duration
	// Output gets what the program writes to its stdout and stderr; nil
	// discards it. The end of its stderr is in the error anyway.
	Output io.Writer
	// Install says what to type where the program is missing.
	Install string
}

// A Command renders by running a program, which is ended with all it started
// in its process group when the work is cancelled or the lease is lost. It is
// made by [NewCommand].
type Command struct {
	program Program
	path    template
	args    []template
	env     []template
}

// NewCommand returns a renderer that runs the program, or an error with
// [lease.CodeRequestInvalid] that names a template's field which does not exist
// or a grace below 0.
func NewCommand(p Program) (*Command, error) {
	if p.Path == "" {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot use the render command: it names no program")
	}
	if p.Grace < 0 {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot use the render command: a grace of %v; give 0 for %v, or more", p.Grace, proc.DefaultGrace)
	}
	c := &Command{program: p}
	parsed, err := parseTemplates(append([]string{p.Path}, append(p.Args, p.Env...)...))
	if err != nil {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot use the render command: %v", err)
	}
	c.path, c.args, c.env = parsed[0], parsed[1:1+len(p.Args)], parsed[1+len(p.Args):]
	return c, nil
}

func parseTemplates(texts []string) ([]template, error) {
	list := make([]template, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = parseTemplate(text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func fillAll(templates []template, w Work) ([]string, error) {
	list := make([]string, len(templates))
	for i, t := range templates {
		var err error
		if list[i], err = t.fill(w); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Render runs the program and waits until its process group is gone.
func (c *Command) Render(ctx context.Context, w Work) error {
	command, err := c.command(w)
	if err != nil {
		return err
	}
	if _, err = command.Run(ctx); err != nil {
		return c.failure(w, err)
	}
	return nil
}

func (c *Command) command(w Work) (proc.Command, error) {
	grace := c.program.Grace
	if grace == 0 {
		grace = proc.DefaultGrace
	}
	if sum := grace + min(time.Second, math.MaxInt64-grace); w.StopWithin > 0 && sum > w.StopWithin {
		return proc.Command{}, lease.Errorf(lease.CodeRequestInvalid,
			"cannot render %s: a lost lease leaves %v to stop in, and a grace of %v + 1s is %v; shorten the grace or ask for a longer TTL",
			w.Job.SourceKey, w.StopWithin, grace, sum)
	}
	path, err := c.path.fill(w)
	if err != nil {
		return proc.Command{}, err
	}
	args, err := fillAll(c.args, w)
	if err != nil {
		return proc.Command{}, err
	}
	env, err := fillAll(c.env, w)
	if err != nil {
		return proc.Command{}, err
	}
	return proc.Command{
		Path: path, Args: args, Dir: c.program.Dir, Env: append(w.environment(), env...),
		Stdout: c.program.Output, Stderr: c.program.Output, Grace: grace,
	}, nil
}

// failure gives the error of a run its code.
func (c *Command) failure(w Work, err error) error {
	var e *proc.Error
	if !errors.As(err, &e) {
		return lease.Errorf(lease.CodeRendererFailed, "cannot render %s: %w", w.Job.SourceKey, err)
	}
	switch e.Kind {
	case proc.NotFound, proc.NotExecutable:
		hint := ""
		if c.program.Install != "" {
			hint = "; to install it type: " + c.program.Install
		}
		return lease.Errorf(lease.CodeRendererMissing, "cannot render %s: %w%s", w.Job.SourceKey, err, hint)
	case proc.Outlived:
		return hold.StillRunning(lease.Errorf(lease.CodeRendererFailed, "cannot render %s: %w", w.Job.SourceKey, err))
	}
	return lease.Errorf(lease.CodeRendererFailed, "cannot render %s: %w", w.Job.SourceKey, err)
}
