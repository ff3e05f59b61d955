package machine

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

var (
	modelSeed  = flag.Uint64("model.seed", 0, "run the model test with this seed only")
	modelSeeds = flag.Uint64("model.seeds", 60, "how many seeds the model test runs")
	modelSteps = flag.Int("model.steps", 150, "how many commands each seed runs")
)

// TestModel drives a machine and a model with the same random commands: they
// must agree on every answer, on who holds what and on who waits.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		runModel(t, *modelSeed)
		return
	}
	for seed := uint64(1); seed <= *modelSeeds; seed++ {
		runModel(t, seed)
	}
}

// A pairing is a machine and a model that are told the same.
type pairing struct {
	*world
	model *model
	*chooser
	log []string
	// claims are the requests that were asked, by id.
	claims map[lease.RequestID]lease.Request
}

func runModel(t *testing.T, seed uint64) {
	const retention = 30 * time.Second
	p := &pairing{
		world: newWorld(t, Config{Retention: retention}), model: newModel(retention), chooser: newChooser(seed),
		claims: map[lease.RequestID]lease.Request{},
	}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with -run TestModel -model.seed=%d\n%s", seed, strings.Join(p.log, "\n"))
		}
	}()
	p.both(Restart{Fence: 100})
	p.both(p.apply())
	for range *modelSteps {
		p.turn()
	}
}

// turn is one command, and now and then some time or a restart.
func (p *pairing) turn() {
	p.t.Helper()
	if d := p.pause(); d > 0 {
		p.world.now += d
		p.model.now = p.world.now
		if p.IntN(4) > 0 {
			p.both(Tick{})
		}
	}
	if p.IntN(25) == 0 {
		p.both(Restart{Fence: uint64(p.IntN(300)), Settle: p.IntN(4) == 0})
		return
	}
	p.both(p.command())
}

// both runs a command on both and compares.
func (p *pairing) both(cmd Command) {
	p.t.Helper()
	p.log = append(p.log, fmt.Sprintf("%v %T%+v", p.world.now, cmd, cmd))
	var d said
	if r, ok := cmd.(Restart); ok {
		d = p.world.restart(r) // time that was not yet committed is lost
		p.model.now = p.world.now
	} else {
		d = p.fair(cmd)
	}
	p.model.do(cmd)
	p.learn(d)
	if got, want := answersOf(d), sayings(p.model.said); got != want {
		p.t.Fatalf("%T: the machine answers\n%s\nthe model\n%s", cmd, got, want)
	}
	if got, want := viewOf(p.world.m), p.model.view(); got != want {
		p.t.Fatalf("%T: %s\n(the model has the first)", cmd, firstDifference(want, got))
	}
}

// learn lets the chooser know of leases.
func (p *pairing) learn(d said) {
	for _, a := range d.answers {
		for _, m := range p.recent {
			if a.Token.LeaseID != "" && a.Token.RequestID == m.acquire.Request.ID {
				m.lease = a.Token.LeaseID
			}
		}
	}
}

func answersOf(d said) string {
	said := map[uint64]string{}
	for _, a := range d.answers {
		t := a.Token
		switch {
		case a.Err != nil:
			said[a.Call] = string(codeOf(a))
		case t.LeaseID != "":
			var at []string
			for _, s := range t.Slots {
				at = append(at, fmt.Sprintf("%s:%d", place(s.Pool, s.ID), s.Units))
			}
			said[a.Call] = fmt.Sprintf("%s %d left %v elapsed %v on %s", string(t.LeaseID), t.Fence, t.Left, t.Elapsed, strings.Join(at, " "))
		default:
			said[a.Call] = "done"
		}
	}
	return sayings(said)
}

func sayings(said map[uint64]string) string {
	var b strings.Builder
	for _, call := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&b, "call %d: %s\n", call, said[call])
	}
	return b.String()
}

// viewOf shows a machine as [model.view] does.
func viewOf(m *Machine) string {
	var b strings.Builder
	for s := range slotsOf(m) {
		fmt.Fprintf(&b, "%s %d units, removing %t, settles %v\n", place(s.Pool, s.ID), s.Capacity, s.Removing, s.SettleUntil)
	}
	m.pools.Scan(func(name string, p *pool) bool {
		fmt.Fprintf(&b, "pool %s removing %t\n", name, p.Removing)
		return true
	})
	for _, e := range slices.SortedFunc(maps.Values(m.requests), byNumber) {
		fmt.Fprintf(&b, "%d %s %s\n", e.Number, string(e.ID), viewOfEntry(e))
	}
	return b.String()
}

func viewOfEntry(e *entry) string {
	var at []string
	if e.wait != nil {
		for _, k := range e.wait.reserved {
			at = append(at, fmt.Sprintf("%s:%d reserved", place(k.slot.Pool, k.slot.ID), k.units))
		}
	}
	if e.Lease != nil {
		for _, p := range e.Lease.Parts {
			at = append(at, fmt.Sprintf("%s:%d %s", place(p.Pool, p.Slot), p.Units, p.State))
		}
	}
	where := strings.Join(at, " ")
	switch {
	case e.wait != nil && e.wait.absent == never:
		return "waits, present " + where
	case e.wait != nil:
		return "waits, absent"
	case e.held != nil:
		return fmt.Sprintf("holds until %v %s", e.held.expires, where)
	}
	return fmt.Sprintf("%s %s", lease.CodeOf(e.endError()), where)
}
