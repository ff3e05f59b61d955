package simulate

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/lease"
)

// An op is one decision: something that the world does to itself.
type op struct {
	text string
	do   func()
}

// nextOp has decision n drawn and made at its time. The time passes also
// where the decision is left out.
func (w *World) nextOp(n int) {
	if w.cfg.Ops > 0 && n >= w.cfg.Ops {
		return
	}
	d := newDice(w.cfg.Seed, streamOp, uint64(n))
	gap := time.Duration(d.ExpFloat64() * float64(w.plan.gap))
	if n == 0 {
		gap = 0
	}
	w.agenda.add(w.now+gap, func() {
		if w.ending || w.broken != nil {
			return
		}
		if !w.cfg.Drop[n] {
			o := w.drawOp(n, d)
			w.logf("op %d: %s", n, o.text)
			w.steps++
			o.do()
		}
		w.ops = n + 1
		w.nextOp(n + 1)
	})
}

// drawOp draws decision n. The first declares the pools.
func (w *World) drawOp(n int, d dice) op {
	if n == 0 {
		return op{"declare all pools; the agents report", func() {
			w.desk.applyAll()
			w.reportBoots()
		}}
	}
	total := 0
	for _, k := range opKinds {
		total += k.weight
	}
	at := d.IntN(total)
	for _, k := range opKinds {
		if at -= k.weight; at < 0 {
			return k.draw(w, n, d)
		}
	}
	return op{}
}

func (w *World) reportBoots() {
	for _, h := range w.hosts {
		h.reportBoot()
	}
}

// opKinds are the kinds of decisions, by how often they come.
var opKinds = []struct {
	weight int
	draw   func(w *World, n int, d dice) op
}{
	{340, drawJob}, {40, drawStorm}, {70, drawClean}, {70, drawInspect}, {40, drawBoots},
	{250, drawProbe}, {24, drawKill}, {50, drawBreak}, {230, drawSession}, {14, drawSleep}, {10, drawReboot},
	{10, drawCrash}, {5, drawStop}, {5, drawDiskFails}, {6, drawStall}, {4, drawSetBack}, {20, drawSlowDisk}, {6, drawFull},
	{40, drawApply}, {110, drawDrain}, {50, drawHealth}, {24, drawRevoke}, {40, drawClear}, {20, drawShow},
	{4, drawBackup}, {2, drawRestore},
}

func (w *World) drawClient(d dice) *client {
	return w.clients[d.IntN(w.plan.clients-w.plan.janitors)]
}

func (w *World) drawHost(d dice) *host { return w.hosts[d.IntN(len(w.hosts))] }

func drawStorm(w *World, _ int, d dice) op {
	s := storm{lost: 0.3 * d.Float64(), twice: 0.3 * d.Float64(), held: 0.05 * d.Float64(), broken: 0.2 * d.Float64(), delay: d.between(20*time.Millisecond, 3*time.Second)}
	if d.in(0.1) {
		s.lost = 1
	}
	long := d.between(2*time.Second, 60*time.Second)
	i := d.IntN(len(w.clients) + 1)
	if d.in(0.25) {
		i = len(w.clients) + d.IntN(len(w.hosts))
	} else if i == len(w.clients) {
		i = len(w.clients) + len(w.hosts)
	}
	set := func(l *link) { l.storm = s; l.storm.until = w.now + long }
	text := fmt.Sprintf("for %v: %.0f%% of packets lost, %.0f%% doubled, %.0f%% held, %.0f%% break, delays to %v", long, 100*s.lost, 100*s.twice, 100*s.held, 100*s.broken, s.delay)
	switch {
	case i < len(w.clients):
		return op{fmt.Sprintf("client %d's link, %s", i, text), func() { set(w.clients[i].link) }}
	case i < len(w.clients)+len(w.hosts):
		h := w.hosts[i-len(w.clients)]
		return op{h.name + "'s agent's link, " + text, func() { set(h.link) }}
	}
	return op{"all links, " + text, func() {
		for _, c := range w.clients {
			set(c.link)
		}
	}}
}

func drawKill(w *World, _ int, d dice) op {
	c := w.drawClient(d)
	if c.session != nil && d.in(0.6) {
		return op{fmt.Sprintf("client %d drops what it does, and goes on with its session", c.n), c.dropped}
	}
	return op{fmt.Sprintf("kill the process of client %d", c.n), c.killed}
}

func drawBreak(w *World, _ int, d dice) op {
	c := w.drawClient(d)
	return op{fmt.Sprintf("break the connections of client %d", c.n), func() {
		if c.session != nil {
			c.session.hangUp()
			w.after(d.between(time.Millisecond, 8*time.Second), c.reconnect)
		}
		if c.job != nil && c.job.try != nil && !c.job.try.done {
			c.job.try.reset()
		}
	}}
}

// drawSession has a client with a session let a waiter be, whom the session
// keeps present, open another connection, or stay away for longer than a
// waiter may be absent.
func drawSession(w *World, _ int, d dice) op {
	from, long := d.IntN(len(w.clients)), d.between(0, 20*time.Second)
	switch {
	case d.in(0.3):
		return op{"a client lets its waiter be, and keeps its session", func() {
			if c := w.sessionClient(from, (*client).waits); c != nil {
				c.dropped()
			}
		}}
	case d.in(0.5):
		return op{fmt.Sprintf("some session has one more connection for %v", long), func() {
			c := w.sessionClient(from, (*client).leftWaiter)
			if c == nil || long > 10*time.Second {
				c = w.sessionClient(from, func(c *client) bool { return c.session.known })
			}
			if c != nil {
				c.session.another(long)
			}
		}}
	case d.in(0.5):
		return op{"some session is cut off for 70s", func() {
			if c := w.sessionClient(from, (*client).leftWaiter); c != nil {
				c.session.hangUp()
				c.session.away = w.now + 70*time.Second
			}
		}}
	}
	return op{fmt.Sprintf("some session comes back, and breaks after %v", long), func() {
		c := w.sessionClient(from, (*client).endedAbsent)
		if c == nil {
			c = w.sessionClient(from, func(c *client) bool { return c.session.known })
		}
		if c != nil {
			c.session.connect()
			w.after(long, c.session.hangUp)
		}
	}}
}

// endedAbsent reports whether a waiter of the session ended as absent.
func (c *client) endedAbsent() bool {
	for _, p := range c.w.check.books.ended {
		session, _ := p.key.inSession()
		if c.session.known && session == c.session.id && p.End == lease.EndAbsent {
			return true
		}
	}
	return false
}

// sessionClient returns the next client with a session that fits, from that
// number on.
func (w *World) sessionClient(from int, fits func(*client) bool) *client {
	for i := range w.clients {
		c := w.clients[(from+i)%len(w.clients)]
		if c.session != nil && !c.host.sleeping() && fits(c) {
			return c
		}
	}
	return nil
}

func (c *client) waits() bool { return c.job != nil && c.job.phase == asking }

// leftWaiter reports whether the session has a waiter that nobody asks for.
func (c *client) leftWaiter() bool {
	for _, p := range c.w.check.books.live {
		session, _ := p.key.inSession()
		if p.State == lease.Waiting && session == c.session.id && (c.job == nil || c.job.key != p.key) {
			return true
		}
	}
	return false
}

// reconnect opens a session's connection again, where it is of use.
func (c *client) reconnect() {
	if c.job != nil && !c.host.sleeping() {
		c.session.connect()
	}
}

func drawSleep(w *World, _ int, d dice) op {
	h, long := w.drawHost(d), d.between(time.Second, 90*time.Second)
	return op{fmt.Sprintf("%s sleeps for %v", h.name, long), func() { h.sleep(long) }}
}

func drawReboot(w *World, _ int, d dice) op {
	h, later := w.drawHost(d), d.between(0, 20*time.Second)
	return op{fmt.Sprintf("%s reboots, its agent reports after %v", h.name, later), func() {
		h.reboot()
		w.after(later, h.reportBoot)
	}}
}

func drawBoots(w *World, _ int, d dice) op {
	h := w.drawHost(d)
	if held := d.between(0, 4*time.Minute); d.in(0.1) || w.cfg.Fault == StaleBoots {
		return op{fmt.Sprintf("%s's agent reports its boot id, which takes %v", h.name, held), func() { h.reportBootLate(held) }}
	}
	return op{h.name + "'s agent reports its boot id", h.reportBoot}
}

func drawCrash(w *World, _ int, d dice) op {
	kept, down := d.in(0.5), d.between(10*time.Millisecond, 15*time.Second)
	return op{fmt.Sprintf("the broker crashes (commit under way kept: %v), down for %v", kept, down), func() {
		if w.server.state == serverDown {
			return
		}
		w.server.crash(kept)
		w.server.restartIn(down)
	}}
}

func drawStop(w *World, _ int, d dice) op {
	return op{"the broker is stopped in good order", w.server.stop}
}

func drawDiskFails(w *World, _ int, d dice) op {
	kept := d.in(0.5)
	return op{fmt.Sprintf("the next commit fails (kept: %v)", kept), func() {
		if w.server.state != serverDown {
			w.disk.store.Crash(kept)
		}
	}}
}

func drawStall(w *World, _ int, d dice) op {
	long := pick(d, 40*time.Second, d.between(500*time.Millisecond, 10*time.Second))
	return op{fmt.Sprintf("the broker's process stalls for %v", long), func() { w.server.stall(long) }}
}

func drawSetBack(w *World, _ int, d dice) op {
	back := d.between(0, time.Minute)
	return op{fmt.Sprintf("the broker's clock is set back by %v", back), func() { w.server.setBack += back }}
}

func drawSlowDisk(w *World, _ int, d dice) op {
	long := d.between(2*time.Second, 30*time.Second)
	return op{fmt.Sprintf("commits are slow for %v", long), func() { w.disk.slow = w.now + long }}
}

func drawFull(w *World, _ int, d dice) op {
	long := d.between(time.Second, 20*time.Second)
	return op{fmt.Sprintf("the store is full for %v", long), func() { w.disk.fullUntil = w.now + long }}
}

func drawBackup(w *World, _ int, d dice) op {
	return op{"a backup is taken", func() {
		if w.plan.restores && w.server.state != serverDown {
			w.disk.takeBackup()
		}
	}}
}

func drawRestore(w *World, _ int, d dice) op {
	return op{"the last backup is restored", func() {
		if w.plan.restores {
			w.desk.restore()
		}
	}}
}

func drawShow(w *World, _ int, d dice) op {
	return op{"somebody lists everything", w.desk.show}
}
