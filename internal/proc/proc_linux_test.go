package proc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/proc"
	"golang.org/x/sys/unix"
)

func TestAStoppedChildDies(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := listen()
	done := start(t, ctx, "stop", proc.Command{Stdout: out, Grace: 50 * time.Millisecond})
	pid := out.pid(t)
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := wait(t, done); kindOf(r.err) != proc.Cancelled {
		t.Errorf("error %v, want a cancellation", r.err)
	}
	gone(t, pid)
}

func TestAStoppedChildCanActOnTerm(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := listen()
	done := start(t, ctx, "clean", proc.Command{Stdout: out, Grace: lastResort})
	pid := out.pid(t)
	syscall.Kill(pid, syscall.SIGSTOP)
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := wait(t, done); !r.status.Success() {
		t.Errorf("status %v, want a clean exit", r.status)
	}
}

func TestBR079_SiblingsMayLinger(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(fifo, os.O_RDWR, 0) // never blocks
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out := listen()
	done := make(chan result, 1)
	go func() {
		script := "(read line < " + fifo + "; echo finished) & echo ready $$"
		status, err := proc.Command{Path: "sh", Args: []string{"-c", script}, Stdout: out, Linger: lastResort}.Run(t.Context())
		done <- result{status, err}
	}()
	if err := unix.Waitid(unix.P_PID, out.pid(t), nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	// These runs give a SIGTERM that must not come the time to arrive.
	for range 5 {
		run(t, "exit=0", proc.Command{})
	}
	w.WriteString("go\n")
	if r := wait(t, done); r.err != nil || r.status.Leftovers != 1 {
		t.Errorf("leftovers %d, error %v", r.status.Leftovers, r.err)
	}
	select {
	case line := <-out.lines:
		if line != "finished" {
			t.Errorf("the sibling said %q", line)
		}
	default:
		t.Error("the sibling did not finish")
	}
}

func TestBR071_TheCommandDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childMode+"=run")
	out := listen()
	parent.Stdout = out
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := out.pid(t)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	parent.Process.Kill()
	parent.Wait()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(lastResort/time.Millisecond))
	if n != 1 || err != nil {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("the command outlived its parent: %v", err)
	}
}

// The kernel sends the death signal when the thread ends that started the
// command. Here every idle thread ends while the command runs.
func TestTheDeathSignalIsNotTiedToAPassingThread(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := start(t, t.Context(), "hold="+fifo, proc.Command{})
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	endThreads(64)
	w.Close()
	if r := wait(t, done); r.err != nil {
		t.Error(r.err)
	}
}

// endThreads locks n goroutines to threads, all at once, and ends them.
func endThreads(n int) {
	var locked, ended sync.WaitGroup
	locked.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			locked.Done()
			locked.Wait()
		})
	}
	ended.Wait()
}
