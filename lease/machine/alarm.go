package machine

import (
	"math"
	"time"
)

// never is later than every moment of broker time.
const never = time.Duration(math.MaxInt64)

// A sleeper is something that time alone changes.
type sleeper interface {
	// due is when time changes it next, or never.
	due(m *Machine) time.Duration
	// ring makes the changes that are due.
	ring(m *Machine)
	alarm() *alarm
}

// An alarm is a sleeper's place among the alarms.
type alarm struct {
	pos int // 1-based; 0 is not set
	// order breaks ties: by number for entries, first for all others.
	order uint64
}

// alarms are a heap in which each alarm has up to four below it. One may stand
// earlier than its sleeper is due: then it is looked at and set anew, so a
// renewal costs nothing here.
type alarms struct {
	heap []setAlarm
	// live counts the leases, waiters, quarantines and slots that settle.
	live int
}

type setAlarm struct {
	at    time.Duration
	order uint64
	s     sleeper
}

func (a setAlarm) before(b setAlarm) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (h *alarms) put(i int, a setAlarm) {
	h.heap[i] = a
	a.s.alarm().pos = i + 1
}

// up puts an alarm at place i or above it.
func (h *alarms) up(i int, a setAlarm) {
	for i > 0 && a.before(h.heap[(i-1)/4]) {
		h.put(i, h.heap[(i-1)/4])
		i = (i - 1) / 4
	}
	h.put(i, a)
}

// down puts an alarm at place i or below it.
func (h *alarms) down(i int, a setAlarm) {
	for {
		next := 4*i + 1
		for c := next + 1; c < min(4*i+5, len(h.heap)); c++ {
			if h.heap[c].before(h.heap[next]) {
				next = c
			}
		}
		if next >= len(h.heap) || !h.heap[next].before(a) {
			break
		}
		h.put(i, h.heap[next])
		i = next
	}
	h.put(i, a)
}

// remove takes out the alarm at place i.
func (h *alarms) remove(i int) {
	h.heap[i].s.alarm().pos = 0
	end := len(h.heap) - 1
	last := h.heap[end]
	h.heap[end] = setAlarm{}
	h.heap = h.heap[:end]
	switch {
	case i == end:
	case i > 0 && last.before(h.heap[(i-1)/4]):
		h.up(i, last)
	default:
		h.down(i, last)
	}
}

// wake sees to it that the sleeper rings when it is due.
func (m *Machine) wake(s sleeper) {
	h, a := &m.alarms, s.alarm()
	set := setAlarm{s.due(m), a.order, s}
	switch {
	case a.pos == 0 && set.at < never:
		h.heap = append(h.heap, set)
		h.up(len(h.heap)-1, set)
	case a.pos != 0 && set.at < h.heap[a.pos-1].at:
		h.up(a.pos-1, set)
	}
}

// hush takes the sleeper's alarm away.
func (m *Machine) hush(s sleeper) {
	if a := s.alarm(); a.pos != 0 {
		m.alarms.remove(a.pos - 1)
	}
}

// looks is how many alarms one step looks at. Most are set anew, for what
// they stand for has been renewed.
const looks = 1024

// ring lets all that is due happen, as far as there is room. It reports
// whether it got through.
func (m *Machine) ring() bool {
	rings := 0
	for range looks {
		if len(m.alarms.heap) == 0 || m.alarms.heap[0].at > m.now {
			return true
		}
		if !m.room() || rings >= m.cfg.StepChanges {
			return false
		}
		s := m.alarms.heap[0].s
		m.alarms.remove(0)
		if s.due(m) <= m.now {
			s.ring(m)
			rings++
		}
		m.wake(s)
	}
	return false
}

// Next returns when time alone changes something next, in broker time. It may
// be too early, never too late.
func (m *Machine) Next() (at time.Duration, ok bool) {
	if len(m.alarms.heap) == 0 {
		return 0, false
	}
	return m.alarms.heap[0].at, true
}
