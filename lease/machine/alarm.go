package machine

import (
	"container/heap"
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

// An alarm is a sleeper's place among the alarms. It may stand earlier than
// the sleeper is due: then it is looked at and set anew, so a renewal costs
// nothing here.
type alarm struct {
	at  time.Duration
	pos int // 1-based; 0 is not set
	// order breaks ties: by number for entries, first for all others.
	order uint64
}

func (a *alarm) alarm() *alarm { return a }

type alarms struct {
	heap []sleeper
	// live counts the leases, waiters and quarantines.
	live int
}

func (h *alarms) Len() int { return len(h.heap) }

func (h *alarms) Less(i, j int) bool {
	a, b := h.heap[i].alarm(), h.heap[j].alarm()
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (h *alarms) Swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].alarm().pos, h.heap[j].alarm().pos = i+1, j+1
}

func (h *alarms) Push(x any) {
	s := x.(sleeper)
	h.heap = append(h.heap, s)
	s.alarm().pos = len(h.heap)
}

func (h *alarms) Pop() any {
	last := len(h.heap) - 1
	s := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	s.alarm().pos = 0
	return s
}

// wake sees to it that the sleeper rings when it is due.
func (m *Machine) wake(s sleeper) {
	a, at := s.alarm(), s.due(m)
	switch {
	case a.pos == 0 && at < never:
		a.at = at
		heap.Push(&m.alarms, s)
	case a.pos != 0 && at < a.at:
		a.at = at
		heap.Fix(&m.alarms, a.pos-1)
	}
}

// hush takes the sleeper's alarm away.
func (m *Machine) hush(s sleeper) {
	if a := s.alarm(); a.pos != 0 {
		heap.Remove(&m.alarms, a.pos-1)
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
		if len(m.alarms.heap) == 0 || m.alarms.heap[0].alarm().at > m.now {
			return true
		}
		if !m.room() || rings >= m.cfg.StepChanges {
			return false
		}
		s := heap.Pop(&m.alarms).(sleeper)
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
	return m.alarms.heap[0].alarm().at, true
}
