package hold

import (
	"strings"

	"github.com/berth-dev/berth/lease"
)

// StillRunning wraps the error of a [Keeper.With] function whose work may
// still run, such as a process that could not be killed: the lease is then
// abandoned instead of released, so that its slots wait until the work is
// proved to have stopped. It returns nil for nil.
func StillRunning(err error) error {
	if err == nil {
		return nil
	}
	return &stillRunning{err}
}

type stillRunning struct{ err error }

func (e *stillRunning) Error() string { return e.err.Error() }

func (e *stillRunning) Unwrap() error { return e.err }

// lostError says that the lease was lost because of why.
func lostError(t lease.Token, why error) error {
	return lease.Errorf(lease.CodeLeaseLost, "lease %s on %s is lost: %w", t.LeaseID, slotsOf(t), why)
}

func closedError(t lease.Token) error {
	return lease.Errorf(lease.CodeLeaseClosed, "lease %s on %s was given back: acquire a new one to go on", t.LeaseID, slotsOf(t))
}

func keeperClosed() error {
	return lease.Errorf(lease.CodeStopped, "the keeper was closed: make a new one to hold leases")
}

// slotsOf names the token's slots for people.
func slotsOf(t lease.Token) string { return strings.Join(slotNames(t), ", ") }

func slotNames(t lease.Token) []string {
	names := make([]string, len(t.Slots))
	for i, s := range t.Slots {
		names[i] = s.Pool + "/" + s.ID
	}
	return names
}
