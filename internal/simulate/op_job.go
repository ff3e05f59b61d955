package simulate

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

// drawJob has a client ask for a lease and work under it.
func drawJob(w *World, n int, d dice) op {
	c := w.drawClient(d)
	in := intent{op: n, seen: d.in(0.9), named: d.in(0.85), inside: d.in(0.1)}
	in.claims = w.drawClaims(d)
	in.drawTimes(d)
	in.drawEnd(d, w.allByProof(in.claims))
	return op{fmt.Sprintf("client %d %s", c.n, in), func() { c.begin(in) }}
}

func (in *intent) drawTimes(d dice) {
	switch {
	case d.in(0.02):
		in.ttl = time.Hour // more than any pool allows
	case d.in(0.4):
		in.ttl = d.between(time.Second, 20*time.Second).Round(time.Millisecond)
	}
	if d.in(0.1) {
		in.hold = d.between(2*time.Second, 20*time.Second)
	}
	if d.in(0.85) {
		in.wait = d.between(100*time.Millisecond, pick(d, 10*time.Second, 40*time.Second, 150*time.Second))
	}
	in.poll = pick(d, time.Second, 5*time.Second, 30*time.Second)
	if d.in(0.04) {
		// It asks again and again, so not for long.
		in.poll, in.wait = 0, min(in.wait, 8*time.Second)
	}
	if d.in(0.2) {
		in.prio = d.IntN(7) - 3
	}
	if d.in(0.3) {
		in.starts = d.between(0, 3*time.Second)
	}
	in.works = d.between(0, pick(d, time.Second, 8*time.Second, 40*time.Second))
	if d.in(0.08) {
		in.giveUp = d.between(0, 20*time.Second)
	}
	in.silent = d.in(0.12)
	in.reports = d.in(0.7)
	in.late = d.in(0.5)
	in.closing = d.in(0.5)
}

// drawEnd draws how the work ends; in pools that wait for a proof some
// holders do not care about their trust.
func (in *intent) drawEnd(d dice, byProof bool) {
	in.kill = min(1, 1.2*d.Float64())
	switch f := d.Float64(); {
	case f < 0.7:
		in.end = endRelease
	case f < 0.8:
		in.end = endAbandon
	default:
		in.end = endVanish
	}
	if byProof && d.in(0.4) {
		in.deaf = d.between(10*time.Second, 5*time.Minute)
		in.end = pick(d, endRelease, endStray, endAbandon)
		in.silent = d.in(0.4)
	}
}

func (in intent) String() string {
	var b strings.Builder
	b.WriteString("asks for")
	for i, c := range in.claims {
		if i > 0 {
			b.WriteString(" and")
		}
		fmt.Fprintf(&b, " %d of %s", max(c.Count, 1), c.Pool)
		if c.Units > 1 {
			fmt.Fprintf(&b, " (%d units)", c.Units)
		}
		for k, v := range c.Select {
			fmt.Fprintf(&b, " with %s=%s", k, v)
		}
	}
	fmt.Fprintf(&b, ", ttl %v, wait %v, poll %v, priority %d; works %v after %v, then %s", in.ttl, in.wait, in.poll, in.prio, in.works, in.starts, endingNames[in.end])
	if in.silent {
		b.WriteString("; never renews")
	}
	if in.deaf > 0 {
		fmt.Fprintf(&b, "; stops only %v after a loss", in.deaf)
	}
	if in.giveUp > 0 {
		fmt.Fprintf(&b, "; gives up after %v", in.giveUp)
	}
	return b.String()
}

func (w *World) drawClaims(d dice) []lease.Claim {
	if d.in(0.01) {
		return []lease.Claim{{Pool: "nowhere"}}
	}
	pools := d.Perm(len(w.desk.pools))[:1]
	if d.in(0.12) {
		pools = d.Perm(len(w.desk.pools))[:2+d.IntN(2)]
	}
	if len(pools) == 1 && d.in(0.4) {
		pools[0] = d.IntN(2) // g and seats are asked for most
	}
	var claims []lease.Claim
	for _, i := range pools {
		claims = append(claims, drawClaim(d, w.desk.pools[i].name))
	}
	return claims
}

func drawClaim(d dice, pool string) lease.Claim {
	c := lease.Claim{Pool: pool, Count: 1, Units: 1}
	if d.in(0.15) {
		c.Count = 2 + d.IntN(2)
	}
	if d.in(0.02) {
		c.Count = 9
	}
	switch pool {
	case "seats":
		c.Count, c.Units = 1, 1+int64(d.IntN(6))
	case "g":
		if d.in(0.4) {
			c.Select = map[string]string{"model": pick(d, "a", "b")}
		}
	}
	return c
}

// allByProof reports whether all claimed pools wait for a proof.
func (w *World) allByProof(claims []lease.Claim) bool {
	for _, c := range claims {
		if p := w.desk.pool(c.Pool); p == nil || !p.byProof {
			return false
		}
	}
	return true
}

// drawClean has a janitor clean a slot.
func drawClean(w *World, n int, d dice) op {
	c := w.clients[len(w.clients)-1-d.IntN(w.plan.janitors)]
	in := intent{op: n, named: true, seen: true, works: d.between(0, 6*time.Second), kill: min(1, 1.2*d.Float64()), late: d.in(0.5), closing: true}
	in.silent = d.in(0.1)
	switch f := d.Float64(); {
	case f < 0.15:
		in.end = endVanish
	case f < 0.3:
		in.end = endAbandon
	}
	which := d.Uint64()
	return op{fmt.Sprintf("janitor %d cleans something, works %v, then %s", c.n, in.works, endingNames[in.end]), func() {
		if p, i := w.toClean(which); p != nil {
			c.clean(in, p, i)
		}
	}}
}

func (c *client) clean(in intent, p *page, i int) {
	part := p.Lease.Parts[i]
	in.cleaning = &cleaning{at: place{part.Pool, part.Slot}, of: p.Lease.ID}
	in.claims = []lease.Claim{{Pool: part.Pool}}
	c.begin(in)
}

// toClean finds quarantined units in a pool that is cleaned.
func (w *World) toClean(which uint64) (*page, int) {
	type unit struct {
		p *page
		i int
	}
	var dirty []unit
	for _, p := range w.check.books.live {
		if p.Lease == nil || p.Lease.Cleans != nil || p.State != lease.Ended {
			continue
		}
		for i, part := range p.Lease.Parts {
			if part.State == lease.PartQuarantined && (part.Terms.Clean || part.Terms.Handover.Proofs&lease.ProofCleaned != 0) {
				dirty = append(dirty, unit{p, i})
			}
		}
	}
	if len(dirty) == 0 {
		return nil, 0
	}
	u := dirty[which%uint64(len(dirty))]
	return u.p, u.i
}
