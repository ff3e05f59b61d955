package record

import "github.com/berth-dev/berth/lease"

// The functions below list the fields of each record, in the order in which
// they stand in a value. They are the format: see the package comment before
// changing one.

func (c *coder) fields(record any) {
	switch r := record.(type) {
	case *lease.Ledger:
		c.ledger(r)
	case *lease.Start:
		c.int((*int64)(&r.Began))
		c.bool(&r.Settle)
		c.bool(&r.Kept)
	case *lease.Pool:
		c.pool(r)
	case *lease.Slot:
		c.slot(r)
	case *lease.Session:
		c.uint(&r.Mark)
		c.uint(&r.After)
	case *lease.Host:
		c.id(&r.Boot)
	case *lease.Entry:
		c.entry(r)
	}
}

func (c *coder) ledger(r *lease.Ledger) {
	c.int((*int64)(&r.Now))
	c.uint((*uint64)(&r.Fence))
	c.uint(&r.Number)
	c.uint(&r.Start)
	c.uint(&r.Acquired)
	c.uint(&r.Released)
	c.uint(&r.Orphaned)
	c.uint(&r.Revoked)
}

func (c *coder) pool(r *lease.Pool) {
	c.name((*string)(&r.Source))
	c.settings(&r.Settings)
	c.bool(&r.Drained)
	c.bool(&r.Removing)
}

func (c *coder) settings(s *lease.Settings) {
	c.int((*int64)(&s.TTL))
	c.int((*int64)(&s.MaxTTL))
	c.int((*int64)(&s.MaxHold))
	c.int((*int64)(&s.StallAfter))
	c.bool(&s.StallRevokes)
	c.handover(&s.Handover)
	for i := range makeList(c, &s.Clean, 1) {
		c.text(&s.Clean[i])
	}
}

func (c *coder) handover(h *lease.Handover) {
	c.int((*int64)(&h.After))
	c.byte((*uint8)(&h.Proofs), uint8(lease.ProofTree|lease.ProofBoot|lease.ProofCleaned))
	c.int((*int64)(&h.Max))
}

func (c *coder) slot(r *lease.Slot) {
	c.name((*string)(&r.Source))
	c.labels(&r.Labels)
	c.int(&r.Capacity)
	c.bool(&r.Drained)
	c.bool(&r.Removing)
	c.text(&r.Unhealthy)
	c.int((*int64)(&r.SettleUntil))
	c.int((*int64)(&r.Freed))
}

func (c *coder) entry(e *lease.Entry) {
	c.name((*string)(&e.Caller))
	c.id((*string)(&e.ID))
	c.raw(e.Digest[:])
	c.byte((*uint8)(&e.State), uint8(lease.Ended))
	c.int((*int64)(&e.Arrived))
	c.byte((*uint8)(&e.End), uint8(lease.EndRevoked))
	c.name((*string)(&e.Code))
	c.text(&e.Reason)
	c.int((*int64)(&e.Ended))
	c.int((*int64)(&e.Settled))
	if makeOne(c, &e.Request) {
		c.idLike((*string)(&e.Request.ID), string(e.ID))
		c.request(e.Request)
	}
	if makeOne(c, &e.Lease) {
		c.lease(e.Lease)
	}
}

// request lists a request's fields without its id.
func (c *coder) request(r *lease.Request) {
	for i := range makeList(c, &r.Claims, leastClaim) {
		c.claim(&r.Claims[i])
	}
	c.int((*int64)(&r.TTL))
	c.int((*int64)(&r.MaxHold))
	c.int((*int64)(&r.Wait))
	c.smallInt(&r.Priority)
	c.holder(&r.Holder)
	c.text(&r.Note)
}

// The fewest bytes that a claim and a part take.
const (
	leastClaim = 4
	leastPart  = 9
)

func (c *coder) claim(r *lease.Claim) {
	c.name(&r.Pool)
	c.smallInt(&r.Count)
	c.int(&r.Units)
	c.labels(&r.Select)
}

func (c *coder) holder(h *lease.Holder) {
	c.name(&h.Name)
	c.machine(&h.Machine)
	c.machine(&h.Boot)
	c.smallInt(&h.Process.PID)
	c.uint(&h.Process.Start)
	c.uint(&h.Process.Namespace)
	c.text(&h.Cgroup.Path)
	c.uint(&h.Cgroup.Inode)
	c.uint(&h.Cgroup.Namespace)
}

func (c *coder) lease(l *lease.Lease) {
	c.id((*string)(&l.ID))
	c.uint((*uint64)(&l.Fence))
	c.int((*int64)(&l.TTL))
	c.int((*int64)(&l.Granted))
	c.int((*int64)(&l.HoldUntil))
	c.uint(&l.Start)
	c.int((*int64)(&l.Promised))
	c.holder(&l.Holder)
	c.idLike(&l.HostBoot, l.Holder.Boot)
	c.text(&l.Note)
	for i := range makeList(c, &l.Parts, leastPart) {
		c.part(&l.Parts[i])
	}
	if makeOne(c, &l.Cleans) {
		c.uint(&l.Cleans.Number)
		c.smallInt(&l.Cleans.Part)
	}
}

func (c *coder) part(p *lease.Part) {
	c.name(&p.Pool)
	c.name(&p.Slot)
	c.int(&p.Units)
	c.terms(&p.Terms)
	c.byte((*uint8)(&p.State), uint8(lease.PartFree))
	c.int((*int64)(&p.Since))
	c.int((*int64)(&p.Cleanable))
	c.uint(&p.Cleaner)
	c.int((*int64)(&p.Freed))
}

func (c *coder) terms(p **lease.Terms) {
	there := *p != nil
	c.bool(&there)
	if !there {
		return
	}
	var t lease.Terms
	if !c.reading() {
		t = **p
	}
	c.handover(&t.Handover)
	c.bool(&t.Clean)
	c.int((*int64)(&t.StallAfter))
	c.bool(&t.StallRevokes)
	if c.reading() {
		*p = c.from.share(t)
	}
}
