package simulate

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// Commands are the rows of a [Table].
var commands = [...]string{
	"apply", "drain", "undrain", "acquire", "arrive", "leave", "cancel", "renew", "release", "abandon",
	"revoke", "clear", "prove", "clean", "progress", "health", "tick", "restart", "show",
}

// States are its columns.
var states = [...]string{
	machine.StateNew, machine.StatePresent, machine.StateReserved, machine.StateAbsent,
	machine.StateFresh, machine.StateRenewed, machine.StateExtended,
	machine.StateQuarantined, machine.StateCleaning, machine.StateStuck,
	"ended refused", "ended cancelled", "ended timed_out", "ended absent", "ended unsatisfiable", "ended finished",
	"ended released", "ended abandoned", "ended expired", "ended revoked",
}

// A Table counts how often each command met a request in each state.
type Table struct {
	met [len(commands)][len(states)]int
}

// Add adds what another table counts.
func (t *Table) Add(o *Table) {
	for i := range t.met {
		for j := range t.met[i] {
			t.met[i][j] += o.met[i][j]
		}
	}
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

// meet counts which states a command meets, each once: that of the request it
// is about, or those of all that it may concern.
func (w *World) meet(name string, about key, cmd machine.Command) {
	if w.server.engine == nil {
		return
	}
	row := indexOf(commands[:], name)
	if row < 0 {
		w.fail("books", "there is no command %q in the table", name)
		return
	}
	var seen [len(states)]bool
	count := func(state string) {
		if i := indexOf(states[:], state); i >= 0 && !seen[i] {
			seen[i] = true
			w.met.met[row][i]++
		}
	}
	if about.id != "" {
		if p := w.check.books.byKey[about]; namesLease(cmd) && (p == nil || p.Lease == nil) {
			// After a restore the broker knows the request, but not the lease.
			count(machine.StateNew)
			return
		}
		count(w.server.engine.StateOf(about.caller, about.id))
		if c, ok := cmd.(machine.Clean); ok {
			w.meetCleaned(c, count)
		}
		return
	}
	b := w.check.books
	leases := name == "prove" || name == "clear"
	for _, p := range b.live {
		if concerns(about, p) && (p.Lease != nil || !leases) && p.End != lease.EndFinished {
			count(w.server.engine.StateOf(p.key.caller, p.key.id))
		}
	}
	w.meetEnded(about, leases, count)
}

// namesLease reports whether a command names a lease, and no request.
func namesLease(cmd machine.Command) bool {
	switch cmd.(type) {
	case machine.Renew, machine.Release, machine.Abandon, machine.Progress, machine.Revoke, machine.Clear, machine.ProveTree:
		return true
	}
	return false
}

func (w *World) meetCleaned(c machine.Clean, count func(string)) {
	b := w.check.books
	for _, list := range [][]*page{b.live, b.ended[max(0, len(b.ended)-60):]} {
		for _, p := range list {
			if p.Lease != nil && p.Lease.ID.Ref() == c.Lease {
				count(w.stateOf(p))
			}
		}
	}
}

func (w *World) meetEnded(about key, leases bool, count func(string)) {
	b := w.check.books
	if about.session == "" {
		for end, n := range b.ends {
			if n > 0 && lease.End(end) != lease.EndFinished && (lease.End(end) >= lease.EndReleased || !leases) {
				count(machine.StateEnded + lease.End(end).String())
			}
		}
		return
	}
	for _, p := range b.ended {
		if concerns(about, p) && p.End != lease.EndFinished {
			count(machine.StateEnded + p.End.String())
		}
	}
}

// concerns reports whether a command about a session, host or pool concerns
// the request.
func concerns(about key, p *page) bool {
	switch {
	case about.session != "":
		session, _ := p.key.inSession()
		return session == about.session && p.key.caller == about.caller
	case about.host != "":
		return p.Lease != nil && p.Lease.Holder.Machine == about.host || p.Request != nil && p.Request.Holder.Machine == about.host
	case about.pool != "":
		return p.claims(about.pool)
	}
	return true
}

func (p *page) claims(pool string) bool {
	if p.Lease != nil {
		for _, part := range p.Lease.Parts {
			if part.Pool == pool {
				return true
			}
		}
		return false
	}
	if p.Request != nil {
		for _, c := range p.Request.Claims {
			if c.Pool == pool {
				return true
			}
		}
	}
	return false
}

// Write prints the table: commands down, states across by number.
func (t *Table) Write(out io.Writer) {
	fmt.Fprintf(out, "%-9s", "")
	for i := range states {
		fmt.Fprintf(out, "%9d", i+1)
	}
	fmt.Fprintln(out)
	for i, row := range t.met {
		fmt.Fprintf(out, "%-9s", commands[i])
		for j, n := range row {
			if n == 0 && reason(commands[i], states[j]) != "" {
				fmt.Fprintf(out, "%9s", "-")
			} else {
				fmt.Fprintf(out, "%9d", n)
			}
		}
		fmt.Fprintln(out)
	}
	for i, s := range states {
		fmt.Fprintf(out, "%d %s  ", i+1, s)
	}
	fmt.Fprintln(out)
}

// Rare returns the pairs that were met fewer than least times and are not
// called unreachable, and those that were met though they are.
func (t *Table) Rare(least int) (rare, wrong []string) {
	for i, row := range t.met {
		for j, n := range row {
			pair := commands[i] + " / " + states[j]
			switch why := reason(commands[i], states[j]); {
			case why == "" && n < least:
				rare = append(rare, fmt.Sprintf("%s: %d", pair, n))
			case why != "" && n > 0:
				wrong = append(wrong, fmt.Sprintf("%s: %d, though %s", pair, n, why))
			}
		}
	}
	return rare, wrong
}

const finished = "ended finished"

// unreachable says which commands cannot meet which states, and why. A state
// that ends in * stands for all that begin so.
var unreachable = []struct{ commands, states, why string }{
	{"renew release abandon revoke clear prove clean progress", "present reserved absent", "a waiter has no lease that could be named"},
	{"clean", "ended refused,ended timed_out,ended absent,ended unsatisfiable,ended finished", "a cleaner does not wait, and is refused without a record"},
	{"renew release abandon revoke clear prove progress", "ended refused,ended cancelled,ended timed_out,ended absent,ended unsatisfiable,ended finished", "the request ended without a lease that could be named"},
	{"apply drain undrain arrive health tick restart show", "new", "the command is about no single request"},
}

// reason returns why a pair is unreachable, or "".
func reason(command, state string) string {
	if state == finished {
		return "what a session has finished with is as good as new, and forgotten at once"
	}
	for _, u := range unreachable {
		if indexOf(strings.Fields(u.commands), command) < 0 {
			continue
		}
		list := strings.Split(u.states, ",")
		if !strings.Contains(u.states, ",") {
			list = strings.Fields(u.states)
		}
		if indexOf(list, state) >= 0 {
			return u.why
		}
	}
	return ""
}
