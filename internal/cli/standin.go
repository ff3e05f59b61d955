package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/policy"
	"github.com/berth-dev/berth/render"
)

// A standIn renders by this very program, which plays a renderer that does
// not end well: the demo needs no other program installed.
type standIn struct{ kind string }

// Render runs the stand-in as a process.
func (r standIn) Render(ctx context.Context, w render.Work) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := render.NewCommand(render.Program{Path: self, Args: []string{"demo", "stand-in", r.kind}, Grace: hangGrace})
	if err != nil {
		return err
	}
	return c.Render(ctx, w)
}

func newStandIn(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "stand-in fails|hangs|cancelled", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Play a renderer that does not end well",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == jobFails {
				fmt.Fprintln(s.Err, "renderer: out of device memory")
				return &failedError{policy.Exit(3)}
			}
			if args[0] == jobHangs {
				signal.Ignore(syscall.SIGTERM, os.Interrupt)
			}
			return hang(cmd.Context(), args[0] == jobHangs)
		},
	}
}

// hang does nothing until it is killed, or for too long for any demo.
func hang(ctx context.Context, deaf bool) error {
	if deaf {
		ctx = context.WithoutCancel(ctx)
	}
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}
