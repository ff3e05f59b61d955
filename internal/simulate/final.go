package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// windUp ends a history: the weather is calm, every client stops, agents and
// janitors do their work, time passes. Then everything has to be back.
func (w *World) windUp() {
	if w.broken != nil {
		return
	}
	w.ending = true
	w.logf("winding up")
	w.calm()
	if w.server.state == serverDown {
		w.server.start()
	}
	w.passTime(5 * time.Second)
	for _, c := range w.clients {
		c.stop()
	}
	w.truth.stopAll(func(*work) bool { return true })
	// The longest lease, handover, retention of a settling, and cleaning.
	for range 30 {
		w.tidy()
		w.passTime(10 * time.Second)
	}
	w.clearRest()
	w.passTime(10 * time.Second)
	w.checkEmpty()
}

func (w *World) calm() {
	for _, c := range w.clients {
		c.link.storm = storm{}
	}
	for _, h := range w.hosts {
		h.link.storm = storm{}
	}
	w.desk.link.storm = storm{}
	w.disk.slow, w.disk.fullUntil = 0, 0
}

func (w *World) passTime(d time.Duration) {
	end := w.now + d
	for w.broken == nil && len(w.agenda.items) > 0 && w.agenda.items[0].at <= end {
		w.happen()
	}
	w.now = end
}

// stop ends what the client does: a killed process, with all its work.
func (c *client) stop() {
	c.killed()
}

// tidy has agents report, janitors clean and all slots be of use.
func (w *World) tidy() {
	w.reportBoots()
	for _, p := range w.check.books.live {
		if j := w.jobOf(p); j != nil && p.Lease != nil && p.State == lease.Ended {
			j.host.inspect(j, p.Lease.ID, false)
		}
	}
	w.ending = false
	for n, c := range w.clients {
		if !c.janitor {
			continue
		}
		if p, i := w.toClean(uint64(n)); p != nil {
			c.clean(intent{op: 1_000_000 + w.steps*100 + n, works: time.Second, closing: true, named: true, seen: true}, p, i)
		}
	}
	w.ending = true
}

func (w *World) jobOf(p *page) *job {
	if p.Lease == nil {
		return nil
	}
	return w.jobs[p.Lease.ID]
}

// clearRest has the operator clear what nobody could prove: those leases, and
// only those, may still be in quarantine.
func (w *World) clearRest() {
	for _, p := range w.check.books.live {
		if p.Lease == nil || p.State != lease.Ended {
			continue
		}
		for i, part := range p.Lease.Parts {
			if part.State != lease.PartQuarantined {
				continue
			}
			if part.Terms.Handover.Proofs == 0 || w.provable(p, part) {
				w.fail("end", "%s: slot %s/%s is still quarantined", w.check.ref(p), part.Pool, part.Slot)
				return
			}
			w.withheld++
			w.desk.sendClear(p, i)
		}
	}
}

// provable reports whether an agent could have proved the end of the work.
func (w *World) provable(p *page, part lease.Part) bool {
	if part.Terms.Handover.Proofs&lease.ProofCleaned != 0 {
		return true
	}
	if w.check.rebooted(p) && part.Terms.Handover.Proofs&lease.ProofBoot != 0 {
		return true
	}
	j := w.jobOf(p)
	return j != nil && part.Terms.Handover.Proofs&lease.ProofTree != 0 && j.named && !j.contained && j.seen && !j.host.withheld
}

// checkEmpty checks that everything is back.
func (w *World) checkEmpty() {
	if w.broken != nil {
		return
	}
	l := w.server.engine.Ledger()
	for _, p := range w.check.books.live {
		w.fail("end", "%s is %s %s", w.check.ref(p), p.State, p.End)
	}
	if l.Acquired != l.Released+l.Orphaned+l.Revoked {
		w.fail("end", "acquired %d is not released %d + orphaned %d + revoked %d", l.Acquired, l.Released, l.Orphaned, l.Revoked)
	}
	for _, s := range w.check.books.inOrder {
		if s.used != 0 {
			w.fail("end", "slot %v has %d units in use", s.at, s.used)
		}
	}
}
