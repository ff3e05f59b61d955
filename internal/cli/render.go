package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/daemon"
	"github.com/berth-dev/berth/internal/pools"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
	"github.com/berth-dev/berth/render"
)

// renderOptions are the flags of berth render.
type renderOptions struct {
	pools, pool, data     string
	slots                 int
	sources, out, command string
	size                  int
	limit, grace, wait    time.Duration
	asJSON                bool
}

func newRender(s Streams) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render JOBS.jsonl",
		Short: "Render jobs through leased slots",
		Long: `Render jobs through leased slots, with a broker inside the process.

JOBS.jsonl has one job a line, - reads them from standard input:

  {"jobId": "f1", "sourceKey": "scenes/f1.svg", "outputKey": "f1.png"}

Without --command SVG scenes become PNG pictures inside the process. --command
takes a command line with {source}, {output}, {output_stem}, {job}, {slot},
{pool} and {fence}, or one of the presets ` + strings.Join(render.Presets(), ", ") + `.`,
		Example: `  berth render jobs.jsonl --slots 2 --out pictures
  berth render scenes.jsonl --command povray --out pictures
  berth render frames.jsonl --pools pools.yaml --pool gpu --command 'mytool {source} -o {output}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, "give one jobs file, or - for standard input")
			}
			return renderJobs(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.pools, "pools", "", "a pools file; without one there is a pool of --slots slots")
	f.StringVar(&o.pool, "pool", "render", "the pool whose slots the jobs take")
	f.IntVar(&o.slots, "slots", 2, "how many slots the pool has, where no pools file says")
	f.StringVar(&o.data, "data", "", "keep the broker's records in this folder; without it they are in memory")
	f.StringVar(&o.sources, "sources", "", "the folder that source keys are relative to")
	f.StringVar(&o.out, "out", "out", "the folder for the pictures")
	f.StringVar(&o.command, "command", "", "render by this program instead of inside the process")
	f.IntVar(&o.size, "size", 0, "longer side of pictures made inside the process, in pixels; 0 is the scene's own")
	f.DurationVar(&o.limit, "limit", 0, "stop a rendering after this time; 0 never")
	f.DurationVar(&o.grace, "grace", 5*time.Second, "the time between TERM and KILL for a program that is stopped")
	f.DurationVar(&o.wait, "wait", 24*time.Hour, "how long a job waits for a slot")
	f.BoolVar(&o.asJSON, "json", false, "print a line of JSON a job and the summary as JSON")
	return cmd
}

func renderJobs(ctx context.Context, s Streams, file string, o renderOptions) error {
	if err := o.checkTimes(); err != nil {
		return err
	}
	jobs, err := readJobs(s, file)
	if err != nil {
		return err
	}
	renderer, err := o.renderer()
	if err != nil {
		return err
	}
	declared, err := o.declared()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return cannotMake(o.out, err)
	}
	return use(ctx, daemon.EmbedConfig{Dir: o.data, Pools: declared}, func(f *farm) error {
		p := newProgress(s.Err, len(jobs))
		service := &render.Service{
			Keeper: f.keeper, Lease: lease.Request{Claims: []lease.Claim{{Pool: o.pool}}, Wait: o.wait},
			Sources: o.sources, Outputs: o.out, Observe: p.observe,
			Renderer: func(render.Job) render.Renderer { return renderer },
			Limit:    func(render.Job) time.Duration { return o.limit },
		}
		results := service.Run(ctx, jobs, 4*max(slotsIn(declared, o.pool), 1), nil)
		p.end()
		status, err := f.status(ctx)
		if err != nil {
			return err
		}
		sum := newSummary(status, results)
		if err := report(s, sum, o.out, o.asJSON, ctx); err != nil || sum.Failed == 0 {
			return err
		}
		return &failedError{policy.ExitFailed}
	})
}

// checkTimes refuses times that mean nothing, before any job is begun: one
// below 0 must not pass for "never" or "at once".
func (o renderOptions) checkTimes() error {
	switch {
	case o.limit < 0:
		return lease.Errorf(lease.CodeRequestInvalid, "cannot render with --limit %v: give more than 0s, or leave it out for no limit", o.limit)
	case o.grace <= 0:
		return lease.Errorf(lease.CodeRequestInvalid, "cannot render with --grace %v: give more than 0s", o.grace)
	case o.wait < 0 || o.wait > lease.MaxWait:
		return lease.Errorf(lease.CodeRequestInvalid, "cannot render with --wait %v: give 0s (ask once) to %v", o.wait, lease.MaxWait)
	}
	return nil
}

func readJobs(s Streams, file string) ([]render.Job, error) {
	in := s.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, lease.Errorf(lease.CodeJobInvalid, "cannot open the jobs: %v; give a file of one job a line", err)
		}
		defer f.Close()
		in = f
	}
	jobs, err := render.ReadJobs(in, file)
	if err == nil && len(jobs) == 0 {
		err = errors.New("it holds no job")
	}
	if err != nil {
		return nil, lease.Errorf(lease.CodeJobInvalid, "cannot take %s: %v", file, err)
	}
	return jobs, nil
}

func (o renderOptions) renderer() (render.Renderer, error) {
	if o.command == "" {
		return render.SVG{Longest: o.size}, nil
	}
	program, err := render.ParseProgram(o.command)
	if err != nil {
		return nil, err
	}
	program.Grace = o.grace
	return render.NewCommand(program)
}

// declared returns the pools of the file, or one of so many slots.
func (o renderOptions) declared() ([]lease.PoolSpec, error) {
	if o.pools != "" {
		return pools.Read(o.pools)
	}
	if o.slots < 1 || o.slots > 1000 {
		return nil, lease.Errorf(lease.CodePoolsInvalid, "cannot make a pool of %d slots: give 1 to 1000", o.slots)
	}
	spec := lease.PoolSpec{Name: o.pool, Settings: &lease.Settings{}}
	for i := range o.slots {
		spec.Slots = append(spec.Slots, lease.SlotSpec{ID: o.pool + "-" + strconv.Itoa(i)})
	}
	return []lease.PoolSpec{spec}, nil
}

func slotsIn(declared []lease.PoolSpec, pool string) int {
	for _, p := range declared {
		if p.Name == pool {
			return len(p.Slots)
		}
	}
	return 0
}
