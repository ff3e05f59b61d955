package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
	"github.com/berth-dev/berth/lease/machine"
)

// A cleaning names quarantined units that a janitor means to clean.
type cleaning struct {
	at place
	of lease.LeaseID
}

// askToClean asks up to three times with the same id, then cancels: as with
// an acquire, the token was then never handed out.
func (j *job) askToClean() {
	if !j.alive() || j.phase != asking {
		return
	}
	j.cleanTry++
	if j.cleanTry > 3 {
		j.dropClean()
		return
	}
	j.try.hangUp()
	sent := j.host.now()
	cmd := machine.Clean{
		Caller: j.key.caller, ID: j.key.id, Digest: j.digest, Pool: j.in.cleaning.at.pool, Slot: j.in.cleaning.at.slot,
		Lease: j.in.cleaning.of.Ref(), TTL: j.in.ttl, Holder: j.req.Holder, Note: j.req.Note,
	}
	j.try = j.c.link.ask(j.host, "clean", j.key, func(call uint64) machine.Command {
		cmd.Call, cmd.LeaseID, cmd.StoreFull = call, j.w.leaseID(), j.w.server.full
		return cmd
	}, func(a machine.Answer, err error) { j.mayClean(sent, a.Token, errOf(a, err)) })
	j.wakeAt(sent.Mono+3*time.Second, j.askToClean)
}

func (j *job) mayClean(sent attempt.Instant, t lease.Token, err error) {
	if !j.alive() || j.phase != asking {
		return
	}
	switch code := lease.CodeOf(err); {
	case err == nil:
		if _, err := j.limits.Trust(j.host.now(), sent, t); err != nil {
			j.dropClean()
			return
		}
		j.sent = sent
		j.granted(t)
	case code == lease.CodeInternal || code == lease.CodeUnavailable || code == lease.CodeOutcomeUnknown:
		j.wakeAt(j.host.now().Mono+time.Second, j.askToClean)
	default:
		j.dropClean()
	}
}

// dropClean gives the cleaning up: what may have come of it is cancelled.
func (j *job) dropClean() {
	cmd := machine.Cancel{Caller: j.key.caller, ID: j.key.id, Unused: true}
	j.c.link.ask(nil, "cancel", j.key, func(call uint64) machine.Command {
		cmd.Call = call
		return cmd
	}, nil)
	j.finished()
}
