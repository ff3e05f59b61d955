//go:build unix

package proc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/proc"
)

func kindOf(err error) proc.Kind {
	var e *proc.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func TestBR079_TheStatusIsTheCommandsOwn(t *testing.T) {
	for mode, want := range map[string]int{
		"exit=0": 0, "exit=1": 1, "exit=7": 7, "exit=125": 125, "exit=127": 127, "exit=255": 255,
		"die=15": 128 + 15, "die=9": 128 + 9, // not 1 and 2, which nohup has all its children ignore
	} {
		t.Run(mode, func(t *testing.T) {
			r := run(t, mode, proc.Command{})
			if got := r.status.Shell(); got != want {
				t.Errorf("status %v is %d for a shell, want %d", r.status, got, want)
			}
			if want == 0 && r.err != nil {
				t.Errorf("a clean exit is an error: %v", r.err)
			}
			if want != 0 && kindOf(r.err) != proc.Failed {
				t.Errorf("error %v, want one of kind Failed", r.err)
			}
		})
	}
}

func TestBR079_WhatCannotBeRunSaysWhy(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	orphan := filepath.Join(dir, "orphan")
	for file, content := range map[string]string{plain: "no program", orphan: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(orphan, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command proc.Command
		kind    proc.Kind
		says    string
	}{
		"not in PATH":    {proc.Command{Path: "no-such-program-here"}, proc.NotFound, "install it"},
		"no such file":   {proc.Command{Path: filepath.Join(dir, "absent")}, proc.NotFound, "full path"},
		"not executable": {proc.Command{Path: plain}, proc.NotExecutable, "make it executable"},
		"a directory":    {proc.Command{Path: dir}, proc.NotExecutable, "make it executable"},
		"no interpreter": {proc.Command{Path: orphan}, proc.NotStarted, "interpreter"},
		"no directory":   {proc.Command{Path: "true", Dir: filepath.Join(dir, "absent")}, proc.NotStarted, "no directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.command.Run(t.Context())
			if kindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v (kind %d), want kind %d and %q", err, kindOf(err), c.kind, c.says)
			}
		})
	}
}

func TestADeadContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("not today")
	cancel(cause)
	mark := filepath.Join(t.TempDir(), "mark")
	_, err := proc.Command{Path: "touch", Args: []string{mark}}.Run(ctx)
	if kindOf(err) != proc.Cancelled || !errors.Is(err, cause) {
		t.Errorf("error %v, want the cause of the cancellation", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

func TestBR073_AnIgnoredTermIsFollowedByKill(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := listen()
	done := start(t, ctx, "ignore", proc.Command{Stdout: out, Grace: 50 * time.Millisecond})
	pid := out.pid(t)
	cancel()
	r := wait(t, done)
	if kindOf(r.err) != proc.Cancelled || !errors.Is(r.err, context.Canceled) {
		t.Errorf("error %v, want a cancellation", r.err)
	}
	if r.status.Signal != syscall.SIGKILL {
		t.Errorf("status %v, want the end by SIGKILL", r.status)
	}
	gone(t, pid)
}

func TestBR078_TermLeavesTimeToCleanUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := listen()
	done := start(t, ctx, "clean", proc.Command{Stdout: out, Grace: lastResort})
	out.pid(t)
	cancel()
	r := wait(t, done)
	if kindOf(r.err) != proc.Cancelled || !r.status.Success() {
		t.Errorf("status %v and error %v, want a clean exit after a cancellation", r.status, r.err)
	}
	if line := <-out.lines; line != "cleaned" {
		t.Errorf("the last output is %q", line)
	}
}

func TestBR070_TheWholeGroupIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := listen()
	done := start(t, ctx, "leave-then-ignore", proc.Command{Stdout: out, Grace: 50 * time.Millisecond})
	grandchild, leader := out.pid(t), out.pid(t)
	cancel()
	r := wait(t, done)
	if kindOf(r.err) != proc.Cancelled {
		t.Errorf("error %v, want a cancellation", r.err)
	}
	gone(t, leader)
	gone(t, grandchild)
}

func TestBR070_AShellsProgramsAreEnded(t *testing.T) {
	for _, script := range []string{"echo ready $$; sleep 300; true", "echo ready $$; sleep 300 | cat"} {
		ctx, cancel := context.WithCancel(t.Context())
		out := listen()
		done := make(chan result, 1)
		go func() {
			status, err := proc.Command{Path: "sh", Args: []string{"-c", script}, Stdout: out}.Run(ctx)
			done <- result{status, err}
		}()
		pid := out.pid(t)
		cancel()
		if r := wait(t, done); kindOf(r.err) != proc.Cancelled {
			t.Errorf("%s: error %v, want a cancellation", script, r.err)
		}
		gone(t, pid)
	}
}

func TestBR074_LeftoversWithAnOpenPipeAreEnded(t *testing.T) {
	for _, mode := range []string{"wait", "ignore"} {
		out := listen()
		r := run(t, "leave="+mode, proc.Command{Stdout: out, Grace: 50 * time.Millisecond})
		if r.err != nil || r.status.Leftovers != 1 {
			t.Errorf("%s: leftovers %d, error %v, want 1 and none", mode, r.status.Leftovers, r.err)
		}
		gone(t, out.pid(t))
	}
}

func TestBR075_AnOpenPipeDoesNotChangeTheStatus(t *testing.T) {
	for code, want := range map[string]int{"0": 0, "1": 1, "7": 7} {
		status, err := proc.Command{Path: "sh", Args: []string{"-c", "sleep 60 & echo said; exit " + code}, Stdout: listen()}.Run(t.Context())
		if status.Code != want || status.Leftovers != 1 || (err == nil) != (want == 0) {
			t.Errorf("exit %s: status %v, leftovers %d, error %v", code, status, status.Leftovers, err)
		}
	}
}

func TestAProcessOutsideTheGroupDoesNotHoldUpRun(t *testing.T) {
	out := listen()
	r := run(t, "escape", proc.Command{Stdout: out, Stderr: listen()})
	if r.err != nil || r.status.Leftovers != 0 {
		t.Errorf("leftovers %d, error %v", r.status.Leftovers, r.err)
	}
	// It is out of reach by design: the test must end it.
	if err := syscall.Kill(out.pid(t), syscall.SIGKILL); err != nil {
		t.Errorf("the escaped process was ended: %v", err)
	}
}

type counter struct{ n, chunks int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	c.chunks++
	return len(p), nil
}

func TestBR083_AFloodOfOutputArrivesWhole(t *testing.T) {
	var out counter
	if r := run(t, "flood=64", proc.Command{Stdout: &out}); r.err != nil {
		t.Fatal(r.err)
	}
	if out.n != 64<<20 {
		t.Errorf("%d bytes arrived, want %d", out.n, 64<<20)
	}
}

// A trigger calls do at the first write.
type trigger struct{ do context.CancelFunc }

func (g trigger) Write(p []byte) (int, error) {
	g.do()
	return len(p), nil
}

func TestBR083_CancelDuringAFlood(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := wait(t, start(t, ctx, "flood=0", proc.Command{Stdout: trigger{cancel}}))
	if kindOf(r.err) != proc.Cancelled {
		t.Errorf("error %v, want a cancellation", r.err)
	}
}

func TestTheErrorKeepsTheEndOfStderr(t *testing.T) {
	r := run(t, "noise", proc.Command{Tail: 100})
	var e *proc.Error
	if !errors.As(r.err, &e) {
		t.Fatal(r.err)
	}
	if !strings.HasSuffix(e.Tail, "[31mthe last word") || len(e.Tail) > 104 || strings.Contains(e.Tail, "\x1b") {
		t.Errorf("tail %q", e.Tail)
	}
	if !strings.Contains(e.Error(), "exit status 1") || !strings.Contains(e.Error(), "the last word") {
		t.Errorf("the text lacks the status or the tail: %v", e)
	}
}

type refuser struct{ err error }

func (r refuser) Write([]byte) (int, error) { return 0, r.err }

func TestARefusedWriteIsTold(t *testing.T) {
	full := errors.New("the disk is full")
	r := run(t, "flood=2", proc.Command{Stdout: refuser{full}})
	if kindOf(r.err) != proc.OutputLost || !errors.Is(r.err, full) {
		t.Errorf("error %v, want the writer's", r.err)
	}
	if !r.status.Success() {
		t.Errorf("status %v: the command did not get to its end", r.status)
	}
}

func TestEnvIsAdded(t *testing.T) {
	t.Setenv("BERTH_TEST_A", "parent")
	for _, env := range [][]string{nil, {"BERTH_TEST_A=command"}} {
		out := listen()
		if r := run(t, "env=BERTH_TEST_A", proc.Command{Env: env, Stdout: out}); r.err != nil {
			t.Fatal(r.err)
		}
		want := "parent"
		if env != nil {
			want = "command"
		}
		if got := <-out.lines; got != want {
			t.Errorf("with %v the child sees %q", env, got)
		}
	}
}
