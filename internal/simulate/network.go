package simulate

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A storm is how badly a link behaves for a while.
type storm struct {
	// lost, twice, held and broken are parts of all packets: those that never
	// come, come twice, come up to minutes later, or break their connection.
	lost, twice, held, broken float64
	// delay is the longest of an ordinary packet.
	delay time.Duration
	until time.Duration
}

// A link is somebody's way to the broker.
type link struct {
	w     *World
	id    uint64
	count uint64
	storm storm
}

const calmDelay = 15 * time.Millisecond

// carry brings a packet over the link, or not, or twice.
func (l *link) carry(do func()) { l.carryOr(do, nil) }

// carryOr is carry for a packet whose loss may be noticed.
func (l *link) carryOr(do, broken func()) {
	l.count++
	s := l.storm
	if l.w.now >= s.until {
		s = storm{}
	}
	d := newDice(l.w.cfg.Seed, streamPacket, l.id, l.count)
	delay := d.between(time.Millisecond, max(s.delay, calmDelay))
	switch {
	case s.until == 0:
	case d.in(s.lost):
		return
	case d.in(s.broken):
		if broken != nil {
			l.w.after(delay, broken)
		}
		return
	case d.in(s.held):
		delay = d.between(5*time.Second, 4*time.Minute)
	}
	l.w.after(delay, do)
	if s.until > 0 && d.in(s.twice) {
		l.w.after(d.between(time.Millisecond, 20*time.Second), do)
	}
}

var errReset = errors.New("connection reset")

// A call is one question to the broker, and the connection that it is asked
// on. Copies of it that the network makes are calls of their own to the broker.
type call struct {
	w    *World
	link *link
	host *host // whose process asks; nil where it cannot sleep
	name string
	// about is the request that the command concerns, if it does one.
	about key
	cmd   func(id uint64) machine.Command
	got   func(machine.Answer, error)
	// leaves says that the broker is told when the connection breaks.
	leaves bool
	// pipe is set where the call opens a connection of a session.
	pipe *pipe
	// done is the asker's side: answered or hung up.
	done bool
	// open are the broker's numbers of it that are not answered.
	open []uint64
}

// ask sends a command. got hears of the first answer, unless the asker hangs
// up before; it may be nil.
func (l *link) ask(h *host, name string, about key, cmd func(id uint64) machine.Command, got func(machine.Answer, error)) *call {
	c := &call{w: l.w, link: l, host: h, name: name, about: about, cmd: cmd, got: got, leaves: name == "acquire"}
	l.carryOr(func() { l.w.server.receive(c) }, c.reset)
	return c
}

// reset has the asker notice that the connection broke.
func (c *call) reset() { c.answered(machine.Answer{}, errReset) }

// reply carries an answer back.
func (c *call) reply(a machine.Answer, err error) {
	c.link.carryOr(func() { c.answered(a, err) }, c.reset)
}

func (c *call) answered(a machine.Answer, err error) {
	if c.host != nil && c.host.defers(func() { c.answered(a, err) }) {
		return
	}
	if c.done {
		return
	}
	c.w.steps++
	c.hangUp()
	if c.got != nil {
		c.got(a, err)
	}
}

// hangUp closes the asker's side. The broker notices later.
func (c *call) hangUp() {
	if c == nil || c.done {
		return
	}
	c.done = true
	if len(c.open) == 0 {
		return
	}
	c.link.count++
	d := newDice(c.w.cfg.Seed, streamPacket, c.link.id, c.link.count)
	delay := d.between(time.Millisecond, 50*time.Millisecond)
	if d.in(0.3) {
		delay = d.between(0, 8*time.Second)
	}
	for _, id := range c.open {
		c.w.after(delay, func() { c.w.server.gone(id) })
	}
}

// errOf is an answer's error as the asker sees it.
func errOf(a machine.Answer, err error) error {
	switch {
	case err != nil:
		return err
	case a.Err != nil:
		return a.Err
	}
	return nil
}

func unavailable() *lease.Error {
	return lease.Errorf(lease.CodeUnavailable, "the broker cannot be reached")
}
