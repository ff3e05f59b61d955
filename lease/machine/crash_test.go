package machine

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

var crashSeeds = flag.Uint64("crash.seeds", 60, "how many seeds the crash test runs")

// TestCrashBetweenSteps drives a machine whose steps make few changes. Other
// commands come between the steps of one that is not done, and the process
// ends there and starts again. Every invariant holds after every step, and
// once the work is done nothing is left over.
func TestCrashBetweenSteps(t *testing.T) {
	for seed := uint64(1); seed <= *crashSeeds; seed++ {
		p := &pairing{
			world:   newWorld(t, Config{Retention: 30 * time.Second, StepChanges: 1 + int(seed%4)}),
			chooser: newChooser(seed), claims: map[lease.RequestID]lease.Request{},
		}
		p.crashRun()
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, strings.Join(p.log, "\n"))
		}
	}
}

func (p *pairing) crashRun() {
	defer func() {
		if r := recover(); r != nil {
			p.t.Errorf("panic: %v\n%s", r, strings.Join(p.log, "\n"))
			panic(r)
		}
	}()
	p.world.do(Restart{})
	p.world.do(p.apply())
	for range 150 {
		p.world.now += p.pause()
		cmd := p.command()
		switch p.IntN(8) {
		case 0, 1:
			cmd = Tick{}
		case 2, 3:
			cmd = p.inSession()
		}
		p.log = append(p.log, fmt.Sprintf("%v %T%+v", p.world.now, cmd, cmd))
		d := p.unfinished(cmd)
		for d.more && p.IntN(3) > 0 {
			d = p.unfinished(Tick{})
		}
		if d.more && p.IntN(2) == 0 {
			p.crash()
		}
	}
	p.world.do(Tick{})
	p.leftOver()
}

func (p *pairing) unfinished(cmd Command) said {
	p.t.Helper()
	p.noteClaims(cmd)
	d := p.oneFairStep(cmd)
	p.learn(d)
	return d
}

// crash ends the process between two steps and starts another, whose first
// work may itself be cut off.
func (p *pairing) crash() {
	p.log = append(p.log, "crash")
	p.world.m = p.world.load()
	p.world.now = max(1, p.world.m.Ledger().Now)
	p.world.audit.restarted(p.world.m)
	p.world.step(Restart{})
}

// leftOver checks that no work is left undone once the machine says so.
func (p *pairing) leftOver() {
	p.t.Helper()
	for s := range slotsOf(p.world.m) {
		if s.Removing && s.used == 0 {
			p.t.Errorf("slot %s/%s is marked for removal, idle, and still there", s.Pool, s.ID)
		}
	}
	p.world.m.pools.Scan(func(name string, pool *pool) bool {
		if pool.Removing && pool.slots.Len() == 0 && pool.queued.len() == 0 {
			p.t.Errorf("pool %s is marked for removal, empty, and still there", name)
		}
		for _, sh := range pool.shapes {
			if !sh.satisfiable() {
				p.t.Errorf("waiters wait on pool %s for what it can never give", name)
			}
		}
		return true
	})
	b := p.board()
	for _, a := range b.ranked() {
		if a.kept == nil && b.fits(a) != nil {
			p.t.Errorf("I7: request %s waits, and could be granted", a.id.Ref())
		}
	}
}

// K12: the process ends before all slots' records say that they settle. The
// next one, a plain start, keeps them all back since the restore, a slot that
// comes back later too.
func TestK12_CrashWhileSlotsBeginToSettle(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(Restart{})
	settings := lease.Settings{MaxTTL: time.Minute, TTL: time.Second}
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(200, settings)})
	w.advance(time.Second, func(said) {})
	w.m = w.load()
	w.audit.restarted(w.m)
	restored := w.now
	if d := w.step(Restart{Settle: true}); !d.more {
		t.Fatal("all of it is done in one step; the test needs more")
	}
	w.restart(Restart{})
	w.advance(time.Second, func(said) {})
	w.do(Apply{Source: lease.SourceFile, Pools: manySlots(201, settings)})
	w.restart(Restart{})
	for s := range slotsOf(w.m) {
		if want := restored + time.Minute + lease.DefaultAfter; s.SettleUntil != want {
			t.Fatalf("slot %s settles until %v, not %v", s.ID, s.SettleUntil, want)
		}
	}
}
