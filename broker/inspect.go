package broker

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Effects returns what the last Do asked for, for those who check the engine
// from outside. It is valid until the next Do and must not be changed.
func (e *Engine) Effects() *machine.Effects { return e.effects }

// Ledger returns the summary record as of the last Do.
func (e *Engine) Ledger() lease.Ledger { return e.machine.Ledger() }

// StateOf names the state of a request; see [machine.Machine.StateOf].
func (e *Engine) StateOf(caller lease.Caller, id lease.RequestID) string {
	return e.machine.StateOf(caller, id)
}

// HostBoot returns the boot id that a machine's agent has reported last.
func (e *Engine) HostBoot(machine string) string { return e.machine.HostBoot(machine) }

// Next returns when time alone changes something next, in broker time. It may
// be too early, never too late.
func (e *Engine) Next() (at time.Duration, ok bool) { return e.machine.Next() }
