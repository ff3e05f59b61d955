package storetest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/berth-dev/berth/store"
)

// faults are tried at every step that the script makes.
var faults = []Fault{
	{Kind: PowerLoss, Kept: 0},
	{Kind: PowerLoss, Kept: 50, Seed: 1},
	{Kind: PowerLoss, Kept: 50, Seed: 2},
	{Kind: PowerLoss, Kept: 100},
	{Kind: DiskFull},
	{Kind: WriteError},
	{Kind: ReadError},
}

// testFault plays the script once for each of its steps, with the fault at
// that step.
func testFault(t *testing.T, kit Kit, f Fault) {
	s := newScript()
	failedCommits := 0
	for f.Step = 1; ; f.Step++ {
		happened, failed := s.survive(t, kit.NewFaulty(t), f)
		if failed {
			failedCommits++
		}
		if t.Failed() || !happened {
			break
		}
	}
	t.Logf("%d steps, %d of them failed a commit", f.Step-1, failedCommits)
	if f.Kind != ReadError && failedCommits == 0 {
		t.Errorf("no fault failed a commit: the device does not fail")
	}
}

// survive plays the script on dev with fault f, and then demands all that was
// promised. It reports whether the fault happened and whether it failed a
// commit.
func (s *script) survive(t *testing.T, dev Faulty, f Fault) (happened, failed bool) {
	t.Helper()
	dev.Fail(f)
	acked, sent := s.play(t, dev)
	happened = dev.Repair()
	seen, ok := s.check(t, dev, acked, sent)
	if !ok {
		t.Errorf("after %v at step %d (kept %d, seed %d), %d commits acknowledged, %d sent",
			f.Kind, f.Step, f.Kept, f.Seed, acked, sent)
		return happened, false
	}
	s.cutAtOnce(t, dev, seen)
	return happened, sent > acked
}

// cutAtOnce: what a Load has shown stays, also when the power goes at the
// first write after it.
func (s *script) cutAtOnce(t *testing.T, dev Faulty, seen uint64) {
	t.Helper()
	st, err := dev.Open()
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	dev.Fail(Fault{Kind: PowerLoss, Step: 1})
	err = st.Commit(t.Context(), seen+1, s.changes(seen+1))
	closeFailing(t, st)
	acked := seen
	if err == nil {
		acked++
	}
	dev.Repair()
	if _, ok := s.check(t, dev, acked, seen+1); !ok {
		t.Errorf("a loss of power after Load showed commit %d lost it", seen)
	}
}

// play opens the store and makes commits until the script ends or something
// fails. It returns the last commit that was acknowledged and the last sent.
func (s *script) play(t *testing.T, dev Faulty) (acked, sent uint64) {
	t.Helper()
	var last uint64
	st, err := dev.Open()
	if err != nil {
		wantCode(t, "Open", err)
		return 0, 0
	}
	defer closeFailing(t, st)
	for seq := uint64(1); seq <= s.length(); seq++ {
		err := st.Commit(t.Context(), seq, s.changes(seq))
		switch {
		case err == nil:
			last = seq
		case errors.Is(err, store.ErrFull):
			return last, last
		default:
			wantDead(t, st, err, seq)
			return last, seq
		}
	}
	return last, last
}

// wantDead: after a commit failed the store refuses everything at once.
func wantDead(t *testing.T, st store.Store, err error, seq uint64) {
	t.Helper()
	wantError(t, "a Commit on a failing disk", err, store.ErrFailed)
	for next := seq; next <= seq+1; next++ {
		wantError(t, "the Commit after it", st.Commit(t.Context(), next, nil), store.ErrFailed)
	}
	_, _, err = tryLoad(t, st)
	wantError(t, "the Load after it", err, store.ErrFailed)
}

// closeFailing closes a store whose disk may fail in just that moment.
func closeFailing(t *testing.T, st store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		wantError(t, "Close", err, store.ErrFailed)
	}
}

func wantCode(t *testing.T, call string, err error) {
	t.Helper()
	if e, ok := errors.AsType[*store.Error](err); !ok || e.Code() == "" {
		t.Errorf("%s returned %v, want a store.Error", call, err)
	}
}

// check demands that all acknowledged commits are there, that one that was
// only sent is there wholly or not at all, and that the number agrees. The
// store is closed again.
func (s *script) check(t *testing.T, dev Device, acked, sent uint64) (seen uint64, ok bool) {
	t.Helper()
	st, err := dev.Open()
	if err != nil {
		t.Errorf("Open after the fault: %v", err)
		return 0, false
	}
	defer closeStore(t, st)
	got, seq := load(t, st)
	if seq < acked || seq > sent {
		t.Errorf("the store is at commit %d, want %d to %d", seq, acked, sent)
		return seq, false
	}
	if d := difference(got, s.state(seq)); d != "" {
		t.Errorf("at commit %d: %s", seq, d)
		return seq, false
	}
	return seq, true
}

// script is a fixed row of commits and what the store holds after each.
type script struct {
	commits [][]store.Change
	states  []content // states[i] after commit i
}

const scriptLength = 24

// newScript makes commits that set, replace and delete, small and large, of
// which a half would show.
func newScript() *script {
	s := &script{states: []content{{}}}
	for i := 1; i <= scriptLength; i++ {
		size := 1500
		if i%8 == 0 {
			size = 24_000
		}
		s.add(
			set("first", fmt.Sprint(i)),
			set(fmt.Sprint("k", i%7), strings.Repeat(fmt.Sprint(i, " "), size/2)),
			del(fmt.Sprint("k", (i+3)%7)),
			set("last", fmt.Sprint(i)),
		)
	}
	return s
}

func (s *script) add(changes ...store.Change) {
	after := maps.Clone(s.states[len(s.states)-1])
	for _, c := range changes {
		if c.Value == nil {
			delete(after, string(c.Key))
		} else {
			after[string(c.Key)] = string(c.Value)
		}
	}
	s.commits = append(s.commits, changes)
	s.states = append(s.states, after)
}

func (s *script) length() uint64 { return uint64(len(s.commits)) }

// changes are those of commit seq. After the end of the script there are none,
// and the state stays.
func (s *script) changes(seq uint64) []store.Change {
	if seq > s.length() {
		return nil
	}
	return s.commits[seq-1]
}

// state is the content after commit seq.
func (s *script) state(seq uint64) content { return s.states[min(seq, s.length())] }
