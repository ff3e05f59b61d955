package simulate

import (
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A Config says which history to run.
type Config struct {
	Seed uint64
	// Steps is how many steps make the history, before all is wound up; 0
	// means 20,000. A step is a decision, a command that the broker runs (but
	// a look at its clock in which nothing happens), an answer that somebody
	// gets, or something that a process does at a moment it waited for.
	Steps int
	// Until also ends it, at that true time; 0 is never. Ops bounds the
	// decisions; 0 is not at all. Drop leaves decisions out. All three are
	// for replays of a part.
	Until time.Duration
	Ops   int
	Drop  map[int]bool
	// Fault breaks one rule on purpose.
	Fault Fault
	// Trace gets a line for everything that happens, or is nil.
	Trace io.Writer
}

// A Breach is the first invariant that a history broke.
type Breach struct {
	// Rule is I1 to I9, "books" where the state differs from its records, or
	// "end" where something did not come back.
	Rule string
	Text string
	Step int
	// At is the true time, Until when the winding up began or would have.
	At, Until time.Duration
	// Ops is how many decisions had been drawn.
	Ops int
}

// String says what broke and when.
func (b *Breach) String() string {
	return fmt.Sprintf("%s broken at %v (step %d, %d ops): %s", b.Rule, b.At, b.Step, b.Ops, b.Text)
}

// A Result is what came of a history.
type Result struct {
	// Breach is nil where all invariants held.
	Breach *Breach
	Steps  int
	Ops    int
	// Took is the virtual time of it, BrokerTime the broker's.
	Took, BrokerTime time.Duration
	Starts           int
	// Acquired and the others are the store's totals at the end.
	Acquired, Released, Orphaned, Revoked uint64
	// Withheld counts units that stayed in quarantine because nobody could
	// prove anything, until the operator cleared them.
	Withheld int
	Met      *Table
}

// A World is one history under way.
type World struct {
	cfg    Config
	now    time.Duration
	agenda agenda
	steps  int
	ops    int
	// ending says that the history is being wound up.
	ending bool
	until  time.Duration
	broken *Breach

	plan    plan
	server  *server
	disk    *disk
	hosts   []*host
	clients []*client
	desk    *desk
	truth   truth
	check   *checker
	met     *Table
	// bodies are the requests that clients have made, and who made them.
	bodies   map[key]lease.Request
	jobs     map[lease.LeaseID]*job
	calls    uint64
	leases   uint64
	withheld int
}

// Run runs one history and winds it up.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	w.server.start()
	w.nextOp(0)
	for w.broken == nil && w.steps < w.cfg.Steps && (cfg.Until == 0 || w.now < cfg.Until) {
		w.happen()
	}
	w.until = w.now
	w.windUp()
	return w.result()
}

func newWorld(cfg Config) *World {
	if cfg.Steps == 0 {
		cfg.Steps = 20_000
	}
	w := &World{
		cfg: cfg, met: &Table{}, bodies: map[key]lease.Request{}, jobs: map[lease.LeaseID]*job{},
		truth: truth{works: map[place][]*work{}},
	}
	w.plan = newPlan(newDice(cfg.Seed, streamWorld), cfg.Fault)
	w.disk = newDisk(w)
	w.check = newChecker(w)
	w.server = &server{w: w, open: map[uint64]*opening{}}
	for i := range w.plan.hosts {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	for i := range w.plan.clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	w.desk = newDesk(w)
	return w
}

// happen lets the next event happen.
func (w *World) happen() {
	e := w.agenda.next()
	w.now = e.at
	e.do()
}

// after has something happen later.
func (w *World) after(d time.Duration, do func()) { w.agenda.add(w.now+max(d, 0), do) }

// fail records the first breach.
func (w *World) fail(rule, format string, args ...any) {
	if w.broken != nil {
		return
	}
	until := w.until
	if until == 0 {
		until = w.now
	}
	w.broken = &Breach{Rule: rule, Text: fmt.Sprintf(format, args...), Step: w.steps, At: w.now, Until: until, Ops: w.ops}
	w.logf("BREACH %v", w.broken)
}

// tracing reports whether somebody reads the lines.
func (w *World) tracing() bool { return w.cfg.Trace != nil }

func (w *World) logf(format string, args ...any) {
	if w.cfg.Trace == nil {
		return
	}
	fmt.Fprintf(w.cfg.Trace, "%12.3f  %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
}

func (w *World) result() Result {
	r := Result{Breach: w.broken, Steps: w.steps, Ops: w.ops, Took: w.now, Starts: w.server.starts, Withheld: w.withheld, Met: w.met}
	if w.server.engine != nil {
		l := w.server.engine.Ledger()
		r.BrokerTime, r.Acquired, r.Released, r.Orphaned, r.Revoked = l.Now, l.Acquired, l.Released, l.Orphaned, l.Revoked
	}
	return r
}

// wall is unix time in microseconds, which never goes back here.
func (w *World) wall() uint64 { return 1_700_000_000_000_000 + uint64(w.now/time.Microsecond) }
