package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/store"
)

// testNumbers: only the next number commits.
func testNumbers(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	refuse := func(seqs ...uint64) {
		t.Helper()
		for _, seq := range seqs {
			err := st.Commit(t.Context(), seq, []store.Change{set("bad", "bad")})
			wantError(t, fmt.Sprintf("Commit(%d)", seq), err, store.ErrConflict)
		}
	}
	refuse(0, 2)
	commit(t, st, 1, set("a", "1"))
	refuse(0, 1, 3)
	commit(t, st, 2, set("a", "2"))
	wantContent(t, st, content{"a": "2"}, 2)
	st = reopen(t, dev, st)
	refuse(0, 1, 2, 4, 1<<64-1)
	commit(t, st, 3, set("a", "3"))
	wantContent(t, st, content{"a": "3"}, 3)
}

func testLoadAfterConflict(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	commit(t, st, 1, set("a", "1"))
	wantError(t, "Commit(1)", st.Commit(t.Context(), 1, []store.Change{set("a", "2")}), store.ErrConflict)
	_, seq := load(t, st)
	commit(t, st, seq+1, set("b", "1"))
	wantContent(t, st, content{"a": "1", "b": "1"}, 2)
}

// testSecondWriter: a store opened twice is refused the second time, or takes
// each number from one of the two only.
func testSecondWriter(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	first := open(t, dev)
	commit(t, first, 1, set("a", "1"))
	second, err := dev.Open()
	if err != nil {
		wantError(t, "the second Open", err, store.ErrInUse)
		commit(t, first, 2, set("a", "2"))
		st := reopen(t, dev, first)
		wantContent(t, st, content{"a": "2"}, 2)
		return
	}
	defer closeStore(t, second)
	errs := []error{
		first.Commit(t.Context(), 2, []store.Change{set("a", "first")}),
		second.Commit(t.Context(), 2, []store.Change{set("a", "second")}),
	}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("two writers committed 2: %v, %v, want one of them refused", errs[0], errs[1])
	}
	want, winner := "first", first
	if errs[0] != nil {
		want, winner = "second", second
	}
	wantContent(t, winner, content{"a": want}, 2)
}

func testOneOfTwoCommits(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	for seq := uint64(1); seq <= 20; seq++ {
		var wg sync.WaitGroup
		var errs [4]error
		for i := range errs {
			wg.Go(func() {
				errs[i] = st.Commit(t.Context(), seq, []store.Change{set("winner", fmt.Sprint(seq, i))})
			})
		}
		wg.Wait()
		winner := ""
		for i, err := range errs {
			switch {
			case err == nil && winner == "":
				winner = fmt.Sprint(seq, i)
			case !errors.Is(err, store.ErrConflict):
				t.Fatalf("commit %d by writer %d: %v, want one winner and conflicts", seq, i, err)
			}
		}
		wantContent(t, st, content{"winner": winner}, seq)
	}
}

// testLoadSeesOneMoment loads while another goroutine commits.
func testLoadSeesOneMoment(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	const commits = 60
	written := make(chan error, 1)
	go func() {
		var err error
		for seq := uint64(1); seq <= commits && err == nil; seq++ {
			err = st.Commit(t.Context(), seq, everywhere(seq))
		}
		written <- err
	}()
	var last uint64
	for last < commits {
		got, seq := load(t, st)
		if seq < last {
			t.Fatalf("Load saw commit %d after %d", seq, last)
		}
		last = seq
		for key, value := range got {
			if number, _, _ := strings.Cut(value, " "); number != fmt.Sprint(seq) {
				t.Fatalf("Load of commit %d saw %s = %s", seq, key, number)
			}
		}
		select {
		case err := <-written:
			if err != nil {
				t.Fatalf("Commit: %v", err)
			}
			_, last = load(t, st)
			if last != commits {
				t.Fatalf("the last commit is %d, want %d", last, commits)
			}
		default:
		}
	}
}

// everywhere sets the same keys to seq in every commit.
func everywhere(seq uint64) []store.Change {
	var changes []store.Change
	for i := range 20 {
		changes = append(changes, set(fmt.Sprint(i), fmt.Sprint(seq, strings.Repeat(" ", 1000))))
	}
	return changes
}

func testHundredChanges(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{Changes: 100}))
	if got := st.Limits().Changes; got != 100 {
		t.Fatalf("Limits().Changes is %d, want 100", got)
	}
	want := content{}
	var changes []store.Change
	for i := range 101 {
		changes = append(changes, set(fmt.Sprint(i), "x"))
	}
	wantError(t, "a commit of 101", st.Commit(t.Context(), 1, changes), store.ErrTooLarge)
	wantContent(t, st, want, 0)
	commit(t, st, 1, changes[:100]...)
	for i := range 100 {
		want[fmt.Sprint(i)] = "x"
	}
	wantContent(t, st, want, 1)
}

func testByteLimit(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{Bytes: 1000}))
	if got := st.Limits().Bytes; got != 1000 {
		t.Fatalf("Limits().Bytes is %d, want 1000", got)
	}
	fits := []store.Change{set("a", strings.Repeat("x", 499)), set("b", strings.Repeat("x", 499))}
	tooMuch := append(fits[:2:2], del("c"))
	wantError(t, "a commit of 1001 bytes", st.Commit(t.Context(), 1, tooMuch), store.ErrTooLarge)
	wantContent(t, st, content{}, 0)
	commit(t, st, 1, fits...)
}
