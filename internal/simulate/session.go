package simulate

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
)

// A session is a client's numbered series of requests, over one connection
// after the other.
type session struct {
	c      *client
	id     string
	made   int
	serial uint64
	// away is until when no connection can be made.
	away time.Duration
	// lag is how many numbers the client's mark stays behind.
	lag   uint64
	pipe  *pipe
	known bool // the broker has answered an arrival
}

// A pipe is one connection of a session.
type pipe struct{ closed bool }

// A sessionConn is a pipe as the broker sees it.
type sessionConn struct {
	pipe   *pipe
	caller lease.Caller
	id     string
}

// request names the next request.
func (s *session) next() lease.RequestID {
	s.serial++
	return lease.RequestID(s.id + ":" + strconv.FormatUint(s.serial, 10))
}

// mark is the number below which the client asks no more: at the most that of
// the request under way, or of the next.
func (s *session) mark() uint64 {
	next := s.serial
	if s.c.job == nil {
		next++
	}
	return next - min(next, s.lag)
}

// connect opens a connection, of a new session where the broker knows none.
func (s *session) connect() {
	if s.pipe != nil && !s.pipe.closed {
		return
	}
	if !s.known {
		s.made++
		s.id = "s" + strconv.Itoa(s.c.n) + "." + strconv.Itoa(s.made)
		s.serial = 0
	}
	if s.c.w.now < s.away {
		return
	}
	s.pipe = &pipe{}
	s.arrive(s.pipe)
}

// another opens one more connection for a while, as a client does that takes
// the old one for dead.
func (s *session) another(d time.Duration) {
	if !s.known {
		return
	}
	p := &pipe{}
	s.arrive(p)
	s.c.w.after(d, func() {
		p.closed = true
		s.c.w.server.pipeGone(p)
	})
}

func (s *session) arrive(p *pipe) {
	id, mark, fresh := s.id, s.mark(), !s.known
	c := s.c.link.ask(s.c.host, "arrive", key{caller: s.c.caller, session: id}, func(call uint64) machine.Command {
		return machine.Arrive{Call: call, Caller: s.c.caller, Session: id, Mark: mark, New: fresh, StoreFull: s.c.w.server.full}
	}, func(a machine.Answer, err error) {
		if s.id != id || p.closed {
			return
		}
		switch err := errOf(a, err); {
		case err == nil:
			s.known = true
		case lease.CodeOf(err) == lease.CodeSessionUnknown:
			s.known = false
			s.drop(p)
		default:
			s.drop(p)
		}
	})
	c.pipe = p
}

// hangUp closes the connection; the broker notices later.
func (s *session) hangUp() {
	if s.pipe != nil {
		s.drop(s.pipe)
	}
}

func (s *session) drop(p *pipe) {
	if p.closed {
		return
	}
	p.closed = true
	s.c.link.count++
	d := newDice(s.c.w.cfg.Seed, streamPacket, s.c.link.id, s.c.link.count)
	s.c.w.after(d.between(0, 8e9), func() { s.c.w.server.pipeGone(p) })
}

// afterCall takes in the connection that an arrival was.
func (s *server) afterCall(in arrived) {
	p := in.c.pipe
	if p == nil || s.w.broken != nil {
		return
	}
	for _, a := range s.engine.Effects().Answers {
		if a.Call == in.id && a.Err == nil {
			s.sessions = append(s.sessions, sessionConn{p, in.c.about.caller, in.c.about.session})
			if p.closed {
				s.w.after(1e9, func() { s.pipeGone(p) })
			}
		}
	}
}

// pipeGone notices that a session's connection has broken.
func (s *server) pipeGone(p *pipe) {
	kept := s.sessions[:0]
	for _, c := range s.sessions {
		if c.pipe != p {
			kept = append(kept, c)
			continue
		}
		s.inbox = append(s.inbox, arrived{how: "leave", of: key{caller: c.caller, session: c.id}, cmd: machine.Leave{Caller: c.caller, Session: c.id}})
	}
	s.sessions = kept
	s.turn()
}
