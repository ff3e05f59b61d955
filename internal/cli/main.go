package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// A Streams is where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the tool on the process's own arguments and streams and returns
// its exit code. The first interrupt or TERM cancels the command, which then
// gives everything back; a second one ends the process.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, Streams{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, s Streams, args []string) int {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var failed *failedError
	if errors.As(err, &failed) {
		return int(failed.exit)
	}
	p := policy.Of(err)
	if p.Class == policy.Cancelled && ctx.Err() != nil {
		fmt.Fprintln(s.Err, "berth: cancelled; everything was given back")
		return int(p.Exit)
	}
	fmt.Fprintf(s.Err, "berth: %s: %v\n", lease.CodeOf(err), err)
	return int(p.Exit)
}

// A failedError is a failure that has been told already.
type failedError struct{ exit policy.Exit }

func (e *failedError) Error() string { return e.exit.String() }

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "berth",
		Short:         "Lease scarce slots so that every one comes back",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(cmd, err.Error())
	})
	root.AddCommand(newDemo(s), newRender(s))
	return root
}

// usage is the error of a command line that cannot be understood.
func usage(cmd *cobra.Command, why string) error {
	return lease.Errorf(lease.CodeRequestInvalid, "%s\nType '%s --help' to see what it takes.", why, cmd.CommandPath())
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
