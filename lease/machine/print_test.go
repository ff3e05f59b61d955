package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

// print writes what a command led to: first what was told, then the answers.
func (s *scene) print(d said, prefix string) {
	for _, ev := range d.events {
		s.line(prefix + "* " + s.event(ev))
	}
	for _, a := range d.answers {
		s.line(prefix + s.callNames[a.Call] + ": " + s.answer(a))
		if a.Status != nil {
			s.status(a.Status)
		}
	}
}

func (s *scene) line(text string) { fmt.Fprintf(s.out, "    %s\n", text) }

func (s *scene) answer(a Answer) string {
	switch {
	case codeOf(a) == lease.CodeQueued:
		return fmt.Sprintf("queued at position %d, ask again within %v", a.Queued.Position, a.Queued.AskWithin)
	case a.Err != nil && s.texts:
		return fmt.Sprintf("%s: %s", codeOf(a), s.named(a.Err.Error()))
	case a.Err != nil:
		return string(codeOf(a))
	case a.Token.LeaseID != "":
		return s.token(a.Token)
	case a.Diff != nil:
		return diff(a.Diff)
	}
	return "done"
}

func (s *scene) token(t lease.Token) string {
	var slots []string
	for _, g := range t.Slots {
		slots = append(slots, granted(g))
	}
	return fmt.Sprintf("%s, fence %d, left %v, elapsed %v", strings.Join(slots, " + "), t.Fence, t.Left, t.Elapsed)
}

func granted(g lease.GrantedSlot) string {
	at := place(g.Pool, g.ID)
	switch {
	case !g.Whole:
		return fmt.Sprintf("%s (%s, shared)", at, plural(g.Units, "unit"))
	case g.Units > 1:
		return fmt.Sprintf("%s (%s)", at, plural(g.Units, "unit"))
	}
	return at
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func diff(d *lease.Diff) string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{{"adds", d.Added}, {"changes", d.Changed}, {"removes", d.Removed}, {"marks for removal", d.Marked}} {
		if len(p.list) > 8 {
			parts = append(parts, fmt.Sprintf("%s %d things", p.what, len(p.list)))
		} else if len(p.list) > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.list, ", "))
		}
	}
	if parts == nil {
		return "nothing to change"
	}
	return strings.Join(parts, "; ")
}

// event says what happened, with names for ids.
func (s *scene) event(ev Event) string {
	var b strings.Builder
	b.WriteString(ev.Kind.String())
	if ev.Request != "" {
		b.WriteString(" " + string(ev.Request))
	}
	if ev.Pool != "" {
		b.WriteString(" " + strings.TrimSuffix(place(ev.Pool, ev.Slot), "/"))
	}
	if ev.End != 0 {
		b.WriteString(" " + ev.End.String())
	}
	for _, why := range []string{ev.Why, ev.Reason} {
		if why != "" {
			b.WriteString(", " + s.named(why))
		}
	}
	return b.String()
}

// named puts names for the refs in a text.
func (s *scene) named(text string) string {
	for _, w := range s.requests {
		text = strings.ReplaceAll(text, string(lease.RequestID(w.name).Ref()), w.name)
	}
	for id, name := range s.names {
		text = strings.ReplaceAll(text, string(id.Ref()), "of "+name)
	}
	return text
}

// status writes the sums, every slot with its leases, and the queues.
func (s *scene) status(st *lease.Status) {
	s.line(fmt.Sprintf("  acquired %d = released %d + orphaned %d + revoked %d + held %d; queued %d, quarantined %d, stuck %d, free %d of %d slots, remembered %d",
		st.Acquired, st.Released, st.Orphaned, st.Revoked, st.Held, st.Queued, st.Quarantined, st.Stuck, st.Free, st.Slots, st.Retained))
	for _, p := range st.Pools {
		s.poolLine(p)
		for _, slot := range p.Slots {
			s.slotLine(p.Name, slot)
		}
		for i, w := range p.Waiters {
			s.line(fmt.Sprintf("  %s waiter %d: %s %s for %v", p.Name, i+1, s.named(string(w.Ref)), w.State, w.Waited))
		}
	}
}

func (s *scene) poolLine(p lease.PoolStatus) {
	var marks []string
	if p.Drained {
		marks = append(marks, "drained")
	}
	if p.Removing {
		marks = append(marks, "removing")
	}
	if marks != nil {
		s.line(fmt.Sprintf("  %s: %s", p.Name, strings.Join(marks, ", ")))
	}
}

func (s *scene) slotLine(pool string, slot lease.SlotStatus) {
	text := fmt.Sprintf("  %s: %s", place(pool, slot.ID), slot.State)
	if slot.Capacity > 1 {
		text += fmt.Sprintf(" (%d units)", slot.Capacity)
	}
	for _, k := range slices.Sorted(maps.Keys(slot.Labels)) {
		text += fmt.Sprintf(" %s=%s", k, slot.Labels[k])
	}
	if slot.Why != "" {
		text += ", " + slot.Why
	}
	for _, l := range slot.Leases {
		text += "; " + s.leaseText(l)
	}
	s.line(text)
}

func (s *scene) leaseText(l lease.LeaseStatus) string {
	text := fmt.Sprintf("%s %s", strings.TrimPrefix(s.named(string(l.Ref)), "of "), l.State)
	if l.Units > 1 {
		text += fmt.Sprintf(" %d units", l.Units)
	}
	if l.End != "" {
		text += ", " + l.End
	}
	if l.Stalled {
		text += fmt.Sprintf(", stalled for %v", l.Progress)
	}
	if l.Doing != "" {
		text += fmt.Sprintf(", %s %v ago", l.Doing, l.Progress)
	}
	if l.Left > 0 {
		text += fmt.Sprintf(", left %v", l.Left.Round(time.Millisecond))
	}
	return text
}
