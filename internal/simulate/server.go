package simulate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A server is the broker's process: the loop around the engine that package
// broker runs in a goroutine, here one turn at a time.
type server struct {
	w      *World
	state  serverState
	engine *broker.Engine
	clock  broker.Clock
	starts int
	// life numbers the processes, so that what an old one began comes to
	// nothing in the next.
	life    int
	stalled time.Duration // until then it does not run
	inbox   []arrived
	open    map[uint64]*opening
	commit  *broker.Commit
	// synced says that the commit is through and the engine has not heard.
	synced bool
	full   bool
	// setBack is how far the clock underneath has been set back.
	setBack time.Duration
	// sealed is the broker time of the last commit that was sent.
	sealed time.Duration
	// sessions are the connections of sessions that the broker has taken in.
	sessions []sessionConn
}

type serverState uint8

const (
	serverDown serverState = iota
	serverStarting
	serverServing
	serverStopping
)

// An arrived command has not been applied yet.
type arrived struct {
	id  uint64
	c   *call
	cmd machine.Command // for what is no call
	how string
	of  key
}

// An opening is a call that the broker has not answered.
type opening struct {
	c *call
	// The rest is set when the answer is decided.
	decided bool
	rests   int
	at      time.Duration
	// start is the broker's start that last gave the lease its time.
	start uint64
}

// receive takes a command off the network.
func (s *server) receive(c *call) {
	if s.state != serverServing {
		c.reply(machine.Answer{}, unavailable())
		return
	}
	s.w.calls++
	id := s.w.calls
	c.open = append(c.open, id)
	s.open[id] = &opening{c: c}
	s.inbox = append(s.inbox, arrived{id: id, c: c})
	if c.done {
		life := s.life
		s.w.after(time.Second, func() {
			if s.life == life {
				s.gone(id)
			}
		})
	}
	s.turn()
}

// gone notices that the connection of a call has broken.
func (s *server) gone(id uint64) {
	o := s.open[id]
	if o == nil {
		return
	}
	s.forget(id)
	if !o.c.leaves {
		return
	}
	leave := arrived{how: "leave", of: o.c.about, cmd: machine.Leave{Caller: o.c.about.caller, ID: o.c.about.id, Call: id}}
	s.inbox = append(s.inbox, leave)
	s.noticeAgain(id, leave)
	s.turn()
}

// noticeAgain has a connection's end noticed a second time, as by a timeout
// after a reset: whoever listens by another call still does.
func (s *server) noticeAgain(id uint64, leave arrived) {
	d := newDice(s.w.cfg.Seed, streamNotice, id)
	if !d.in(0.25) {
		return
	}
	late := d.between(0, 20*time.Second)
	if d.in(0.4) {
		late = d.between(time.Minute, 3*time.Minute) // when the waiter has long ended as absent
	}
	life := s.life
	s.w.after(late, func() {
		if s.life == life {
			s.inbox = append(s.inbox, leave)
			s.turn()
		}
	})
}

func (s *server) forget(id uint64) {
	o := s.open[id]
	delete(s.open, id)
	o.c.open = slices.DeleteFunc(o.c.open, func(n uint64) bool { return n == id })
}

// turn is one round of the loop: gather, apply, commit, answer.
func (s *server) turn() {
	if s.state == serverDown || s.w.now < s.stalled || s.engine == nil {
		return
	}
	if s.synced {
		s.synced, s.commit = false, nil
		s.engine.Committed()
	}
	for {
		s.apply()
		if s.state == serverDown {
			return
		}
		s.seal()
		s.deliver()
		if s.w.broken != nil || !s.engine.More() {
			break
		}
	}
	if s.commit != nil {
		return
	}
	switch s.state {
	case serverStarting:
		s.state = serverServing
		s.look(s.life)
	case serverStopping:
		s.stopped()
	}
}

func (s *server) apply() {
	inbox := s.inbox
	s.inbox = nil
	for _, in := range inbox {
		if in.c == nil {
			s.do(in.how, in.of, in.cmd)
			continue
		}
		s.do(in.c.name, in.c.about, in.c.cmd(in.id))
		s.afterCall(in)
	}
	if s.engine.More() {
		s.do("tick", key{}, machine.Tick{})
	}
}

// do runs one command and has everything about it checked.
func (s *server) do(name string, about key, cmd machine.Command) {
	if s.w.broken != nil {
		return
	}
	now := s.observe()
	s.w.check.before(name, about, cmd)
	real := cmd
	if l, ok := cmd.(machine.Leave); ok && l.Session == "" && s.w.cfg.Fault == MissLeaves {
		real = machine.Show{}
	}
	if err := s.engine.Do(now, real); err != nil {
		s.w.fail("books", "the engine gave up: %v", err)
		return
	}
	fx := s.engine.Effects()
	if _, tick := cmd.(machine.Tick); !tick || len(fx.Changes)+len(fx.Answers) > 0 {
		s.w.steps++
	}
	if s.w.tracing() {
		s.w.traceStep(now, cmd, fx)
	}
	s.w.check.after(name, about, cmd, now, fx)
	if s.w.cfg.Fault == AnswerEarly {
		for _, a := range slices.Clone(fx.Answers) {
			s.answer(a)
		}
	}
}

// observe returns broker time.
func (s *server) observe() time.Duration {
	was := s.engine.Now()
	now := s.clock.Observe(s.clockReading())
	s.w.check.checkClock(was, now)
	return now
}

// seal starts a commit if the disk is free.
func (s *server) seal() {
	if s.commit != nil {
		return
	}
	c, ok, err := s.engine.Seal()
	if err != nil {
		s.w.fail("books", "cannot seal a batch: %v", err)
		return
	}
	if !ok {
		return
	}
	s.commit, s.sealed = &c, s.engine.Now()
	life := s.life
	s.w.agenda.add(s.w.now+s.w.disk.delay(), func() {
		if s.life == life && s.commit != nil && !s.synced {
			s.sync()
		}
	})
}

// sync makes the commit.
func (s *server) sync() {
	if err := s.w.disk.commit(*s.commit); err != nil {
		s.w.logf("the store failed: %v", err)
		s.failed()
		return
	}
	s.synced = true
	s.turn()
}

// deliver gives out what is durable.
func (s *server) deliver() {
	for _, a := range slices.Clone(s.engine.Ready()) {
		s.answer(a)
	}
	s.w.check.told(len(s.engine.Told()))
}

func (s *server) answer(a machine.Answer) {
	o := s.open[a.Call]
	if o == nil {
		return
	}
	s.forget(a.Call)
	s.w.check.says(o, a)
	if a.Err != nil {
		o.c.reply(a, a.Err)
		return
	}
	o.c.reply(a, nil)
}

// extendAgain is the fault ExtendAgain: each start gives every lease its time
// again.
func (s *server) extendAgain() {
	if s.w.cfg.Fault != ExtendAgain {
		return
	}
	s.w.check.deaf = true
	for _, p := range slices.Clone(s.w.check.books.live) {
		if p.State == lease.Held {
			s.do("renew", p.key, machine.Renew{Call: 1, Caller: p.key.caller, Lease: p.Lease.ID})
		}
	}
	s.w.check.deaf = false
}

// look lets broker time pass, again and again.
func (s *server) look(life int) {
	if s.life != life || s.state != serverServing || s.w.broken != nil {
		return
	}
	if s.w.now < s.stalled {
		s.w.agenda.add(s.stalled, func() { s.look(life) })
		return
	}
	s.turn()
	if s.life != life || s.state != serverServing {
		return
	}
	s.full = s.w.disk.full()
	s.do("tick", key{}, machine.Tick{})
	s.turn()
	if s.commit == nil && s.state == serverServing {
		s.w.check.checkCommitted(s.engine.Now(), s.sealed)
	}
	wait := 250 * time.Millisecond
	if due, ok := s.engine.Next(); ok {
		wait = min(wait, max(due-s.engine.Now(), time.Millisecond))
	}
	s.w.agenda.add(s.w.now+wait, func() { s.look(life) })
}

// stall stops the process for a while, with everything waiting in its socket.
func (s *server) stall(d time.Duration) {
	s.stalled = max(s.stalled, s.w.now+d)
	s.w.after(s.stalled-s.w.now, s.turn)
}

// crash ends the process at once. What is under way to the disk may arrive.
func (s *server) crash(applied bool) {
	if s.state == serverDown {
		return
	}
	if s.commit != nil && !s.synced && applied {
		s.w.disk.commit(*s.commit)
	}
	s.end(func(c *call) { c.link.carry(c.reset) })
}

// failed ends a process whose store failed: whoever waits hears that the
// outcome is unknown.
func (s *server) failed() {
	s.end(func(c *call) {
		c.reply(machine.Answer{}, lease.Errorf(lease.CodeOutcomeUnknown, "the broker's store failed"))
	})
	s.restartIn(2 * time.Second)
}

// stop ends the process after a last commit of all that was taken in.
func (s *server) stop() {
	if s.state != serverServing {
		return
	}
	s.state = serverStopping
	s.turn()
}

func (s *server) stopped() {
	s.w.check.orderly()
	s.end(func(c *call) {
		c.reply(machine.Answer{}, lease.Errorf(lease.CodeOutcomeUnknown, "the broker stopped before it could answer"))
	})
	s.restartIn(3 * time.Second)
}

func (s *server) end(tell func(*call)) {
	s.w.logf("broker ends")
	ids := make([]uint64, 0, len(s.open))
	for id := range s.open {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uint64) int { return cmp.Compare(a, b) })
	for _, id := range ids {
		c := s.open[id].c
		s.forget(id)
		tell(c)
	}
	s.state, s.commit, s.synced, s.inbox = serverDown, nil, false, nil
	s.sessions = nil
	s.stalled = 0
	s.life++
}

// restartIn starts the next process after a while.
func (s *server) restartIn(d time.Duration) {
	life := s.life
	s.w.after(d, func() {
		if s.life == life && s.state == serverDown {
			s.start()
		}
	})
}

// start begins a process over what the disk holds.
func (s *server) start() {
	settle := s.w.disk.restored
	s.w.disk.restored = false
	// What a restart meets are the states in which the last process ended.
	s.w.meet("restart", key{}, machine.Restart{})
	s.w.disk.reopen()
	engine, err := broker.LoadEngine(context.Background(), s.w.plan.machine, s.w.disk.store)
	if err != nil {
		s.w.fail("books", "the store cannot be loaded: %v", err)
		return
	}
	s.engine, s.state = engine, serverStarting
	s.clock = broker.NewClock(engine.Now(), s.clockReading())
	s.starts++
	fence := s.w.wall()
	if s.w.cfg.Fault == FenceFromStore {
		fence = 0
	}
	s.w.check.loaded(settle)
	s.do("restart", key{}, machine.Restart{Fence: fence, Settle: settle})
	s.extendAgain()
	s.turn()
}

func (s *server) clockReading() time.Duration {
	if s.w.cfg.Fault == FastClock {
		return s.w.now * 2
	}
	return s.w.now - s.setBack
}

// hostBoot is what the broker knows of a machine's boot id.
func (s *server) hostBoot(machine string) string {
	if s.engine == nil {
		return ""
	}
	return s.engine.HostBoot(machine)
}
