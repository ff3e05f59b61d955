package machine

// Drain stops grants from a slot, or with Slot empty from the whole pool.
// What is held stays held.
type Drain struct {
	Call       uint64
	Pool, Slot string
}

func (c Drain) run(m *Machine) { m.drain(c.Call, c.Pool, c.Slot, true) }

// Undrain lets grants go on.
type Undrain struct {
	Call       uint64
	Pool, Slot string
}

func (c Undrain) run(m *Machine) { m.drain(c.Call, c.Pool, c.Slot, false) }

func (m *Machine) drain(call uint64, poolName, slotID string, drained bool) {
	if slotID == "" {
		m.drainPool(call, poolName, drained)
		return
	}
	s := m.findSlot(call, poolName, slotID)
	if s == nil {
		return
	}
	if s.Drained != drained {
		s.Drained = drained
		m.put(&s.Slot)
		m.reopened(s, drainWord(drained))
	}
	m.answer(Answer{Call: call})
}

func (m *Machine) drainPool(call uint64, name string, drained bool) {
	p := m.findPool(call, name)
	if p == nil {
		return
	}
	if p.Drained != drained {
		p.Drained = drained
		m.put(&p.Pool)
		m.touchPool(p)
		m.tellPlace(EventPool, p.Name, "", drainWord(drained), "")
	}
	m.answer(Answer{Call: call})
}

func drainWord(drained bool) string {
	if drained {
		return "drained"
	}
	return "undrained"
}

// Health is an agent's word on a slot: with Why empty it is well.
type Health struct {
	Call       uint64
	Pool, Slot string
	Why        string
}

func (c Health) run(m *Machine) {
	s := m.findSlot(c.Call, c.Pool, c.Slot)
	if s == nil {
		return
	}
	if why := clip(c.Why); s.Unhealthy != why {
		s.Unhealthy = why
		m.put(&s.Slot)
		m.reopened(s, healthWord(why))
	}
	m.answer(Answer{Call: c.Call})
}

func healthWord(why string) string {
	if why == "" {
		return "healthy"
	}
	return "unhealthy"
}
