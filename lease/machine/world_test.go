package machine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// A world is a machine, the store behind it and the audit of both. Every
// test of this package that is no benchmark drives a machine through one.
type world struct {
	t   testing.TB
	cfg Config
	m   *Machine
	now time.Duration
	// records are what every step so far has written, encoded.
	records map[string][]byte
	audit   audit
	// steps counts the steps, most is the greatest number of changes of one.
	steps, most int
}

// newWorld returns a world whose broker has just started on an empty store.
func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, cfg: cfg, now: 1, records: map[string][]byte{}, audit: newAudit()}
	w.m = w.load()
	return w
}

// do runs a command and all work that it leaves, and returns what it asked
// for.
func (w *world) do(cmd Command) said {
	w.t.Helper()
	s := w.step(cmd)
	for s.more {
		s.add(w.step(Tick{}))
	}
	return s
}

// said is what steps have answered and told.
type said struct {
	answers []Answer
	events  []Event
	more    bool
}

func (s *said) add(o said) {
	s.answers = append(s.answers, o.answers...)
	s.events = append(s.events, o.events...)
	s.more = o.more
}

// step runs a command for one step, keeps its changes and audits the result.
func (w *world) step(cmd Command) said {
	w.t.Helper()
	fx := w.m.Step(w.now, cmd)
	w.now = w.m.Ledger().Now
	w.steps++
	w.most = max(w.most, len(fx.Changes))
	for _, c := range fx.Changes {
		w.keep(c)
	}
	ledger := w.m.Ledger()
	w.keep(Change{Record: &ledger})
	if err := w.audit.step(w, cmd, fx); err != nil {
		w.t.Fatalf("step %d at %v, %T: %v", w.steps, w.now, cmd, err)
	}
	return said{slices.Clone(fx.Answers), slices.Clone(fx.Events), fx.More}
}

func (w *world) keep(c Change) {
	key, err := record.AppendKey(nil, c.Record)
	if err != nil {
		w.t.Fatal(err)
	}
	if c.Delete {
		if _, ok := w.records[string(key)]; !ok {
			w.t.Fatalf("step %d deletes a %T that is not in the store", w.steps, c.Record)
		}
		delete(w.records, string(key))
		return
	}
	w.records[string(key)] = w.encode(c.Record)
}

func (w *world) encode(r any) []byte {
	value, err := record.AppendValue(nil, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return value
}

// load makes a machine of the records, as a new process would.
func (w *world) load() *Machine {
	w.t.Helper()
	m, err := Load(w.cfg, w.decodeAll())
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// decodeAll returns all records anew.
func (w *world) decodeAll() []any {
	w.t.Helper()
	var d record.Decoder
	var records []any
	for _, key := range slices.Sorted(maps.Keys(w.records)) {
		r, err := d.Decode([]byte(key), w.records[key])
		if err != nil {
			w.t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// restart ends the process and starts another on the same records.
func (w *world) restart(cmd Restart) said {
	w.t.Helper()
	w.m = w.load()
	w.now = max(1, w.m.Ledger().Now)
	w.audit.restarted(w.m)
	return w.do(cmd)
}

// advance moves broker time and rings every alarm at its own time.
func (w *world) advance(d time.Duration, each func(said)) {
	w.t.Helper()
	end := w.now + d
	for {
		at, ok := w.m.Next()
		if !ok || at > end {
			break
		}
		w.now = max(w.now, at)
		each(w.do(Tick{}))
	}
	w.now = end
	each(w.do(Tick{}))
}

// errorOf is the answer's error as an error that may be nil.
func errorOf(a Answer) error {
	if a.Err == nil {
		return nil
	}
	return a.Err
}

func place(pool, slot string) string { return fmt.Sprintf("%s/%s", pool, slot) }

// codeOf is the code of an answer, empty where it is no error.
func codeOf(a Answer) lease.Code { return lease.CodeOf(errorOf(a)) }
