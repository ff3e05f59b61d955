//go:build unix && !linux

package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A group is the process group of a command. Here its leader is reaped when it
// exits, and the group is asked after by signal 0, for which a zombie counts
// as alive.
type group struct {
	leader *os.Process
	ended  *ended
}

// ended is the leader's end; it is written before process.exited is closed and
// read after.
type ended struct {
	state *os.ProcessState
	err   error
}

func newGroup(leader *os.Process) group { return group{leader, new(ended)} }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (g group) awaitLeader() { g.ended.state, g.ended.err = g.leader.Wait() }

func (g group) wait() (*os.ProcessState, error) { return g.ended.state, g.ended.err }

func (g group) terminate() {
	unix.Kill(-g.leader.Pid, unix.SIGTERM)
	unix.Kill(-g.leader.Pid, unix.SIGCONT)
}

func (g group) kill() { unix.Kill(-g.leader.Pid, unix.SIGKILL) }

// alive returns the group's number where it has members.
func (g group) alive() []int {
	if errors.Is(unix.Kill(-g.leader.Pid, 0), unix.ESRCH) {
		return nil
	}
	return []int{g.leader.Pid}
}
