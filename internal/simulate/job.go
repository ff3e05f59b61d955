package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
	"github.com/berth-dev/berth/lease/machine"
)

// A job is one request and the lease that comes of it: a process.
type job struct {
	w       *World
	c       *client
	host    *host
	in      intent
	req     lease.Request
	key     key
	digest  lease.Digest
	session string
	serial  uint64

	named, contained, seen bool

	phase  jobPhase
	limits attempt.Limits
	acq    attempt.Acquire
	back   attempt.GiveBack
	jitter dice
	// timer numbers what the process waits for: older timers are nothing.
	timer int
	try   *call
	sent  attempt.Instant
	beat  *call
	token lease.Token
	trust attempt.Trust
	work  *work
	// dead says that the process is gone, treeGone that the agent removed its
	// cgroup, so that it can start nothing any more.
	dead, treeGone bool
	lostIt, gave   bool
	// known is false once a restore made the broker forget about it.
	restored bool
	cleanTry int
}

type jobPhase uint8

const (
	asking jobPhase = iota
	holding
	returning
	over
)

func (j *job) alive() bool { return !j.dead && j.phase != over }

// step takes the acquire a step further.
func (j *job) step(e attempt.Event) {
	if !j.alive() || j.phase != asking {
		return
	}
	e.At, e.Jitter = j.host.now(), j.jitter.Float64()
	switch a := j.acq.Step(e); a.Do {
	case attempt.Done:
		j.asked(a)
		return
	case attempt.SendAcquire:
		j.sendAcquire(a.Try)
		j.wakeAt(a.Until, func() { j.step(attempt.Event{}) })
	case attempt.SendCancel:
		if j.w.cfg.Fault == NoCancel {
			j.step(attempt.Event{Kind: attempt.CancelReply, Try: a.Try})
			return
		}
		j.sendCancel(a.Try)
		j.wakeAt(a.Until, func() { j.step(attempt.Event{}) })
	default:
		j.wakeAt(a.Until, func() { j.step(attempt.Event{}) })
	}
}

// wakeAt replaces what the process waits for.
func (j *job) wakeAt(mono time.Duration, do func()) {
	j.timer++
	mine := j.timer
	j.host.at(mono, func() bool { return j.alive() && j.timer == mine }, do)
}

func (j *job) sendAcquire(try int) {
	j.try.hangUp()
	j.sent = j.host.now()
	cmd := machine.Acquire{Caller: j.key.caller, Request: j.req, Digest: j.digest, Poll: j.in.poll, Session: j.session, Serial: j.serial}
	if j.session != "" {
		cmd.Mark = j.c.session.mark()
	}
	j.try = j.c.link.ask(j.host, "acquire", j.key, func(call uint64) machine.Command {
		cmd.Call, cmd.LeaseID, cmd.StoreFull = call, j.w.leaseID(), j.w.server.full
		return cmd
	}, func(a machine.Answer, err error) {
		j.step(attempt.Event{Kind: attempt.Reply, Try: try, Token: a.Token, Err: errOf(a, err)})
	})
}

func (j *job) sendCancel(try int) {
	j.try.hangUp()
	cmd := machine.Cancel{Caller: j.key.caller, ID: j.key.id, Unused: true}
	j.try = j.c.link.ask(j.host, "cancel", j.key, func(call uint64) machine.Command {
		cmd.Call = call
		return cmd
	}, func(a machine.Answer, err error) {
		j.step(attempt.Event{Kind: attempt.CancelReply, Try: try, Err: errOf(a, err)})
	})
}

// asked takes in the end of the acquire: a token or an error.
func (j *job) asked(a attempt.Action) {
	j.w.logf("%v: acquire of %s ends with lease %s, error %v", j.c.n, j.key.id.Ref(), a.Token.LeaseID.Ref(), a.Err)
	if a.Err == nil {
		j.granted(a.Token)
		return
	}
	j.finished()
	j.w.check.acquireFailed(j, a.Err)
}

// finished ends the process in good order.
func (j *job) finished() {
	j.phase, j.dead = over, true
	j.try.hangUp()
	j.beat.hangUp()
	if j.c.job == j {
		j.c.job = nil
	}
}

// granted begins the hold.
func (j *job) granted(t lease.Token) {
	now, sent := j.host.now(), j.sent
	if j.w.cfg.Fault == TrustFromReply {
		sent = now
		t.Left = t.TTL
	}
	trust, err := j.limits.Trust(now, sent, t)
	if err != nil {
		j.w.fail("I8", "a token was handed out that cannot be trusted: %v", err)
		return
	}
	j.phase, j.token, j.trust, j.seen = holding, t, trust, j.in.seen && !j.contained && !j.host.withheld
	j.timer++
	j.w.jobs[t.LeaseID] = j
	j.watch()
	j.nextBeat(now.Mono + j.period())
	j.host.at(now.Mono+j.in.starts, j.alive, j.startWork)
}

func (j *job) period() time.Duration {
	return min(j.token.TTL/3, j.trustLeft()/2)
}

func (j *job) trustLeft() time.Duration { return j.trust.Left(j.host.now()) }

// startWork spawns the work, if the lease is still trusted and the process
// still can.
func (j *job) startWork() {
	if j.phase != holding || j.lostIt || j.work != nil {
		return
	}
	if j.trustLeft() == 0 {
		j.lost("trust ended before the work began")
		return
	}
	if j.treeGone {
		j.giveBack(j.unclean())
		return
	}
	k := &work{lease: j.token.LeaseID, key: j.key, host: j.host, honest: j.in.honest(), caps: j.w.check.caps[j.token.LeaseID]}
	if j.in.cleaning != nil {
		k.cleans = j.in.cleaning.of
	}
	for _, s := range j.token.Slots {
		k.places, k.units = append(k.places, place{s.Pool, s.ID}), append(k.units, s.Units)
	}
	j.work = k
	j.w.begin(k)
	j.host.at(j.host.now().Mono+j.in.works, j.alive, j.workDone)
}

// workDone ends the work as it was meant to end.
func (j *job) workDone() {
	if j.phase != holding || j.lostIt {
		return
	}
	switch j.in.end {
	case endRelease:
		if j.w.cfg.Fault != ReleaseEarly {
			j.stopWork()
		} else {
			k := j.work
			j.w.after(5*time.Second, func() { j.w.stop(k) })
		}
		j.giveBack(false)
	case endAbandon:
		if j.in.cleaning != nil && j.in.late {
			j.w.stop(j.work)
		}
		j.giveBack(true)
	default:
		j.c.killed()
	}
}

// stopWork ends the work; a cleaner's has then made the slot fit, whatever
// ran there.
func (j *job) stopWork() {
	if j.work == nil || !j.work.running {
		return
	}
	if c := j.in.cleaning; c != nil {
		for _, k := range append([]*work{}, j.w.truth.on(c.at)...) {
			if k.lease == c.of {
				j.w.stop(k)
			}
		}
	}
	j.w.stop(j.work)
}

// removeTree is the agent's: it kills what runs and removes the cgroup.
func (j *job) removeTree() {
	j.treeGone = true
	if j.work == nil || !j.work.running {
		return
	}
	j.w.stop(j.work)
	if j.alive() && j.phase == holding {
		j.giveBack(j.unclean())
	}
}
