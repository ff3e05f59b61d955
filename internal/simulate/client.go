package simulate

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// A client is a program that asks for leases, one at a time, each in a
// process of its own.
type client struct {
	w       *World
	n       int
	host    *host
	caller  lease.Caller
	link    *link
	session *session // nil for a client without
	job     *job
	janitor bool
}

func newClient(w *World, n int) *client {
	c := &client{w: w, n: n, host: w.hosts[n%len(w.hosts)], caller: lease.Caller("user" + strconv.Itoa(n%3))}
	c.link = &link{w: w, id: uint64(n)}
	c.janitor = n >= w.plan.clients-w.plan.janitors
	if n%5 < 2 && !c.janitor {
		c.session = &session{c: c, lag: uint64(n % 4 * 4)}
	}
	return c
}

// An intent is all that a client means to do with one request.
type intent struct {
	op     int
	claims []lease.Claim
	ttl    time.Duration
	hold   time.Duration
	wait   time.Duration
	poll   time.Duration
	prio   int
	named  bool
	inside bool // in namespaces that the agent cannot look into
	seen   bool // the agent sees the holder alive
	// starts is how long after the token the work begins, works how long it
	// goes on.
	starts, works time.Duration
	end           ending
	// silent holders never renew. kill is how much of the time there is for
	// it an honest holder takes to stop; a deaf one goes on for that long.
	silent bool
	kill   float64
	deaf   time.Duration
	// closing goes on renewing while the release is under way.
	closing bool
	// late releases the lease when its work has stopped after a loss.
	late     bool
	reports  bool // says that its work makes progress
	giveUp   time.Duration
	cleaning *cleaning
}

func (i intent) honest() bool { return i.deaf == 0 }

// An ending is how a holder's work ends.
type ending uint8

const (
	endRelease ending = iota
	endAbandon        // gives the lease up; the work goes on until it has to stop
	endVanish         // the process is killed, and the work with it
	endStray          // the process is killed, the work goes on
)

var endingNames = [...]string{"releases", "abandons", "vanishes", "dies and leaves its work running"}

// begin starts a job, unless the client is busy or its machine asleep.
func (c *client) begin(in intent) {
	if c.job != nil || c.host.sleeping() || c.w.ending {
		return
	}
	j := &job{w: c.w, c: c, host: c.host, in: in, named: in.named, contained: in.inside, work: nil}
	j.jitter = newDice(c.w.cfg.Seed, streamJitter, uint64(in.op))
	c.job = j
	id := lease.RequestID("r" + strconv.Itoa(in.op))
	if c.session != nil {
		c.session.connect()
		id = c.session.next()
		j.session, j.serial = c.session.id, c.session.serial
	}
	req, err := lease.Request{
		ID: id, Claims: in.claims, TTL: in.ttl, MaxHold: in.hold, Wait: in.wait, Priority: in.prio,
		Holder: c.host.holder(in.named, in.inside), Note: "op " + strconv.Itoa(in.op),
	}.Checked()
	if err != nil {
		c.w.fail("books", "op %d makes an invalid request: %v", in.op, err)
		return
	}
	j.req, j.digest, j.key = req, req.Body(), key{caller: c.caller, id: id}
	c.w.bodies[j.key] = req
	j.limits = attempt.Limits{Poll: max(in.poll, time.Millisecond), Duplicates: true, Slack: 5 * time.Second, Cancel: 6 * time.Second, GiveBack: 20 * time.Second}
	if in.cleaning != nil {
		j.askToClean()
		return
	}
	j.acq = attempt.NewAcquire(req, j.limits)
	if in.giveUp > 0 {
		c.host.at(c.host.now().Mono+in.giveUp, func() bool { return j.phase == asking && !j.dead }, func() {
			j.step(attempt.Event{Kind: attempt.Stop})
		})
	}
	j.step(attempt.Event{})
}

// killed ends the client's process at once: its connections break.
func (c *client) killed() {
	if c.session != nil {
		c.session.hangUp()
		c.session.known = false
	}
	c.dropped()
}

// dropped ends what the client does at once. A session that goes on tells
// with its next number that it will not ask for the last any more.
func (c *client) dropped() {
	j := c.job
	if j == nil {
		return
	}
	c.job = nil
	j.dead = true
	j.try.hangUp()
	j.beat.hangUp()
	if j.work == nil || !j.work.running {
		return
	}
	if j.work.honest || j.in.end == endVanish {
		c.w.stop(j.work)
		return
	}
	k := j.work
	c.w.after(j.in.deaf, func() { c.w.stop(k) })
}
