package machine

import "time"

// After a restore the records may not show who holds what: a lease granted
// after the backup is not in them. So every slot settles: nothing of it is
// granted before its pool's longest lease and handover have passed since the
// start, or an operator clears it.

// keepBack makes a slot settle. Its record must be put.
func (m *Machine) keepBack(s *slot) {
	h := s.pool.Settings.Handover
	until := m.settleFrom + s.pool.Settings.MaxTTL + max(h.Delay(), h.Max)
	if until <= m.now {
		return
	}
	if s.SettleUntil == 0 {
		m.alarms.live++
	}
	s.SettleUntil = max(s.SettleUntil, until)
	s.reindex()
}

// due is when a slot that settles may be granted.
func (s *slot) due(*Machine) time.Duration {
	if s.SettleUntil == 0 {
		return never
	}
	return s.SettleUntil
}

func (s *slot) ring(m *Machine) { m.settleSlot(s) }

func (s *slot) alarm() *alarm { return &s.clock }

// settleSlot ends a slot's settling.
func (m *Machine) settleSlot(s *slot) {
	m.unsettle(s)
	m.put(&s.Slot)
	m.reopened(s, "settled")
}

func (m *Machine) unsettle(s *slot) {
	if s.SettleUntil != 0 {
		s.SettleUntil = 0
		m.alarms.live--
		m.hush(s)
	}
}
