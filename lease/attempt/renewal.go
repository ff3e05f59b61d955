package attempt

import "github.com/berth-dev/berth/lease"

// A Beat is what came of one renewal.
type Beat uint8

// The outcomes of a renewal.
const (
	Kept   Beat = iota // the lease goes on
	Missed             // nothing is known: try again while there is trust
	Gone               // the lease is lost
)

// Renewed takes in the answer to a renewal of held that was sent at sent and
// answered at now, and says what it means: one failed renewal is no loss, an
// answer that the lease has ended is one at once, and so is any answer that
// comes when the trust has ended. The error says why it was missed or is gone.
func Renewed(trust *Trust, limits Limits, now, sent Instant, held, answer lease.Token, err error) (Beat, error) {
	switch {
	case trust.Left(now) == 0:
		return Gone, Ended(held)
	case err != nil && Final(err):
		return Gone, err
	case err != nil:
		return Missed, err
	}
	if err := sameLease(held, answer); err != nil {
		return Missed, err
	}
	trust.Extend(now, sent, answer, limits.margin(answer.TTL))
	return Kept, nil
}

// Ended says that the trust in the lease has ended.
func Ended(t lease.Token) error {
	return lease.Errorf(lease.CodeLeaseLost, "no renewal made lease %s last longer in time: its work has to stop; ask again with a new request", t.LeaseID)
}

// Final reports whether the error says that the lease has ended, or never was
// the caller's.
func Final(err error) bool {
	switch codeOf(err) {
	case lease.CodeLeaseReleased, lease.CodeLeaseAbandoned, lease.CodeLeaseExpired, lease.CodeLeaseRevoked,
		lease.CodeLeaseUnknown, lease.CodeLeaseForeign, lease.CodeLeaseMissing:
		return true
	}
	return false
}

func sameLease(held, answer lease.Token) error {
	if err := answer.Check(held.RequestID); err != nil {
		return err
	}
	if answer.LeaseID != held.LeaseID || answer.Fence != held.Fence {
		return lease.Errorf(lease.CodeReplyInvalid, "cannot use the answer to the renewal of lease %s: it is about lease %s", held.LeaseID, answer.LeaseID)
	}
	return nil
}
