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
	{Kind: PowerLoss, Kept: 100},
	{Kind: DiskFull},
	{Kind: WriteError},
	{Kind: ReadError},
}

// testFault plays the script once for each of its steps, with the fault at
// that step; with -short, for every fifth.
func testFault(t *testing.T, kit Kit, f Fault) {
	s := newScript()
	failedCommits := 0
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for f.Step = 1; ; f.Step += stride {
		happened, failed := s.survive(t, kit.NewFaulty(t), f)
		if failed {
			failedCommits++
		}
		if t.Failed() || !happened {
			break
		}
	}
	t.Logf("%d steps, %d faults failed a commit", f.Step-1, failedCommits)
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
	st, err := dev.Open()
	if err != nil {
		t.Errorf("Open after the fault: %v", err)
	} else {
		seen := s.check(t, st, acked, sent)
		if f.Kind == PowerLoss { // what survived is safe
			closeStore(t, st)
		} else {
			s.cut(t, dev, st, seen)
		}
	}
	if t.Failed() {
		t.Logf("that was after %v at step %d (kept %d, seed %d): %d commits acknowledged, %d sent",
			f.Kind, f.Step, f.Kept, f.Seed, acked, sent)
	}
	return happened, sent > acked
}

// cut cuts the power at the first write after a Load of st showed commit seen:
// what a Load has shown must stay.
func (s *script) cut(t *testing.T, dev Faulty, st store.Store, seen uint64) {
	t.Helper()
	dev.Fail(Fault{Kind: PowerLoss, Step: 1})
	acked := seen
	if err := st.Commit(t.Context(), seen+1, s.changes(seen+1)); err == nil {
		acked++
	}
	closeFailing(t, st)
	dev.Repair()
	again, err := dev.Open()
	if err != nil {
		t.Errorf("Open after the power was cut: %v", err)
		return
	}
	s.check(t, again, acked, seen+1)
	closeStore(t, again)
}

// play makes commits until the script ends or something fails, with a restart
// between its two halves. It returns the last commit that was acknowledged and
// the last one sent.
func (s *script) play(t *testing.T, dev Faulty) (acked, sent uint64) {
	t.Helper()
	half := s.length() / 2
	acked, sent = s.playTo(t, dev, 0, half)
	if acked < half {
		return acked, sent
	}
	return s.playTo(t, dev, half, s.length())
}

// playTo opens the store, makes the commits after number last up to number to,
// and closes it.
func (s *script) playTo(t *testing.T, dev Faulty, last, to uint64) (acked, sent uint64) {
	t.Helper()
	st, err := dev.Open()
	if err != nil {
		wantCode(t, "Open", err)
		return last, last
	}
	defer closeFailing(t, st)
	for seq := last + 1; seq <= to; seq++ {
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
// only sent is there wholly or not at all, and that the number agrees. It
// returns the number.
func (s *script) check(t *testing.T, st store.Store, acked, sent uint64) uint64 {
	t.Helper()
	got, seq := load(t, st)
	if seq < acked || seq > sent {
		t.Errorf("the store is at commit %d, want %d to %d", seq, acked, sent)
	} else if d := difference(got, s.state(seq)); d != "" {
		t.Errorf("at commit %d: %s", seq, d)
	}
	return seq
}

// script is a fixed row of commits and what the store holds after each.
type script struct {
	commits [][]store.Change
	states  []content // states[i] after commit i
}

const scriptLength = 16

// newScript makes commits that set, replace and delete, small and large, of
// which a half would show.
func newScript() *script {
	s := &script{states: []content{{}}}
	for i := 1; i <= scriptLength; i++ {
		size := 800
		if i%5 == 0 {
			size = 12_500
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
