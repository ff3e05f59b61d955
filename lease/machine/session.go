package machine

import (
	"slices"
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
	// open counts its connections.
	open int
	// live counts its requests whose last unit is not free, idle is since when
	// there is neither such a request nor a connection.
	live int
	idle time.Duration
	// waiting are its waiters, ended its requests that may be forgotten.
	waiting, ended btree.Map[uint64, *entry]
	// finishing says that a job is about to finish what is below the mark.
	finishing bool
	gone      bool
	clock     alarm
}

type sessionKey struct {
	caller lease.Caller
	id     string
}

// sessionID is the id of a session's request.
func sessionID(session string, serial uint64) lease.RequestID {
	return lease.RequestID(session + ":" + strconv.FormatUint(serial, 10))
}

// sessionOf returns the session whose request the id is, and its number there,
// or nil if the broker knows no such session.
func (m *Machine) sessionOf(caller lease.Caller, id lease.RequestID) (*session, uint64) {
	i := strings.LastIndexByte(string(id), ':')
	if i < 0 {
		return nil, 0
	}
	s := m.sessions[sessionKey{caller, string(id[:i])}]
	serial, err := strconv.ParseUint(string(id[i+1:]), 10, 64)
	if s == nil || err != nil || sessionID(s.ID, serial) != id {
		return nil, 0
	}
	return s, serial
}

func (s *session) alarm() *alarm { return &s.clock }

// due is when a session that nobody uses is forgotten.
func (s *session) due(m *Machine) time.Duration {
	if s.gone || s.open > 0 || s.live > 0 {
		return never
	}
	return s.idle + m.cfg.Retention
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
		s = m.openSession(key)
	}
	s.open++
	m.raiseMark(s, c.Mark)
	m.attendAll(s)
	m.answer(Answer{Call: c.Call})
}

// openSession makes a session.
func (m *Machine) openSession(key sessionKey) *session {
	s := &session{Session: lease.Session{Caller: key.caller, ID: key.id, After: m.ledger.Number}}
	m.sessions[key] = s
	m.put(&s.Session)
	return s
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
	i := slices.IndexFunc(e.wait.calls, func(o call) bool { return o.id == c.Call })
	if i < 0 {
		return // it was answered: that it ended breaks nothing
	}
	e.wait.calls = slices.Delete(e.wait.calls, i, i+1)
	m.leftAlone(e)
}

// leftAlone ends a waiter's presence if nobody listens any more.
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
	s.idle = m.now
	s.waiting.Scan(func(_ uint64, e *entry) bool {
		m.leftAlone(e)
		return true
	})
	m.wake(s)
}

// attendAll brings the presence of a session's waiters up to date.
func (m *Machine) attendAll(s *session) {
	s.waiting.Scan(func(_ uint64, e *entry) bool {
		m.attend(e)
		return true
	})
}

// joinSession ties an entry to the session that its id tells, unless it is
// older than the session: then it only has such a name.
func (m *Machine) joinSession(e *entry) {
	s, serial := m.sessionOf(e.Caller, e.ID)
	if s == nil || e.Number <= s.After {
		return
	}
	e.session, e.serial = s, serial
	s.live++
}

// endInSession moves a settled entry to its session's finished side.
func (m *Machine) endInSession(e *entry) {
	s := e.session
	if s == nil {
		return
	}
	s.live--
	s.idle = m.now
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

// finish ends the waiters below the mark, whom nobody will ask for, and
// forgets what has ended there.
func (m *Machine) finish(s *session) {
	if s.finishing || s.below(&s.waiting) == nil && s.below(&s.ended) == nil {
		return
	}
	s.finishing = true
	m.work.jobs = append(m.work.jobs, func() { m.finishOne(s) })
}

func (m *Machine) finishOne(s *session) {
	if e := s.below(&s.waiting); e != nil {
		m.endWaiting(e, lease.EndFinished)
	} else if e := s.below(&s.ended); e != nil {
		m.forgetEntry(e)
	}
	s.finishing = false
	m.finish(s)
}

// below returns the first request below the mark, or nil.
func (s *session) below(requests *btree.Map[uint64, *entry]) *entry {
	if serial, e, ok := requests.Min(); ok && serial < s.Mark {
		return e
	}
	return nil
}
