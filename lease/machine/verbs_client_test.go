package machine

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// acquire asks for a lease: acquire NAME CLAIMS [ttl= wait= poll= priority=
// max_hold=] [as=CALLER] [holder=NAME on=MACHINE/BOOT pid=N cgroup=PATH]
// [call=NAME] [mark=N] [full]. A name like S:7 is number 7 of session S.
func (s *scene) acquire(w *words) error {
	name := w.next()
	a := Acquire{Caller: lease.Caller(orText(w.text("as"), string(lease.Local))), StoreFull: w.flag("full")}
	call := orText(w.text("call"), name)
	r := lease.Request{ID: lease.RequestID(orText(w.text("id"), name)), Note: w.text("note")}
	var err error
	if r.Holder, err = parseHolder(w); err != nil {
		return err
	}
	priority, err := w.number("priority")
	if err != nil {
		return err
	}
	r.Priority = int(priority)
	if err := w.durations(map[string]setter{"ttl": &r.TTL, "wait": &r.Wait, "poll": &a.Poll, "max_hold": &r.MaxHold}); err != nil {
		return err
	}
	mark, err := w.number("mark")
	if err != nil {
		return err
	}
	a.Mark = uint64(mark)
	if r.Claims, err = parseClaims(w.about); err != nil {
		return err
	}
	w.about = nil
	if session, serial, ok := strings.Cut(string(r.ID), ":"); ok {
		n, _ := number(serial)
		a.Session, a.Serial = session, uint64(n)
	}
	if a.Request, err = r.Checked(); err != nil {
		s.line(fmt.Sprintf("%s: %s", call, err))
		return nil
	}
	a.Digest = a.Request.Body()
	known := s.requests[name]
	if known == nil {
		known = &wish{name: name, caller: a.Caller}
		s.requests[name] = known
	}
	known.again = a
	s.ask(known, a, call)
	return nil
}

// ask runs an acquire under a fresh lease id.
func (s *scene) ask(w *wish, a Acquire, call string) {
	a.Call = s.newCall(call)
	a.LeaseID = s.leaseID(w, a.Call)
	s.run(a)
}

// leaseID makes a fresh lease id for a call.
func (s *scene) leaseID(w *wish, call uint64) lease.LeaseID {
	id := lease.LeaseID(fmt.Sprintf("lease-%s-%d", w.name, call))
	s.names[id] = w.name
	if w.lease == "" {
		w.lease = id
	}
	return id
}

// learn notes the leases that the answers grant.
func (s *scene) learn(d said) {
	for _, a := range d.answers {
		if a.Token.LeaseID == "" {
			continue
		}
		for _, w := range s.requests {
			if s.names[a.Token.LeaseID] == w.name {
				w.lease = a.Token.LeaseID
			}
		}
	}
}

// again repeats a request with the same body: again NAME [poll=] [call=].
func (s *scene) again(w *words) error {
	name := w.next()
	known := s.requests[name]
	if known == nil {
		return fmt.Errorf("nobody asked %q before", name)
	}
	a := known.again
	if w.options["poll"] != "" {
		if err := w.durations(map[string]setter{"poll": &a.Poll}); err != nil {
			return err
		}
	}
	mark, err := w.number("mark")
	if err != nil {
		return err
	}
	a.Mark = uint64(mark)
	s.ask(known, a, orText(w.text("call"), name))
	return nil
}

// cancel ends a request by its id: cancel NAME [unused] [as=CALLER].
func (s *scene) cancel(w *words) error {
	id := w.next()
	caller := lease.Caller(orText(w.text("as"), string(lease.Local)))
	s.run(Cancel{Call: s.newCall("cancel " + id), Caller: caller, ID: lease.RequestID(id), Unused: w.flag("unused")})
	return nil
}

// arrive opens a connection of a session: arrive NAME [resume] [mark=N].
func (s *scene) arrive(w *words) error {
	name := w.next()
	mark, err := w.number("mark")
	if err != nil {
		return err
	}
	s.sessions[name] = true
	s.run(Arrive{Call: s.newCall(name), Caller: lease.Local, Session: name, Mark: uint64(mark), New: !w.flag("resume"), StoreFull: w.flag("full")})
	return nil
}

// leave breaks a call of a request or a connection of a session: leave NAME
// [call=NAME].
func (s *scene) leave(w *words) error {
	name := w.next()
	if s.sessions[name] {
		s.run(Leave{Caller: lease.Local, Session: name})
		return nil
	}
	known := s.requests[name]
	if known == nil {
		return fmt.Errorf("nobody asked %q before", name)
	}
	s.run(Leave{Caller: known.caller, ID: known.again.Request.ID, Call: s.callOf[orText(w.text("call"), name)]})
	return nil
}

// handle is the lease that a command names, and by whom it is used: NAME
// [lease=WORD] [as=CALLER].
func (s *scene) handle(w *words) (name string, caller lease.Caller, id lease.LeaseID, err error) {
	name = w.next()
	known := s.requests[name]
	if known == nil {
		return name, "", "", fmt.Errorf("nobody asked %q before", name)
	}
	caller, id = known.caller, known.lease
	if as := w.text("as"); as != "" {
		caller = lease.Caller(as)
	}
	switch other := w.text("lease"); other {
	case "":
	case "none":
		id = ""
	default:
		id = lease.LeaseID(other)
	}
	return name, caller, id, nil
}

func (s *scene) renew(w *words) error {
	name, caller, id, err := s.handle(w)
	if err != nil {
		return err
	}
	s.run(Renew{Call: s.newCall("renew " + name), Caller: caller, Lease: id})
	return nil
}

func (s *scene) release(w *words) error {
	name, caller, id, err := s.handle(w)
	if err != nil {
		return err
	}
	s.run(Release{Call: s.newCall("release " + name), Caller: caller, Lease: id})
	return nil
}

// abandon gives a lease up: abandon NAME [reason=WORD].
func (s *scene) abandon(w *words) error {
	reason := w.text("reason")
	name, caller, id, err := s.handle(w)
	if err != nil {
		return err
	}
	s.run(Abandon{Call: s.newCall("abandon " + name), Caller: caller, Lease: id, Reason: reason})
	return nil
}

// progress says that the work goes on: progress NAME [note=WORD].
func (s *scene) progress(w *words) error {
	note := w.text("note")
	name, caller, id, err := s.handle(w)
	if err != nil {
		return err
	}
	s.run(Progress{Call: s.newCall("progress " + name), Caller: caller, Lease: id, Note: note})
	return nil
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
