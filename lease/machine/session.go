package machine

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/berth-dev/berth/lease"
)

// A session is a client's numbered series of requests. Below its mark all is
// finished and forgotten, which keeps the memory of ended requests small.
type session struct {
	lease.Session
	// open counts its connections; left is when the last one closed.
	open int
	left time.Duration
	// live are its requests that have not ended, ended those that have, by
	// serial.
	live, ended btree.Map[uint64, *entry]
	clock       alarm
	gone        bool
}

type sessionKey struct {
	caller lease.Caller
	id     string
}

func (s *session) alarm() *alarm { return &s.clock }

// due is when a session that nobody uses is forgotten.
func (s *session) due(m *Machine) time.Duration {
	if s.gone || s.open > 0 || s.live.Len() > 0 {
		return never
	}
	return s.left + m.cfg.Retention
}

func (s *session) ring(m *Machine) {
	delete(m.sessions, sessionKey{s.Caller, s.ID})
	m.del(&s.Session)
	s.gone = true
}

// Arrive opens a connection of a session, which is made at its first. While
// one is open all its waiters are present.
type Arrive struct {
	Call    uint64
	Caller  lease.Caller
	Session string
	Mark    uint64
	// New says that the session may be made; a client that resumes says no,
	// and is refused if the broker does not know it.
	New       bool
	StoreFull bool
}

func (c Arrive) run(m *Machine) {
	key := sessionKey{c.Caller, c.Session}
	s := m.sessions[key]
	switch {
	case s != nil:
	case !lease.ValidName(c.Session):
		m.refuse(c.Call, lease.CodeNameInvalid, "cannot open the session: its id must match [A-Za-z0-9_.:-]{1,128}")
		return
	case !c.New:
		m.refuse(c.Call, lease.CodeSessionUnknown, "cannot resume the session: the broker does not know it; open a new one")
		return
	case c.StoreFull:
		m.refuse(c.Call, lease.CodeStoreFull, "cannot open the session: the broker's store is nearly full; free space on its disk and ask again")
		return
	default:
		s = &session{Session: lease.Session{Caller: c.Caller, ID: c.Session, Opened: m.now}}
		m.sessions[key] = s
		m.put(&s.Session)
	}
	s.open++
	m.raiseMark(s, c.Mark)
	m.attendAll(s)
	m.answer(Answer{Call: c.Call})
}

// Leave ends a call, or with Session set a connection of a session: nobody
// listens there any more.
type Leave struct {
	Caller  lease.Caller
	ID      lease.RequestID
	Call    uint64
	Session string
}

func (c Leave) run(m *Machine) {
	if c.Session != "" {
		m.leaveSession(c)
		return
	}
	e := m.requests[requestKey{c.Caller, c.ID}]
	if e == nil || e.wait == nil {
		return
	}
	w := e.wait
	for i := range w.calls {
		if w.calls[i].id == c.Call {
			w.calls = append(w.calls[:i], w.calls[i+1:]...)
			break
		}
	}
	m.leftAlone(e)
}

// leftAlone ends a waiter's presence with its last call.
func (m *Machine) leftAlone(e *entry) {
	if !e.listening() {
		e.wait.grace = 0
	}
	m.attend(e)
}

func (m *Machine) leaveSession(c Leave) {
	s := m.sessions[sessionKey{c.Caller, c.Session}]
	if s == nil || s.open == 0 {
		return
	}
	if s.open--; s.open > 0 {
		return
	}
	s.left = m.now
	s.live.Scan(func(_ uint64, e *entry) bool {
		if e.wait != nil {
			m.leftAlone(e)
		}
		return true
	})
	m.wake(s)
}

// attendAll brings the presence of a session's waiters up to date; what was
// reserved for them is decided anew.
func (m *Machine) attendAll(s *session) {
	s.live.Scan(func(_ uint64, e *entry) bool {
		if e.wait == nil {
			return true
		}
		m.attend(e)
		for _, p := range e.wait.shape.pools {
			m.touchPool(p)
		}
		return true
	})
}

// joinSession ties an entry to the session that its id tells.
func (m *Machine) joinSession(e *entry) {
	i := strings.LastIndexByte(string(e.ID), ':')
	if i < 0 {
		return
	}
	serial, err := strconv.ParseUint(string(e.ID[i+1:]), 10, 64)
	s := m.sessions[sessionKey{e.Caller, string(e.ID[:i])}]
	if err != nil || s == nil {
		return
	}
	e.session, e.serial = s, serial
	s.live.Set(serial, e)
}

// endInSession moves an ended entry to its session's finished side.
func (m *Machine) endInSession(e *entry) {
	s := e.session
	if s == nil {
		return
	}
	s.live.Delete(e.serial)
	s.ended.Set(e.serial, e)
	m.finish(s)
	m.wake(s)
}

// raiseMark takes in below which number the client will never ask again.
func (m *Machine) raiseMark(s *session, mark uint64) {
	if mark <= s.Mark {
		return
	}
	s.Mark = mark
	m.put(&s.Session)
	m.finish(s)
}

// finish forgets what ended below the mark.
func (m *Machine) finish(s *session) {
	if serial, _, ok := s.ended.Min(); !ok || serial >= s.Mark {
		return
	}
	m.work.jobs = append(m.work.jobs, func() { m.finishOne(s) })
}

func (m *Machine) finishOne(s *session) {
	if serial, e, ok := s.ended.Min(); ok && serial < s.Mark {
		s.ended.Delete(serial)
		m.forgetEntry(e)
		m.finish(s)
	}
}
