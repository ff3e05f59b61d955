package policy

import (
	"context"
	"maps"
	"slices"

	"github.com/berth-dev/berth/lease"
)

// A Policy is what a code means. Policies may be compared.
type Policy struct {
	Class  Class
	Retry  Retry
	Exit   Exit
	Status Status
	Ack    Ack
}

// A Class groups codes by what has happened. It is also their label in
// metrics, so there are few and they do not change their names.
type Class string

// The classes.
const (
	OK          Class = "ok"          // no error
	Invalid     Class = "invalid"     // what was asked is malformed
	Refused     Class = "refused"     // well-formed, but not as things stand
	NoCapacity  Class = "no_capacity" // nothing free, or the queue is full
	TimedOut    Class = "timed_out"   // the request's wait or the caller's time ended
	Cancelled   Class = "cancelled"   // somebody wanted it to end
	Lost        Class = "lost"        // the lease is over; its work has to stop
	Unavailable Class = "unavailable" // the broker or its store could not do its part, or could not be heard
	Input       Class = "input"       // a job's source cannot be used
	Failed      Class = "failed"      // the work under a lease failed
	Release     Class = "release"     // the work is done, but its slot was not given back in time
	Internal    Class = "internal"    // a fault of berth
)

// A Retry says whether asking again may help.
type Retry uint8

const (
	// Never: the same would be answered again, or nobody wants it any more.
	Never Retry = iota
	// SameID: the answer is no end of the request; whoever sent the call sends
	// it again with the same id. As the error of a finished acquire, whose id
	// was cancelled before it returned, it reads as Later.
	SameID
	// NewID: ask anew at once, with a new request id.
	NewID
	// Later: ask anew after a while, with a new request id.
	Later
)

var retryNames = [...]string{"never", "same id", "new id", "later"}

// String returns the advice in a word or two.
func (r Retry) String() string { return retryNames[r] }

// An Ack says what a consumer of messages does with the one whose work ended
// like this, once the outcome is recorded.
type Ack bool

const (
	// Nak: deliver it again; after a while where Retry is Later.
	Nak Ack = false
	// Acked: it is done, or would fail the same way again.
	Acked Ack = true
)

// A Status is the name of the API's status, as Connect and gRPC know it.
type Status string

// The statuses that are used.
const (
	Success            Status = ""
	Canceled           Status = "canceled"
	InvalidArgument    Status = "invalid_argument"
	DeadlineExceeded   Status = "deadline_exceeded"
	NotFound           Status = "not_found"
	AlreadyExists      Status = "already_exists"
	PermissionDenied   Status = "permission_denied"
	ResourceExhausted  Status = "resource_exhausted"
	FailedPrecondition Status = "failed_precondition"
	Aborted            Status = "aborted"
	OutOfRange         Status = "out_of_range"
	InternalFault      Status = "internal"
	NotReachable       Status = "unavailable"
	DataLoss           Status = "data_loss"
)

// ForCode returns the policy of a code of package lease or guard; ok is false
// where there is none.
func ForCode(code string) (p Policy, ok bool) {
	p, ok = rows[code]
	return p, ok
}

// Codes returns every code that has a policy, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(rows)) }

// Of returns the policy of an error, of [OK] for nil.
//
// A cancellation comes first: context.Canceled or context.DeadlineExceeded
// anywhere under an error decides, whatever code is around it. Only a failed
// release is not turned into one, as it has a time limit of its own. Then the
// outermost code decides. Of joined errors the first that is known decides,
// which is the body's. An error that is unknown all through is [Internal].
func Of(err error) Policy {
	if err == nil {
		return Policy{Class: OK, Ack: Acked}
	}
	if p, ok := find(err); ok {
		return p
	}
	return rows[string(lease.CodeInternal)]
}

// deadlinePassed is of the caller's own deadline: unlike a request's wait, it
// is not to be tried again.
var deadlinePassed = Policy{TimedOut, Never, ExitTimedOut, DeadlineExceeded, Nak}

// find returns the policy of the first thing under err that is known, in the
// order that [Of] tells; nil is not known.
func find(err error) (Policy, bool) {
	switch {
	case matches(err, context.Canceled):
		return rows[string(lease.CodeCancelled)], true
	case err == context.DeadlineExceeded:
		return deadlinePassed, true
	}
	inner, within := findWithin(err)
	own, ok := ownRow(err)
	if !ok || within && outranks(inner, own, err) {
		return inner, within
	}
	return own, true
}

// matches reports whether err itself, not what it wraps, is the target: the
// network's errors say so by a method.
func matches(err, target error) bool {
	if err == target {
		return true
	}
	is, ok := err.(interface{ Is(error) bool })
	return ok && is.Is(target)
}

func findWithin(err error) (Policy, bool) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return find(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if p, ok := find(inner); ok {
				return p, true
			}
		}
	}
	return Policy{}, false
}

func ownRow(err error) (Policy, bool) {
	c, ok := err.(coded)
	if !ok {
		return Policy{}, false
	}
	return ForCode(c.Code())
}

type coded interface{ Code() string }

// outranks reports whether what was found inside decides over the code around
// it.
func outranks(inner, own Policy, err error) bool {
	if c, ok := err.(coded); ok && c.Code() == bodyAndCleanupFailed {
		return true
	}
	cancellation := inner.Class == Cancelled || inner == deadlinePassed
	return cancellation && own.Class != Release
}
