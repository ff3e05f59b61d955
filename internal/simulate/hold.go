package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease/attempt"
	"github.com/berth-dev/berth/lease/machine"
)

// watch has the process look again when its trust should end.
func (j *job) watch() {
	left := j.trustLeft()
	if left == 0 {
		j.lost("not renewed in time")
		return
	}
	j.host.at(j.host.now().Mono+left, func() bool { return j.alive() && !j.lostIt }, j.watch)
}

// woken looks at the clocks after the machine's sleep, before the work goes
// on.
func (j *job) woken() {
	if !j.alive() || j.phase == asking || j.w.cfg.Fault == IgnoreSleep {
		return
	}
	switch left := j.trustLeft(); {
	case j.lostIt && j.in.honest():
		j.w.stop(j.work) // it was stopping already
	case left > 0:
		j.watch()
	case j.in.honest():
		j.lost("the machine slept")
		j.w.stop(j.work)
	}
}

// nextBeat sends a renewal at that moment.
func (j *job) nextBeat(mono time.Duration) {
	if j.in.silent {
		return
	}
	j.host.at(mono, j.beats, j.renew)
}

// beats reports whether the process goes on renewing.
func (j *job) beats() bool {
	return j.alive() && !j.lostIt && (j.phase == holding || j.in.closing)
}

func (j *job) renew() {
	if j.trustLeft() == 0 {
		j.lost("not renewed in time")
		return
	}
	sent, id := j.host.now(), j.token.LeaseID
	j.beat.hangUp()
	c := j.c.link.ask(j.host, "renew", j.key, func(call uint64) machine.Command {
		return machine.Renew{Call: call, Caller: j.key.caller, Lease: id}
	}, nil)
	c.got = func(a machine.Answer, err error) { j.renewed(c, sent, a, err) }
	j.beat = c
	// A renewal that is not answered is given up in time for another.
	j.host.at(sent.Mono+max(j.token.TTL/6, 100*time.Millisecond), func() bool { return j.beats() && j.beat == c && !c.done }, func() {
		c.hangUp()
		j.renew()
	})
	if j.in.reports {
		j.c.link.ask(j.host, "progress", j.key, func(call uint64) machine.Command {
			return machine.Progress{Call: call, Caller: j.key.caller, Lease: id, Note: "on"}
		}, nil)
	}
}

func (j *job) renewed(c *call, sent attempt.Instant, a machine.Answer, err error) {
	if !j.beats() || j.beat != c {
		return
	}
	now := j.host.now()
	if j.w.cfg.Fault == TrustFromReply {
		sent = now
	}
	switch beat, why := attempt.Renewed(&j.trust, j.limits, now, sent, j.token, a.Token, errOf(a, err)); beat {
	case attempt.Kept:
		j.nextBeat(sent.Mono + j.period())
	case attempt.Missed:
		j.nextBeat(now.Mono + max(j.token.TTL/12, 20*time.Millisecond))
	default:
		j.lost(why.Error())
	}
}

// lost takes in that the lease is not to be trusted any more: an honest
// holder stops its work in the time that there is for it.
func (j *job) lost(why string) {
	if j.lostIt || !j.alive() {
		return
	}
	j.lostIt = true
	j.w.logf("%d: lease %s is lost: %s", j.c.n, j.token.LeaseID.Ref(), why)
	if j.work == nil || !j.work.running {
		j.afterLoss()
		return
	}
	j.host.at(j.host.now().Mono+j.stopTime(), func() bool { return !j.dead }, func() {
		j.w.stop(j.work)
		j.afterLoss()
	})
}

// stopTime is how long the work takes to stop: at the most margin and
// handover together.
func (j *job) stopTime() time.Duration {
	if !j.in.honest() {
		return j.in.deaf
	}
	most := attempt.DefaultMargin(j.token.TTL)
	if after, ok := j.token.Handover(); ok && !j.mixed() {
		most += after
	}
	return time.Duration(j.in.kill * float64(most))
}

// mixed reports whether some of the slots wait for a proof: they may be
// cleaned from the promised end on.
func (j *job) mixed() bool {
	for _, s := range j.token.Slots {
		if s.Handover.Proofs != 0 {
			return true
		}
	}
	return false
}

// afterLoss says late that the work has stopped, or ends.
func (j *job) afterLoss() {
	switch {
	case j.phase == returning && !j.gave:
	case j.phase == holding && j.in.late:
		j.giveBack(j.unclean())
	default:
		j.finished()
	}
}

// unclean reports whether a release would say too much: a cleaner's says that
// the slot is clean.
func (j *job) unclean() bool { return j.in.cleaning != nil }

// giveBack releases or abandons the lease until that is answered.
func (j *job) giveBack(abandon bool) {
	if j.phase != holding {
		return
	}
	j.phase = returning
	j.back = attempt.NewRelease(j.token.LeaseID, j.limits)
	if abandon {
		j.back = attempt.NewAbandon(j.token.LeaseID, j.limits)
	}
	j.timer++
	j.stepBack(attempt.Event{}, abandon)
}

func (j *job) stepBack(e attempt.Event, abandon bool) {
	if !j.alive() || j.phase != returning {
		return
	}
	e.At, e.Jitter = j.host.now(), j.jitter.Float64()
	a := j.back.Step(e)
	if a.Do == attempt.Done {
		j.gaveBack(a.Err)
		return
	}
	if a.Do == attempt.SendGiveBack {
		j.try.hangUp()
		j.try = j.c.link.ask(j.host, backName(abandon), j.key, j.backCommand(abandon), func(got machine.Answer, err error) {
			j.stepBack(attempt.Event{Kind: attempt.Reply, Try: a.Try, Err: errOf(got, err)}, abandon)
		})
	}
	j.wakeAt(a.Until, func() { j.stepBack(attempt.Event{}, abandon) })
}

func backName(abandon bool) string {
	if abandon {
		return "abandon"
	}
	return "release"
}

func (j *job) backCommand(abandon bool) func(uint64) machine.Command {
	caller, id := j.key.caller, j.token.LeaseID
	return func(call uint64) machine.Command {
		if abandon {
			return machine.Abandon{Call: call, Caller: caller, Lease: id, Reason: "cannot stop it"}
		}
		return machine.Release{Call: call, Caller: caller, Lease: id}
	}
}

// gaveBack ends the process, once its work has stopped too.
func (j *job) gaveBack(err error) {
	j.w.logf("%d: lease %s given back: %v", j.c.n, j.token.LeaseID.Ref(), err)
	j.gave = true
	if j.work == nil || !j.work.running {
		j.finished()
	}
}
