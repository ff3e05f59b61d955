//go:build !unix

package proc

import (
	"os"
	"syscall"
)

// A group is only the command itself: there are no process groups here.
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

func attributes() *syscall.SysProcAttr { return nil }

func (g group) awaitLeader() { g.ended.state, g.ended.err = g.leader.Wait() }

func (g group) wait() (*os.ProcessState, error) { return g.ended.state, g.ended.err }

// terminate kills at once: there is no SIGTERM here.
func (g group) terminate() { g.leader.Kill() }

func (g group) kill() { g.leader.Kill() }

func (g group) alive() []int { return nil }
