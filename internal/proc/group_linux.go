package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A group is the process group of a command. Its leader is not reaped before
// the group is empty, so that the group's number cannot be given to strangers
// while signals may still be sent to it.
type group struct {
	leader *os.Process
}

func newGroup(leader *os.Process) group { return group{leader} }

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitLeader blocks until the leader has exited, and leaves it unreaped.
func (g group) awaitLeader() {
	for {
		err := unix.Waitid(unix.P_PID, g.leader.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (g group) wait() (*os.ProcessState, error) { return g.leader.Wait() }

// terminate and kill have nothing to report: a group that is gone is what they
// are for, and one that stays is named after the wait.
func (g group) terminate() {
	unix.Kill(-g.leader.Pid, unix.SIGTERM)
	unix.Kill(-g.leader.Pid, unix.SIGCONT)
}

func (g group) kill() { unix.Kill(-g.leader.Pid, unix.SIGKILL) }

// alive returns the group's pids that are no zombies. A zombie has no memory
// and no open file; it may stay for as long as its parent likes. Where /proc
// cannot be read nothing is known, and the leader is said to be alive.
func (g group) alive() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return []int{g.leader.Pid}
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return []int{g.leader.Pid}
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if pgid, err := unix.Getpgid(pid); err == nil && pgid == g.leader.Pid && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombie reports whether the process is dead or gone. A process whose first
// thread has ended looks like a zombie too, but has other threads.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The name may hold anything; the fields begin after its last parenthesis.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 {
		return true
	}
	const state, threads = 0, 17
	switch fields[state][0] {
	case 'X', 'x':
		return true
	case 'Z':
		return string(fields[threads]) <= "1"
	}
	return false
}
