package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A Kind says what kept a command from ending well.
type Kind int

// The kinds.
const (
	NotFound      Kind = iota + 1 // there is no such program
	NotExecutable                 // the file is there and may not be executed
	NotStarted                    // the system could not start it
	Failed                        // it ended with another status than 0
	Cancelled                     // the context ended before the command did
	Outlived                      // processes of the group outlived SIGKILL and may still work
	OutputLost                    // it exited with 0, but Stdout or Stderr refused a write
)

// An Error says why a command did not end well.
type Error struct {
	Kind Kind
	// Path is the program as it was asked for.
	Path string
	// Status is how the command ended, where it had started.
	Status Status
	// Tail is the end of the command's stderr, fit for printing.
	Tail string
	// Alive are the pids that outlived SIGKILL.
	Alive []int
	// Err is the cause: the context's, the system's or the writer's.
	Err error
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error says what could not be done, to what, and what to do next.
func (e *Error) Error() string {
	text := e.sentence()
	if e.Tail != "" {
		text += "; its stderr ends:\n" + e.Tail
	}
	return text
}

func (e *Error) sentence() string {
	switch e.Kind {
	case NotFound:
		return fmt.Sprintf("cannot run %q: there is no such program; install it or give its full path", e.Path)
	case NotExecutable:
		return fmt.Sprintf("cannot run %q: it may not be executed; make it executable or name another program", e.Path)
	case NotStarted:
		return fmt.Sprintf("cannot start %q: %v", e.Path, e.Err)
	case Cancelled:
		return fmt.Sprintf("stopped %q: %v (%v)", e.Path, e.Err, e.Status)
	case Outlived:
		return fmt.Sprintf("cannot end %q: processes %s outlived SIGKILL and may still work; see what they wait for", e.Path, join(e.Alive))
	case OutputLost:
		return fmt.Sprintf("cannot pass on the output of %q, which exited with 0: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%q failed: %v", e.Path, e.Status)
}

func join(pids []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(pids)), ", "), "[]")
}

func (c Command) failure(kind Kind, err error) *Error {
	return &Error{Kind: kind, Path: c.Path, Err: err}
}

func (c Command) startFailure(err error) *Error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return c.failure(NotExecutable, err)
	case c.Dir != "" && !exists(c.Dir):
		return c.failure(NotStarted, fmt.Errorf("there is no directory %q", c.Dir))
	case errors.Is(err, fs.ErrNotExist) && exists(c.Path):
		return c.failure(NotStarted, errors.New("the interpreter or loader it names is missing"))
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return c.failure(NotFound, err)
	}
	return c.failure(NotStarted, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
