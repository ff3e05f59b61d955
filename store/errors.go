package store

import "fmt"

// Code says what kind of failure an Error is. The codes below are all there
// are. A Code is itself an error, so that errors.Is(err, store.ErrConflict)
// asks for it.
type Code string

const (
	// ErrInUse: the store is open elsewhere, in this process or another.
	ErrInUse Code = "store_in_use"
	// ErrNewer: the data were written in a format this program does not know.
	// Nothing was changed.
	ErrNewer Code = "store_newer"
	// ErrConflict: the commit did not have the next number. Nothing was
	// written; Load says what the last number is.
	ErrConflict Code = "store_conflict"
	// ErrTooLarge: the commit is over the limits. Nothing was written.
	ErrTooLarge Code = "store_too_large"
	// ErrFull: there was no space, nothing was written, and nothing is in
	// doubt. A commit that ran out of space half way is ErrFailed, with the
	// operating system's error as its cause.
	ErrFull Code = "store_full"
	// ErrFailed: the disk or the database failed. From Commit: the outcome is
	// unknown until the store is opened again.
	ErrFailed Code = "store_failed"
	// ErrCorrupt: the data are damaged. Nothing was repaired or thrown away.
	ErrCorrupt Code = "store_corrupt"
	// ErrClosed: the store was closed before.
	ErrClosed Code = "store_closed"
)

// Codes returns every code, for tables that must name them all.
func Codes() []Code {
	return []Code{ErrInUse, ErrNewer, ErrConflict, ErrTooLarge, ErrFull, ErrFailed, ErrCorrupt, ErrClosed}
}

// Error is the code as text.
func (c Code) Error() string { return string(c) }

// Error is a failure of a store.
type Error struct {
	Kind Code
	// Text says what could not be done, and to what.
	Text string
	// Cause is what the operating system or the database said, or nil.
	Cause error
	// Next says what to do.
	Next string
}

// Error is all of it in one line.
func (e *Error) Error() string {
	text := e.Text
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text + "; " + e.Next
}

// Code is the kind as text, the key of tables about codes.
func (e *Error) Code() string { return string(e.Kind) }

// Is reports whether target is this error's code.
func (e *Error) Is(target error) bool { return target == error(e.Kind) }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Conflict is the error of a commit numbered seq in a store whose last commit
// was last.
func Conflict(seq, last uint64) error {
	return &Error{
		Kind: ErrConflict,
		Text: fmt.Sprintf("cannot make commit %d, the last one was %d", seq, last),
		Next: "somebody else writes to this store: load it again",
	}
}

// Closed is the error of a call that comes after Close.
func Closed() error {
	return &Error{
		Kind: ErrClosed,
		Text: "cannot use a store that was closed",
		Next: "open it again",
	}
}

// tooLarge is the error of a commit over its limits.
func tooLarge(have, limit int, unit string) error {
	return &Error{
		Kind: ErrTooLarge,
		Text: fmt.Sprintf("cannot commit %d %s at once, the store takes %d", have, unit, limit),
		Next: "send them in smaller commits",
	}
}
