package machine

import "github.com/berth-dev/berth/lease"

// The states that a request can be in, as StateOf names them.
const (
	StateNew         = "new"     // not known, or forgotten
	StatePresent     = "present" // waiting, and decided like any other
	StateReserved    = "reserved"
	StateAbsent      = "absent"
	StateFresh       = "held fresh"    // granted, not renewed yet
	StateRenewed     = "held renewed"  // renewed since its grant or the last restart
	StateExtended    = "held extended" // lives by a restart's extension
	StateQuarantined = "quarantined"
	StateCleaning    = "being cleaned"
	StateStuck       = "stuck"
	StateEnded       = "ended " // and how
)

// StateOf names the state of a request for tables and tests. An ended request
// goes by its end once its last unit is free; one that its session finished
// with is as good as forgotten. It changes nothing.
func (m *Machine) StateOf(caller lease.Caller, id lease.RequestID) string {
	e := m.requests[requestKey{caller, id}]
	switch {
	case e == nil || e.End == lease.EndFinished:
		return StateNew
	case e.wait != nil:
		return e.wait.state()
	case e.held != nil:
		return e.held.state()
	case e.Settled == 0 && e.Lease != nil:
		return e.quarantineState(m)
	}
	return StateEnded + e.End.String()
}

func (w *waiting) state() string {
	switch {
	case w.reserved != nil:
		return StateReserved
	case w.absent < never:
		return StateAbsent
	}
	return StatePresent
}

func (h *holding) state() string {
	switch {
	case h.extended:
		return StateExtended
	case h.renewed:
		return StateRenewed
	}
	return StateFresh
}

// quarantineState names the part that is furthest from being free.
func (e *entry) quarantineState(m *Machine) string {
	state := StateQuarantined
	for i, p := range e.Lease.Parts {
		switch {
		case p.State == lease.PartCleaning:
			return StateCleaning
		case e.isStuck(i, m.now):
			state = StateStuck
		}
	}
	return state
}
