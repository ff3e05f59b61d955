package attempt

import (
	"errors"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// codeOf returns the code of err, empty where it has none: then it is not the
// broker's answer, and the call may have been served.
func codeOf(err error) lease.Code {
	var c interface{ Code() string }
	if errors.As(err, &c) {
		return lease.Code(c.Code())
	}
	return ""
}

// An answer is what an error says about the acquire call that it answers, and
// about other copies of that call.
type answer uint8

const (
	unclear   answer = iota // it may hide a grant, and asking again is no use
	lost                    // it may have been served: ask again
	unreached               // it was not served: ask again
	queued                  // a waiter stands: ask again
	refused                 // it was not served; another copy may be
	settled                 // every copy gets this answer, and nothing is held
)

func answerOf(err error) answer {
	switch code := codeOf(err); code {
	case "":
		return lost
	case lease.CodeUnavailable:
		return unreached
	case lease.CodeQueued:
		return queued
	case lease.CodeStoreFull, lease.CodeStopped, lease.CodeSessionUnknown:
		return refused
	case lease.CodeRequestInvalid, lease.CodeNameInvalid, lease.CodeTTLOutOfRange,
		lease.CodePoolUnknown, lease.CodeUnsatisfiable, lease.CodeRequestMismatch,
		lease.CodeTooManyShapes, lease.CodeTooManyWaiters, lease.CodeNoCapacity:
		return settled
	default:
		switch {
		case ends(code):
			return settled
		case repeats(code):
			return lost
		}
		return unclear
	}
}

// repeats reports whether whoever gets the code sends the same call again.
func repeats(code lease.Code) bool {
	p, _ := policy.ForCode(string(code))
	return p.Retry == policy.SameID
}

// ends reports whether the code is how a request that was accepted has ended:
// nothing is held or queued under its id, nor will be.
func ends(code lease.Code) bool {
	switch code {
	case lease.CodeCancelled, lease.CodeTimedOut, lease.CodeAbsent, lease.CodeFinished,
		lease.CodeUnsatisfiable, lease.CodeNoCapacity,
		lease.CodeLeaseReleased, lease.CodeLeaseAbandoned, lease.CodeLeaseExpired, lease.CodeLeaseRevoked:
		return true
	}
	return false
}

// again reports whether a cancel, release or abandon that failed with err is
// worth another try: unlike an acquire it does no harm, also where the fault
// is not understood.
func again(err error) bool {
	switch code := codeOf(err); code {
	case "", lease.CodeInternal, lease.CodeReplyInvalid:
		return true
	default:
		return repeats(code)
	}
}
