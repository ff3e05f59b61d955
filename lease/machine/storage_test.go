package machine

import (
	"fmt"
	"maps"
)

// A storage stands between the machine's steps and a scenario: while commits
// wait, what a step says is held back, and a crash loses it.
type storage struct {
	waiting bool
	// step is the last step that is durable.
	step  uint64
	saved snapshot
	held  said
}

// A snapshot is a store's content and what the audit knew of it.
type snapshot struct {
	records map[string][]byte
	audit   audit
}

func (w *world) snapshot() snapshot { return snapshot{maps.Clone(w.records), w.audit.clone()} }

func (a audit) clone() audit {
	a.leaseOf, a.promised = maps.Clone(a.leaseOf), maps.Clone(a.promised)
	a.parts, a.granted = maps.Clone(a.parts), maps.Clone(a.granted)
	a.touched = maps.Clone(a.touched)
	return a
}

// put makes a snapshot the world's store; fences said meanwhile stay said.
func (w *world) put(s snapshot) {
	fence := w.audit.fence
	w.records, w.audit = maps.Clone(s.records), s.audit.clone()
	w.audit.fence = fence
}

// through lets through what may be said.
func (st *storage) through(d said) said {
	if !st.waiting {
		return d
	}
	st.held.events = append(st.held.events, d.events...)
	var now said
	for _, a := range d.answers {
		if a.After <= st.step {
			now.answers = append(now.answers, a)
		} else {
			st.held.answers = append(st.held.answers, a)
		}
	}
	return now
}

// commits wait, or go on: then all that was held back is said.
func (s *scene) commits(w *words) error {
	switch word := w.next(); word {
	case "wait":
		s.store = storage{waiting: true, step: s.m.step, saved: s.snapshot()}
	case "go":
		held := s.store.held
		s.store = storage{}
		s.print(held, "")
	default:
		return fmt.Errorf("commits wait or go, not %q", word)
	}
	return nil
}

// crash ends the process with what was not yet durable, and starts the next.
func (s *scene) crash(*words) error {
	if !s.store.waiting {
		return fmt.Errorf("nothing to lose: say that commits wait")
	}
	for _, a := range s.store.held.answers {
		s.line(s.callNames[a.Call] + ": no answer ever came")
	}
	s.put(s.store.saved)
	s.store = storage{}
	s.print(s.begin(Restart{}), "")
	return nil
}

// startAgain starts the process again: restart [settle] [fence=N].
func (s *scene) startAgain(w *words) error {
	fence, err := w.number("fence")
	if err != nil {
		return err
	}
	s.print(s.begin(Restart{Fence: uint64(fence), Settle: w.flag("settle")}), "")
	return nil
}

func (s *scene) backup(*words) error {
	s.saved = s.snapshot()
	return nil
}

// restore puts the backup back and starts a process on it: restore [settle].
func (s *scene) restore(w *words) error {
	at := s.at(s.now)
	s.put(s.saved)
	d := s.begin(Restart{Settle: w.flag("settle")})
	s.start = s.now - at
	s.print(d, "")
	return nil
}
