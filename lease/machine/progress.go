package machine

import "github.com/berth-dev/berth/lease"

// Progress is a holder's word that its work goes on, apart from its lease's
// life.
type Progress struct {
	Call   uint64
	Caller lease.Caller
	Lease  lease.LeaseID
	Note   string
}

func (c Progress) run(m *Machine) {
	e := m.ofCaller(c.Call, c.Caller, c.Lease)
	if e == nil {
		return
	}
	if e.held == nil {
		m.answer(Answer{Call: c.Call, Err: e.leaseError()})
		return
	}
	e.held.progress, e.held.note, e.held.stalled = m.now, clip(c.Note), false
	m.wake(e)
	m.fx.Answers = append(m.fx.Answers, Answer{Call: c.Call, After: e.touched})
}
