package lease

import (
	"errors"
	"fmt"
)

// A Code says what kind of failure an error is. The list is closed and only
// grows; package policy says what each code means for a caller.
type Code string

// The codes of requests.
const (
	CodeRequestInvalid  Code = "request_invalid"  // a field is outside its bounds
	CodeNameInvalid     Code = "name_invalid"     // a name is outside the pattern
	CodeTTLOutOfRange   Code = "ttl_out_of_range" // below 1 s or above the pools' bound
	CodePoolUnknown     Code = "pool_unknown"     // no such pool
	CodeUnsatisfiable   Code = "unsatisfiable"    // the pools could never satisfy the claims
	CodeRequestMismatch Code = "request_mismatch" // the id was used with another body
	CodeNoCapacity      Code = "no_capacity"      // nothing free, and the request does not wait
	CodeTimedOut        Code = "timed_out"        // the request's wait ended
	CodeAbsent          Code = "absent"           // nobody asked for the request for too long
	CodeCancelled       Code = "cancelled"        // the caller or a cancel ended it
	CodeTooManyShapes   Code = "too_many_shapes"  // too many different claims wait on the pool
	CodeTooManyWaiters  Code = "too_many_waiters" // the pool's queue is full
	CodeSessionUnknown  Code = "session_unknown"  // the broker does not know the session
	CodeFinished        Code = "finished"         // below the session's mark: forgotten, never granted
	CodeQueued          Code = "queued"           // not an end: ask again with the same id
)

// The codes of leases.
const (
	CodeLeaseMissing   Code = "lease_missing"   // no lease id was given
	CodeLeaseUnknown   Code = "lease_unknown"   // no such lease, or forgotten
	CodeLeaseForeign   Code = "lease_foreign"   // another caller's
	CodeLeaseReleased  Code = "lease_released"  // it was released
	CodeLeaseAbandoned Code = "lease_abandoned" // it was abandoned
	CodeLeaseExpired   Code = "lease_expired"   // it was not renewed in time
	CodeLeaseRevoked   Code = "lease_revoked"   // an operator, the longest hold or a stall took it
	CodeLeaseLost      Code = "lease_lost"      // the holder's trust in it ended
	CodeLeaseClosed    Code = "lease_closed"    // used after its release began
)

// The codes of pools and operators.
const (
	CodePoolsInvalid   Code = "pools_invalid"   // a pools file or an apply is wrong
	CodeSourceForeign  Code = "source_foreign"  // another source owns the slot or the pool
	CodeSlotUnknown    Code = "slot_unknown"    // no such slot
	CodeLeaseStands    Code = "lease_stands"    // another lease is there now, or it is still held
	CodeNotQuarantined Code = "not_quarantined" // the lease has no units waiting there
	CodeNotCleanable   Code = "not_cleanable"   // cleaning may not begin yet, or not here
	CodeProofRefused   Code = "proof_refused"   // what was seen proves nothing about this lease
	CodeAmbiguous      Code = "ambiguous"       // a ref fits more than one lease
)

// The codes of the broker, its store and the way to it.
const (
	CodeOutcomeUnknown Code = "outcome_unknown" // it may have happened
	CodeUnavailable    Code = "unavailable"     // the broker cannot be asked now
	CodeStopped        Code = "stopped"         // the broker or keeper was closed
	CodeReplyInvalid   Code = "reply_invalid"   // the reply breaks the contract
	CodeCompacted      Code = "compacted"       // the event number is gone
	CodeStoreFull      Code = "store_full"      // too little space left to take more
	CodeStoreInUse     Code = "store_in_use"    // another broker has it open
	CodeStoreNewer     Code = "store_newer"     // written by a newer version
	CodeStoreConflict  Code = "store_conflict"  // somebody else committed
	CodeStoreFailed    Code = "store_failed"    // a commit failed
	CodeStoreCorrupt   Code = "store_corrupt"   // a record cannot be read
	CodeInternal       Code = "internal"        // a fault of berth
)

// The codes of render jobs.
const (
	CodeJobInvalid       Code = "job_invalid"        // a job's field is outside its bounds
	CodeSourceMissing    Code = "source_missing"     // the source cannot be opened
	CodeSourceUnreadable Code = "source_unreadable"  // the source cannot be parsed
	CodeRendererMissing  Code = "renderer_missing"   // the program is not there
	CodeRendererFailed   Code = "renderer_failed"    // the program or library failed
	CodeRendererTimedOut Code = "renderer_timed_out" // it ran longer than it may
	CodeOutputFailed     Code = "output_failed"      // the output cannot be put in place
	CodeOutputInvalid    Code = "output_invalid"     // the output is not what it should be
)

// An Error is a failure with a code. Its text says what could not be done, to
// what, and what to do next; it never holds a request or lease id.
type Error struct {
	code Code
	text string
	err  error
}

// Errorf returns an error with the code. %w wraps as in [fmt.Errorf].
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{code: code, text: err.Error(), err: errors.Unwrap(err)}
	if _, several := err.(interface{ Unwrap() []error }); several {
		e.err = err
	}
	return e
}

// Error returns the text, or the code where there is none.
func (e *Error) Error() string {
	if e.text == "" {
		return string(e.code)
	}
	return e.text
}

// Code returns the code as a string, the form in which packages that do not
// know this one read it.
func (e *Error) Code() string { return string(e.code) }

// Is reports whether target is an Error with the same code and no text: see
// [Code.Err].
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.text == "" && t.code == e.code
}

// Unwrap returns what the error wraps, or nil.
func (e *Error) Unwrap() error { return e.err }

// Err returns an error that matches, under [errors.Is], every error with the
// code.
func (c Code) Err() error { return &Error{code: c} }

// CodeOf returns the code of the first error in err's tree that has one, and
// [CodeInternal] where none has. It is empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var c interface{ Code() string }
	if errors.As(err, &c) {
		return Code(c.Code())
	}
	return CodeInternal
}
