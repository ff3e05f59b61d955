package machine

// Tick lets what is due by time happen. Commands that came before it must be
// run before it. It also carries on with work that is left.
type Tick struct{}

func (Tick) run(m *Machine) { m.work.late = !m.ring() }
