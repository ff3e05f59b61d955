package policy

// An Exit is the code with which berth's commands end. 0 is success. A
// command that ran under a lease hands its own code on, or 128 + n where
// signal n ended it; what follows are berth's own failures. A command can end
// with the same numbers: only a report tells for certain.
type Exit int

// Berth's own failures.
const (
	// ExitInvalid: what was asked is wrong or was refused. Nothing was started
	// and asking again does not help: change it.
	ExitInvalid Exit = 120 + iota
	// ExitNoCapacity: no slot is free and the request did not wait, or the
	// queue is full. Nothing was started; try later.
	ExitNoCapacity
	// ExitLost: the lease was lost while the command ran; the command was
	// stopped. Start it again as a whole.
	ExitLost
	// ExitCancelled: somebody cancelled it.
	ExitCancelled
	// ExitTimedOut: no slot came free within the wait, or the time given to
	// the whole ran out. The same number as of timeout(1).
	ExitTimedOut
	// ExitBerth: berth, its broker or its store could not do its part, or the
	// broker could not be reached. The same number as of env(1) and timeout(1)
	// for a failure of their own.
	ExitBerth
	// ExitFailed: a job failed or its command could not be started. The number
	// by which shells say that a command cannot be run.
	ExitFailed
	// ExitMissing: the program is not there. The number by which shells say
	// that a command was not found.
	ExitMissing
)

var exitTexts = [...]string{
	"what was asked is wrong or was refused; change it",
	"no slot is free; try later",
	"the lease was lost and the command was stopped",
	"cancelled",
	"no slot came free in time",
	"berth or its broker could not do its part",
	"the job failed or its command could not be started",
	"the program was not found",
}

// Exits returns berth's own exit codes in order.
func Exits() []Exit {
	exits := make([]Exit, len(exitTexts))
	for i := range exits {
		exits[i] = ExitInvalid + Exit(i)
	}
	return exits
}

// String says in a few words what the code means, for a table in a help text.
func (e Exit) String() string {
	switch i := int(e - ExitInvalid); {
	case e == 0:
		return "success"
	case i >= 0 && i < len(exitTexts):
		return exitTexts[i]
	}
	return "the command's own code"
}
