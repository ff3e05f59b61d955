package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/daemon"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
	"github.com/berth-dev/berth/render"
)

//go:embed scenes/*.svg
var scenes embed.FS

// The demo's jobs that do not end with a picture, and what goes wrong.
const (
	jobBroken    = "broken"    // its scene cannot be parsed
	jobCancelled = "cancelled" // its caller goes away midway
	jobFails     = "fails"     // its program exits with 3
	jobHangs     = "hangs"     // its program ignores TERM and is killed
)

// hangLimit is how long the demo lets a renderer hang, and hangGrace how long
// it may then ignore TERM.
const (
	hangLimit   = time.Second
	hangGrace   = time.Second
	cancelAfter = 400 * time.Millisecond
)

func newDemo(s Streams) *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Render scenes through two leased slots, and let things go wrong",
		Long: `Render scenes through two leased slots, and let things go wrong.

A broker runs inside the process, with a pool of two slots. Ten jobs wait for
them: six scenes that become pictures, one that cannot be parsed, one that is
cancelled midway, one whose renderer fails, and one whose renderer hangs and is
killed. In the end every slot is free again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), s, out, asJSON) },
	}
	cmd.Flags().StringVar(&out, "out", "berth-demo", "the folder for the pictures")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	cmd.AddCommand(newStandIn(s))
	return cmd
}

func demo(ctx context.Context, s Streams, out string, asJSON bool) error {
	sources, err := unpackScenes()
	if err != nil {
		return err
	}
	defer os.RemoveAll(sources)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return cannotMake(out, err)
	}
	jobs := demoJobs()
	pools := []lease.PoolSpec{{Name: "gpu", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "gpu-0"}, {ID: "gpu-1"}}}}
	fmt.Fprintf(s.Err, "rendering %d jobs in 2 slots of pool gpu\n", len(jobs))
	return use(ctx, daemon.EmbedConfig{Pools: pools}, func(f *farm) error {
		p := newProgress(s.Err, len(jobs))
		cancels := &cancels{}
		service := &render.Service{
			Keeper: f.keeper, Lease: lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}, Wait: time.Hour},
			Sources: sources, Outputs: out, Renderer: demoRenderer, Limit: demoLimit,
			Observe: func(step render.Step) { p.observe(step); cancels.observe(step) },
		}
		results := service.Run(ctx, jobs, len(jobs), cancels.context)
		p.end()
		status, err := f.status(ctx)
		if err != nil {
			return err
		}
		return report(s, newSummary(status, results), out, asJSON, ctx)
	})
}

// report prints the summary; the demo's own failures are no failure of it.
func report(s Streams, sum summary, out string, asJSON bool, ctx context.Context) error {
	if asJSON {
		if err := sum.writeJSON(s.Out); err != nil {
			return err
		}
	} else {
		sum.write(s.Out, out)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !sum.back():
		return &failedError{policy.ExitBerth}
	}
	return nil
}

// unpackScenes writes the embedded scenes where renderers can read them.
func unpackScenes() (string, error) {
	dir, err := os.MkdirTemp("", "berth-scenes-")
	if err != nil {
		return "", cannotMake("a folder for the scenes", err)
	}
	if err := os.CopyFS(dir, scenes); err != nil {
		return "", errors.Join(cannotMake(dir, err), os.RemoveAll(dir))
	}
	return filepath.Join(dir, "scenes"), nil
}

func cannotMake(what string, err error) error {
	return lease.Errorf(lease.CodeOutputFailed, "cannot make %s: %v; give another folder with --out", what, err)
}

func demoJobs() []render.Job {
	var jobs []render.Job
	for _, name := range []string{"harbour", "city", jobBroken, "loops", jobCancelled, "gauge", jobFails, "tree", jobHangs, "seeds"} {
		source := name
		if name == jobCancelled || name == jobFails || name == jobHangs {
			source = "harbour"
		}
		jobs = append(jobs, render.Job{JobID: name, SourceKey: source + ".svg", OutputKey: name + ".png"})
	}
	return jobs
}

// demoRenderer draws inside the process, but for the jobs that show what
// becomes of a process.
func demoRenderer(j render.Job) render.Renderer {
	switch j.JobID {
	case jobCancelled, jobFails, jobHangs:
		return standIn{j.JobID}
	}
	return render.SVG{}
}

func demoLimit(j render.Job) time.Duration {
	if j.JobID == jobHangs {
		return hangLimit
	}
	return time.Minute
}

// cancels takes back the job that is cancelled midway.
type cancels struct{ cancel context.CancelCauseFunc }

// context gives that job a context of its own. It is called before the job's
// steps are observed.
func (c *cancels) context(ctx context.Context, j render.Job) context.Context {
	if j.JobID == jobCancelled {
		ctx, c.cancel = context.WithCancelCause(ctx)
	}
	return ctx
}

func (c *cancels) observe(s render.Step) {
	if s.Job.JobID == jobCancelled && s.Kind == render.Started {
		time.AfterFunc(cancelAfter, func() { c.cancel(lease.Errorf(lease.CodeCancelled, "its caller went away")) })
	}
}
