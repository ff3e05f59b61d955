package proc

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A process is a started command: the leader of its group.
type process struct {
	group
	cmd *exec.Cmd
	// exited is closed when the leader has ended.
	exited chan struct{}
	// leftovers and outlived are pids that were there after the leader's exit
	// and after SIGKILL.
	leftovers, outlived []int
}

// start starts the command on a thread that does nothing else until the
// command ends. The kernel ties the death signal to the thread that started
// the command, not to the process, so a thread that may end earlier would kill
// it.
func (c Command) start(out *output) (*process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = out.childEnds()
	cmd.SysProcAttr = attributes()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.attend(started)
	if err := <-started; err != nil {
		return nil, err
	}
	out.started()
	return p, nil
}

func (p *process) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err == nil {
		p.group = newGroup(p.cmd.Process)
	}
	started <- err
	if err == nil {
		p.awaitLeader()
		close(p.exited)
	}
}

// run blocks until the group is gone, or has outlived SIGKILL. It reports
// whether ctx ended before the leader did.
func (p *process) run(ctx context.Context, c Command) (cancelled bool) {
	select {
	case <-p.exited:
	case <-ctx.Done():
		cancelled = !p.hasExited()
	}
	if !cancelled {
		p.leftovers = p.alive()
		if len(p.leftovers) > 0 && c.Linger > 0 {
			p.gone(c.Linger, ctx.Done())
		}
	}
	p.end(c.grace())
	return cancelled
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// end ends what is left of the group. The last SIGKILL goes out also to a
// group that looks empty: it reaches a child that was being forked while the
// group was listed, and after it nobody in the group can fork.
func (p *process) end(grace time.Duration) {
	if !p.hasExited() || len(p.alive()) > 0 {
		p.terminate()
		p.gone(grace, nil)
	}
	p.kill()
	if !p.gone(killLimit, nil) {
		p.outlived = p.alive()
	}
}

// gone waits until the leader has exited and the group is empty, at most for
// limit and until stop.
func (p *process) gone(limit time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		return false
	case <-stop:
		return false
	}
	for pause := time.Millisecond; len(p.alive()) > 0; pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-timer.C:
			return len(p.alive()) == 0
		case <-stop:
			return false
		}
	}
	return true
}

// reap takes the leader's exit state, where it has exited.
func (p *process) reap() Status {
	status := Status{Code: -1}
	if p.hasExited() {
		if state, err := p.wait(); err == nil {
			status = statusOf(state)
		}
	}
	status.Leftovers = len(p.leftovers)
	return status
}
