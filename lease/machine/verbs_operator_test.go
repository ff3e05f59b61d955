package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

type setter = *time.Duration

// durations sets every time that an option gives.
func (w *words) durations(at map[string]setter) error {
	for key, set := range at {
		d, err := w.duration(key)
		if err != nil {
			return err
		}
		*set = d
	}
	return nil
}

// config bounds the machine, before anything else: config [retention=]
// [retained=] [waiters=] [shapes=] [views=].
func (s *scene) setConfig(w *words) error {
	if err := w.durations(map[string]setter{"retention": &s.cfg.Retention}); err != nil {
		return err
	}
	for key, at := range map[string]*int{"retained": &s.cfg.Retained, "waiters": &s.cfg.Waiters, "shapes": &s.cfg.Shapes, "views": &s.cfg.Views} {
		n, err := w.number(key)
		if err != nil {
			return err
		}
		*at = int(n)
	}
	s.begin(Restart{Fence: s.starts * 100})
	return nil
}

// texts shows from here on what an error says, not its code alone.
func (s *scene) showTexts(*words) error {
	s.texts = true
	return nil
}

// apply declares pools and slots: apply [from=SOURCE] [dry] [full] POOLS.
func (s *scene) apply(w *words) error {
	source := orText(w.text("from"), string(lease.SourceFile))
	cmd := Apply{Source: lease.Source(source), DryRun: w.flag("dry"), StoreFull: w.flag("full")}
	var err error
	if cmd.Pools, err = parsePools(w.about); err != nil {
		return err
	}
	w.about = nil
	cmd.Call = s.newCall("apply")
	d := s.store.through(s.do(cmd))
	// What was applied stands in the answer already.
	d.events = slices.DeleteFunc(d.events, func(ev Event) bool { return ev.Why == "applied" })
	if n := len(d.events); n > 20 {
		last := d.events[n-1]
		s.line(fmt.Sprintf("* %d events like: %s", n-1, s.event(d.events[0])))
		d.events = []Event{last}
	}
	s.print(d, "")
	return nil
}

// where reads POOL or POOL/SLOT.
func (w *words) where() (pool, slot string) {
	pool, slot, _ = strings.Cut(w.next(), "/")
	return pool, slot
}

func (s *scene) drain(w *words) error {
	pool, slot := w.where()
	s.run(Drain{Call: s.newCall("drain"), Pool: pool, Slot: slot})
	return nil
}

func (s *scene) undrain(w *words) error {
	pool, slot := w.where()
	s.run(Undrain{Call: s.newCall("undrain"), Pool: pool, Slot: slot})
	return nil
}

// health is an agent's word on a slot: health POOL/SLOT [WHY].
func (s *scene) health(w *words) error {
	pool, slot := w.where()
	s.run(Health{Call: s.newCall("health"), Pool: pool, Slot: slot, Why: w.next()})
	return nil
}

// ref is how people call the lease of a name.
func (s *scene) ref(name string) lease.Ref {
	if w := s.requests[name]; w != nil {
		return w.lease.Ref()
	}
	return lease.LeaseID(name).Ref()
}

// revoke takes a lease: revoke NAME [on=POOL/SLOT] [reason=WORD].
func (s *scene) revoke(w *words) error {
	name := w.next()
	pool, slot, _ := strings.Cut(w.text("on"), "/")
	s.run(Revoke{Call: s.newCall("revoke " + name), Lease: s.ref(name), Pool: pool, Slot: slot, Reason: w.text("reason")})
	return nil
}

// clear ends a quarantine: clear POOL/SLOT NAME; without a name, a slot's
// waiting after a restore.
func (s *scene) clear(w *words) error {
	pool, slot := w.where()
	cmd := Clear{Call: s.newCall("clear"), Pool: pool, Slot: slot}
	if name := w.next(); name != "" {
		cmd.Lease = s.ref(name)
	}
	s.run(cmd)
	return nil
}

// advance lets time pass, with every alarm rung at its moment.
func (s *scene) pass(w *words) error {
	d, err := duration(w.next())
	if err != nil {
		return err
	}
	s.world.advance(d, func(d said) {
		s.learn(d)
		s.print(s.store.through(d), fmt.Sprintf("at %v ", s.at(s.now)))
	})
	return nil
}

// delay lets time pass without a tick: commands come late, but before it.
func (s *scene) delay(w *words) error {
	d, err := duration(w.next())
	s.now += d
	return err
}

func (s *scene) tick(*words) error {
	s.run(Tick{})
	return nil
}

func (s *scene) show(*words) error {
	s.run(Show{Call: s.newCall("show")})
	return nil
}
