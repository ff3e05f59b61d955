package proc

import (
	"fmt"
	"os"
	"syscall"
)

// A Status says how a command ended. The zero value is a clean exit.
type Status struct {
	// Code is the exit code, or -1 where a signal ended the command or its
	// end was never seen.
	Code int
	// Signal is the signal that ended the command, or 0.
	Signal syscall.Signal
	// Leftovers is how many processes of the group the command left behind.
	Leftovers int
}

// Success reports whether the command exited with 0.
func (s Status) Success() bool { return s.Code == 0 && s.Signal == 0 }

// Shell returns the status as a shell gives it: the exit code, or 128 + n
// where signal n ended the command.
func (s Status) Shell() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String returns the status in words.
func (s Status) String() string {
	switch {
	case s.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%v)", int(s.Signal), s.Signal)
	case s.Code < 0:
		return "exit status unknown"
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

func statusOf(state *os.ProcessState) Status {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Status{Code: -1, Signal: ws.Signal()}
	}
	return Status{Code: state.ExitCode()}
}
