package machine

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A chooser makes up commands that small pools meet often: repeats, late
// releases, cleaners, restarts, reloads.
type chooser struct {
	*rand.Rand
	calls, ids, leases uint64
	// recent are the last requests and what is known of them.
	recent []*made
	open   []made
}

// made is a request that was made up.
type made struct {
	acquire Acquire
	lease   lease.LeaseID
	cleaner bool
}

func newChooser(seed uint64) *chooser { return &chooser{Rand: rand.New(rand.NewPCG(seed, 1))} }

// one of several, by weight.
func (c *chooser) oneOf(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := c.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return 0
}

func oneOfThese[T any](c *chooser, list ...T) T { return list[c.IntN(len(list))] }

func (c *chooser) call() uint64 {
	c.calls++
	return c.calls
}

func (c *chooser) leaseID() lease.LeaseID {
	c.leases++
	return lease.LeaseID(fmt.Sprintf("L%d", c.leases))
}

// command makes up the next command.
func (c *chooser) command() Command {
	switch c.oneOf(30, 12, 6, 6, 10, 16, 4, 3, 3, 4, 5, 5, 6, 3, 3, 4, 3) {
	case 0:
		return c.ask()
	case 1:
		return c.askAgain()
	case 2:
		return c.leave()
	case 3:
		return Cancel{Call: c.call(), Caller: lease.Local, ID: c.someID(), Unused: c.IntN(2) == 0}
	case 4:
		return Renew{Call: c.call(), Caller: lease.Local, Lease: c.someLease()}
	case 5:
		return Release{Call: c.call(), Caller: lease.Local, Lease: c.someLease()}
	case 6:
		return Abandon{Call: c.call(), Caller: lease.Local, Lease: c.someLease()}
	case 7:
		return Progress{Call: c.call(), Caller: lease.Local, Lease: c.someLease()}
	case 8:
		return Revoke{Call: c.call(), Lease: c.someLease().Ref()}
	case 9:
		return Clear{Call: c.call(), Pool: c.pool(), Slot: c.slot(), Lease: oneOfThese(c, c.someLease().Ref(), c.someLease().Ref(), "")}
	case 10:
		return c.tree()
	case 11:
		return ProveBoot{Call: c.call(), Machine: c.machine(), Boot: c.boot(), Was: oneOfThese(c, "", c.boot(), c.boot())}
	case 12:
		return c.clean()
	case 13:
		return Health{Call: c.call(), Pool: c.pool(), Slot: c.slot(), Why: oneOfThese(c, "", "", "sick")}
	case 14:
		return Drain{Call: c.call(), Pool: c.pool(), Slot: oneOfThese(c, "", c.slot(), c.slot())}
	case 15:
		return Undrain{Call: c.call(), Pool: c.pool(), Slot: oneOfThese(c, "", c.slot(), c.slot())}
	}
	return c.apply()
}

func (c *chooser) pool() string    { return oneOfThese(c, "p", "p", "q", "r") }
func (c *chooser) slot() string    { return oneOfThese(c, "a", "b", "c", "d") }
func (c *chooser) machine() string { return oneOfThese(c, "m1", "m2") }

// boot is the boot id of now, the one before or the next.
func (c *chooser) boot() string {
	return fmt.Sprintf("b%d", c.ids/20+oneOfThese[uint64](c, 0, 1, 1, 1, 2))
}

func (c *chooser) holder() lease.Holder {
	h := lease.Holder{Machine: c.machine(), Boot: c.boot()}
	if c.IntN(2) == 0 {
		h.Process = lease.Process{PID: 5, Start: 6, Namespace: 1}
		h.Cgroup = lease.Cgroup{Path: "/x", Inode: 7, Namespace: 2}
	}
	return h
}

// ask makes up a new request.
func (c *chooser) ask() Command {
	c.ids++
	r := lease.Request{
		ID: lease.RequestID(fmt.Sprintf("r%d", c.ids)), Claims: c.claims(), Holder: c.holder(),
		TTL:      oneOfThese(c, 0, 0, 2*time.Second, 6*time.Second, 30*time.Second),
		MaxHold:  oneOfThese(c, 0, 0, 0, 12*time.Second),
		Wait:     oneOfThese(c, 0, 4*time.Second, 40*time.Second, 5*time.Minute, 5*time.Minute),
		Priority: oneOfThese(c, 0, 0, 0, 1, -1),
	}
	r, err := r.Checked()
	if err != nil {
		panic(err)
	}
	a := Acquire{Caller: lease.Local, Request: r, Digest: r.Body()}
	m := &made{acquire: a}
	c.remember(m)
	return c.askWith(m)
}

func (c *chooser) remember(m *made) {
	c.recent = append(c.recent, m)
	if len(c.recent) > 12 {
		c.recent = c.recent[1:]
	}
}

func (c *chooser) askWith(m *made) Command {
	a := m.acquire
	a.Call, a.LeaseID = c.call(), c.leaseID()
	a.Poll = oneOfThese(c, 0, 2*time.Second, 10*time.Second, 30*time.Second)
	if c.open = append(c.open, made{acquire: a}); len(c.open) > 12 {
		c.open = c.open[1:]
	}
	return a
}

func (c *chooser) claims() []lease.Claim {
	pools := []string{"p", "q", "r"}
	c.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
	var claims []lease.Claim
	for _, p := range pools[:1+c.oneOf(6, 3, 1)] {
		claim := lease.Claim{Pool: p, Count: 1 + c.oneOf(6, 3, 1), Units: 1 + int64(c.oneOf(6, 3, 1))}
		if c.IntN(3) == 0 {
			claim.Select = map[string]string{"k": oneOfThese(c, "x", "y")}
		}
		claims = append(claims, claim)
	}
	return claims
}

func (c *chooser) askAgain() Command {
	m := c.some()
	if m == nil || m.cleaner {
		return c.ask()
	}
	again := *m
	if c.IntN(12) == 0 {
		again.acquire.Digest[0]++
	}
	return c.askWith(&again)
}

func (c *chooser) some() *made {
	if len(c.recent) == 0 {
		return nil
	}
	return c.recent[c.IntN(len(c.recent))]
}

func (c *chooser) someID() lease.RequestID {
	if m := c.some(); m != nil && c.IntN(6) > 0 {
		return m.acquire.Request.ID
	}
	c.ids++
	return lease.RequestID(fmt.Sprintf("r%d", c.ids))
}

func (c *chooser) someLease() lease.LeaseID {
	for range 4 {
		if m := c.some(); m != nil && m.lease != "" {
			return m.lease
		}
	}
	return "L0"
}

func (c *chooser) leave() Command {
	if len(c.open) == 0 {
		return Tick{}
	}
	o := c.open[c.IntN(len(c.open))].acquire
	return Leave{Caller: lease.Local, ID: o.Request.ID, Call: o.Call}
}

func (c *chooser) tree() Command {
	return ProveTree{
		Call: c.call(), Lease: c.someLease().Ref(), Machine: c.machine(),
		PIDNamespace: oneOfThese[uint64](c, 1, 1, 1, 9), CgroupNamespace: 2, Seen: c.IntN(8) > 0,
		WrapperGone: c.IntN(8) > 0, CgroupGone: c.IntN(8) > 0, Removed: c.IntN(8) == 0,
	}
}

func (c *chooser) clean() Command {
	c.ids++
	cmd := Clean{
		Call: c.call(), Caller: lease.Local, ID: lease.RequestID(fmt.Sprintf("r%d", c.ids)), Digest: lease.Digest{9},
		Pool: c.pool(), Slot: c.slot(), Lease: c.someLease().Ref(), Holder: c.holder(), LeaseID: c.leaseID(),
	}
	c.remember(&made{acquire: Acquire{Request: lease.Request{ID: cmd.ID}}, lease: cmd.LeaseID, cleaner: true})
	return cmd
}

// inSession makes up a command of one of two sessions.
func (c *chooser) inSession() Command {
	id := oneOfThese(c, "s", "t")
	switch c.IntN(6) {
	case 0:
		return Arrive{Call: c.call(), Caller: lease.Local, Session: id, New: c.IntN(4) > 0, Mark: c.mark()}
	case 1:
		return Leave{Caller: lease.Local, Session: id}
	case 2:
		return Cancel{Call: c.call(), Caller: lease.Local, ID: sessionID(id, c.serial()), Unused: c.IntN(2) == 0}
	}
	a := c.ask().(Acquire)
	a.Session, a.Serial, a.Mark = id, c.serial(), c.mark()
	a.Request.ID = sessionID(id, a.Serial)
	m := c.recent[len(c.recent)-1]
	m.acquire = a
	return a
}

// serial is a number near those that a session has reached.
func (c *chooser) serial() uint64 { return c.ids/4 + uint64(c.IntN(6)) }

func (c *chooser) mark() uint64 { return oneOfThese(c, 0, 0, 0, c.ids/4) }

// apply makes up the pools file anew.
func (c *chooser) apply() Command {
	var pools []lease.PoolSpec
	for _, name := range []string{"p", "q", "r"} {
		if c.IntN(12) == 0 {
			continue
		}
		s := c.settings()
		spec := lease.PoolSpec{Name: name, Settings: &s}
		for _, id := range []string{"a", "b", "c", "d"}[:1+c.IntN(4)] {
			slot := lease.SlotSpec{ID: id, Capacity: 1 + int64(c.oneOf(4, 2, 2))}
			if k := oneOfThese(c, "", "x", "y"); k != "" {
				slot.Labels = map[string]string{"k": k}
			}
			spec.Slots = append(spec.Slots, slot)
		}
		pools = append(pools, spec)
	}
	return Apply{Call: c.call(), Source: lease.SourceFile, Pools: pools}
}

func (c *chooser) settings() lease.Settings {
	s := lease.Settings{TTL: oneOfThese(c, 2*time.Second, 6*time.Second), MaxTTL: oneOfThese(c, 8*time.Second, time.Minute)}
	switch c.oneOf(4, 2, 3, 2) {
	case 0:
		s.Handover.After = 3 * time.Second
	case 1:
		s.Handover.After = lease.AtOnce
	case 2:
		s.Handover = lease.Handover{Proofs: lease.Proofs(1 + c.IntN(7)), Max: 20 * time.Second}
	case 3:
		s.Handover.After, s.Clean = 2*time.Second, []string{"clean"}
	}
	s.MaxHold = oneOfThese(c, 0, 0, 15*time.Second)
	if c.IntN(4) == 0 {
		s.StallAfter, s.StallRevokes = 5*time.Second, c.IntN(2) == 0
	}
	return s
}

// pause is how long until the next command.
func (c *chooser) pause() time.Duration {
	if c.IntN(3) > 0 {
		return 0
	}
	return oneOfThese(c, 300*time.Millisecond, time.Second, time.Second, 3*time.Second, 5*time.Second, 20*time.Second, 61*time.Second)
}
