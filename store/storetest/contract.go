package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berth-dev/berth/store"
)

// contract is what holds while the disk works.
var contract = []struct {
	name string
	test func(t *testing.T, kit Kit)
}{
	{"Empty", testEmpty},
	{"KeyOrder", testKeyOrder},
	{"ChangeOrder", testChangeOrder},
	{"Deletes", testDeletes},
	{"BigValues", testBigValues},
	{"ReopenKeepsAll", testReopenKeepsAll},
	{"CallersMemory", testCallersMemory},
	{"VisitError", testVisitError},
	{"EndedContext", testEndedContext},
	{"Closed", testClosed},
	{"Free", testFree},
	{"Numbers", testNumbers},
	{"LoadAfterConflict", testLoadAfterConflict},
	{"SecondWriter", testSecondWriter},
	{"OneOfTwoCommits", testOneOfTwoCommits},
	{"LoadSeesOneMoment", testLoadSeesOneMoment},
	{"HundredChanges", testHundredChanges},
	{"ByteLimit", testByteLimit},
}

func testEmpty(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	wantContent(t, st, content{}, 0)
	st = reopen(t, dev, st)
	wantContent(t, st, content{}, 0)
	commit(t, st, 1)
	commit(t, st, 2)
	st = reopen(t, dev, st)
	wantContent(t, st, content{}, 2)
}

// The order itself is checked by load.
func testKeyOrder(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	keys := []string{"b", "", "\x00", "\xff\xff", "a/10", "a/2", "a", "\xff", "c", "d", "e", "\x00\x00", "ab"}
	want := content{}
	for i, key := range keys {
		want[key] = fmt.Sprint(i)
		commit(t, st, uint64(i+1), set(key, want[key]))
	}
	wantContent(t, st, want, uint64(len(keys)))
	st = reopen(t, dev, st)
	wantContent(t, st, want, uint64(len(keys)))
}

func testChangeOrder(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	commit(t, st, 1, set("a", "1"), set("a", "2"), set("b", "1"), del("b"), del("c"), set("c", "3"))
	wantContent(t, st, content{"a": "2", "c": "3"}, 1)
}

func testDeletes(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	commit(t, st, 1, set("a", "1"), set("b", ""), set("c", "3"))
	wantContent(t, st, content{"a": "1", "b": "", "c": "3"}, 1)
	commit(t, st, 2, del("a"), del("never"), set("b", ""))
	st = reopen(t, dev, st)
	wantContent(t, st, content{"b": "", "c": "3"}, 2)
	commit(t, st, 3, del("b"), set("a", "4"))
	wantContent(t, st, content{"a": "4", "c": "3"}, 3)
	st = reopen(t, dev, st)
	wantContent(t, st, content{"a": "4", "c": "3"}, 3)
}

func testBigValues(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	want := content{}
	for i := range 3 {
		key := strings.Repeat("k", 1000*i+1)
		want[key] = strings.Repeat(string(rune('a'+i)), 1<<20-len(key)-i)
		commit(t, st, uint64(i+1), set(key, want[key]))
	}
	wantContent(t, st, want, 3)
	st = reopen(t, dev, st)
	wantContent(t, st, want, 3)
}

// testReopenKeepsAll compares a random walk with a map.
func testReopenKeepsAll(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	rng := rand.New(rand.NewPCG(1, 2))
	want := content{}
	for seq := uint64(1); seq <= 120; seq++ {
		var changes []store.Change
		for range rng.IntN(8) {
			key := fmt.Sprint(rng.IntN(40))
			if rng.IntN(3) == 0 {
				changes = append(changes, del(key))
				delete(want, key)
				continue
			}
			want[key] = strings.Repeat(fmt.Sprint(seq), rng.IntN(200))
			changes = append(changes, set(key, want[key]))
		}
		commit(t, st, seq, changes...)
		if seq%20 == 0 {
			st = reopen(t, dev, st)
			wantContent(t, st, want, seq)
		}
	}
}

// testCallersMemory: whoever called may overwrite what it sent, and what it
// was shown.
func testCallersMemory(t *testing.T, kit Kit) {
	dev := kit.New(t, store.Limits{})
	st := open(t, dev)
	c := set("key", "value")
	commit(t, st, 1, c)
	copy(c.Key, "xxx")
	copy(c.Value, "xxxxx")
	_, err := st.Load(t.Context(), func(key, value []byte) error {
		clear(key)
		clear(value)
		return nil
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	wantContent(t, st, content{"key": "value"}, 1)
	st = reopen(t, dev, st)
	wantContent(t, st, content{"key": "value"}, 1)
}

func testVisitError(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	for seq := range uint64(8) {
		commit(t, st, seq+1, set(fmt.Sprint("big", seq), strings.Repeat("x", 1<<19)))
	}
	stop := errors.New("enough")
	visits := 0
	_, err := st.Load(t.Context(), func(_, _ []byte) error {
		visits++
		if visits == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || visits != 2 {
		t.Errorf("Load returned %v after %d visits, want the error of visit 2", err, visits)
	}
	commit(t, st, 9)
}

func testEndedContext(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	commit(t, st, 1, set("a", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.Commit(ctx, 2, []store.Change{set("a", "2")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit returned %v, want the context's error", err)
	}
	if _, err := st.Load(ctx, func(_, _ []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Load returned %v, want the context's error", err)
	}
	wantContent(t, st, content{"a": "1"}, 1)
	commit(t, st, 2, set("a", "2"))
}

func testClosed(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	commit(t, st, 1, set("a", "1"))
	closeStore(t, st)
	closeStore(t, st)
	wantError(t, "Commit", st.Commit(t.Context(), 2, nil), store.ErrClosed)
	_, _, err := tryLoad(t, st)
	wantError(t, "Load", err, store.ErrClosed)
	_, err = st.Free()
	wantError(t, "Free", err, store.ErrClosed)
}

func testFree(t *testing.T, kit Kit) {
	st := open(t, kit.New(t, store.Limits{}))
	free, err := st.Free()
	if err != nil || free == 0 {
		t.Errorf("Free returned %d, %v, want some space", free, err)
	}
}

// wantError checks that err has the code, says what to do, and fits the table
// of codes.
func wantError(t *testing.T, call string, err error, code store.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s returned %v, want %v", call, err, code)
		return
	}
	e, ok := errors.AsType[*store.Error](err)
	if !ok || e.Code() != string(code) || e.Text == "" || e.Next == "" {
		t.Errorf("%s returned %#v, want a store.Error with code, text and what to do next", call, err)
	}
}
