package lease_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/lease"
)

// wish returns a request that every check passes and that sets every field of
// the body.
func wish() lease.Request {
	return lease.Request{
		ID:       "5f1d7c2e9a80b3640f1e2d3c4b5a6978",
		Claims:   []lease.Claim{{Pool: "gpu", Count: 2, Units: 3, Select: map[string]string{"model": "a", "zone": "b"}}, {Pool: "seats", Count: 1, Units: 5}},
		TTL:      10 * time.Second,
		MaxHold:  time.Hour,
		Wait:     time.Minute,
		Priority: 5,
		Holder: lease.Holder{Name: "n", Machine: "m", Boot: "b",
			Process: lease.Process{PID: 1, Start: 2, Namespace: 3}, Cgroup: lease.Cgroup{Path: "/p", Inode: 4, Namespace: 5}},
		Note: "note",
	}
}

func labels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("l%d", i)] = "v"
	}
	return m
}

// Each bound from both sides: the last good value and the first bad one.
func TestRequestBounds(t *testing.T) {
	x := strings.Repeat
	claims := func(n, count int) (list []lease.Claim) {
		for i := range n {
			list = append(list, lease.Claim{Pool: fmt.Sprintf("p%d", i), Count: count})
		}
		return list
	}
	for _, c := range []struct {
		field     string
		good, bad func(r *lease.Request)
		code      lease.Code
	}{
		{"id", func(r *lease.Request) { r.ID = "x" }, func(r *lease.Request) { r.ID = "" }, lease.CodeNameInvalid},
		{"id", func(r *lease.Request) { r.ID = lease.RequestID(x("a", 128)) }, func(r *lease.Request) { r.ID = lease.RequestID(x("a", 129)) }, lease.CodeNameInvalid},
		{"claims", func(r *lease.Request) { r.Claims = claims(1, 1) }, func(r *lease.Request) { r.Claims = nil }, lease.CodeRequestInvalid},
		{"claims", func(r *lease.Request) { r.Claims = claims(8, 1) }, func(r *lease.Request) { r.Claims = claims(9, 1) }, lease.CodeRequestInvalid},
		{"claims", func(r *lease.Request) { r.Claims = claims(8, 4) }, func(r *lease.Request) { r.Claims = claims(3, 11) }, lease.CodeRequestInvalid},
		{"claims", func(r *lease.Request) { r.Claims[1].Pool = "gpu2" }, func(r *lease.Request) { r.Claims[1].Pool = "gpu" }, lease.CodeRequestInvalid},
		{"claims[1].pool", func(r *lease.Request) { r.Claims[1].Pool = x("p", 128) }, func(r *lease.Request) { r.Claims[1].Pool = x("p", 129) }, lease.CodeNameInvalid},
		{"claims[0].count", func(r *lease.Request) { r.Claims[0].Count = 0 }, func(r *lease.Request) { r.Claims[0].Count = -1 }, lease.CodeRequestInvalid},
		{"claims[0].count", func(r *lease.Request) { r.Claims = claims(1, 32) }, func(r *lease.Request) { r.Claims = claims(1, 33) }, lease.CodeRequestInvalid},
		{"claims[0].units", func(r *lease.Request) { r.Claims[0].Units = 0 }, func(r *lease.Request) { r.Claims[0].Units = -1 }, lease.CodeRequestInvalid},
		{"claims[0].units", func(r *lease.Request) { r.Claims[0].Units = lease.MaxUnits }, func(r *lease.Request) { r.Claims[0].Units = lease.MaxUnits + 1 }, lease.CodeRequestInvalid},
		{"claims[0].select", func(r *lease.Request) { r.Claims[0].Select = labels(16) }, func(r *lease.Request) { r.Claims[0].Select = labels(17) }, lease.CodeRequestInvalid},
		{"claims[0].select", func(r *lease.Request) { r.Claims[0].Select["k"] = x("v", 256) }, func(r *lease.Request) { r.Claims[0].Select["k"] = x("v", 257) }, lease.CodeRequestInvalid},
		{"claims[0].select", func(r *lease.Request) { r.Claims[0].Select["k.l"] = "" }, func(r *lease.Request) { r.Claims[0].Select["k l"] = "" }, lease.CodeNameInvalid},
		{"ttl", func(r *lease.Request) { r.TTL = time.Second }, func(r *lease.Request) { r.TTL = time.Second - 1 }, lease.CodeTTLOutOfRange},
		{"ttl", func(r *lease.Request) { r.TTL = 0 }, func(r *lease.Request) { r.TTL = -time.Hour }, lease.CodeTTLOutOfRange},
		{"max_hold", func(r *lease.Request) { r.MaxHold = time.Second }, func(r *lease.Request) { r.MaxHold = time.Second - 1 }, lease.CodeRequestInvalid},
		{"max_hold", func(r *lease.Request) { r.MaxHold = 0 }, func(r *lease.Request) { r.MaxHold = -1 }, lease.CodeRequestInvalid},
		// Added to broker time, a longer one could overflow and then bound nothing.
		{"max_hold", func(r *lease.Request) { r.MaxHold = lease.LongestHold }, func(r *lease.Request) { r.MaxHold = lease.LongestHold + 1 }, lease.CodeRequestInvalid},
		{"wait", func(r *lease.Request) { r.Wait = 0 }, func(r *lease.Request) { r.Wait = -1 }, lease.CodeRequestInvalid},
		{"wait", func(r *lease.Request) { r.Wait = lease.MaxWait }, func(r *lease.Request) { r.Wait = lease.MaxWait + 1 }, lease.CodeRequestInvalid},
		{"priority", func(r *lease.Request) { r.Priority = 100 }, func(r *lease.Request) { r.Priority = 101 }, lease.CodeRequestInvalid},
		{"priority", func(r *lease.Request) { r.Priority = -100 }, func(r *lease.Request) { r.Priority = -101 }, lease.CodeRequestInvalid},
		{"note", func(r *lease.Request) { r.Note = x("n", 256) }, func(r *lease.Request) { r.Note = x("n", 257) }, lease.CodeRequestInvalid},
		{"holder.name", func(r *lease.Request) { r.Holder.Name = x("n", 128) }, func(r *lease.Request) { r.Holder.Name = x("n", 129) }, lease.CodeRequestInvalid},
		{"holder.machine", func(r *lease.Request) { r.Holder.Machine = x("n", 128) }, func(r *lease.Request) { r.Holder.Machine = x("n", 129) }, lease.CodeRequestInvalid},
		{"holder.boot", func(r *lease.Request) { r.Holder.Boot = x("n", 128) }, func(r *lease.Request) { r.Holder.Boot = x("n", 129) }, lease.CodeRequestInvalid},
		{"holder", func(r *lease.Request) { r.Holder.Process.PID = 0 }, func(r *lease.Request) { r.Holder.Process.PID = -1 }, lease.CodeRequestInvalid},
		{"holder", func(r *lease.Request) { r.Holder.Cgroup.Path = x("p", 4096) }, func(r *lease.Request) { r.Holder.Cgroup.Path = x("p", 4097) }, lease.CodeRequestInvalid},
	} {
		good, bad := wish(), wish()
		c.good(&good)
		c.bad(&bad)
		if _, err := good.Checked(); err != nil {
			t.Errorf("%s: good is refused: %v", c.field, err)
		}
		got, err := bad.Checked()
		if lease.CodeOf(err) != c.code || !strings.HasPrefix(err.Error(), "cannot accept the request: "+c.field+": ") && !strings.HasPrefix(err.Error(), "cannot accept the request: "+c.field+".") {
			t.Errorf("%s: bad gives %v (%s); want %s", c.field, err, lease.CodeOf(err), c.code)
		}
		if !reflect.DeepEqual(got, lease.Request{}) {
			t.Errorf("%s: a refused request comes back as %+v", c.field, got)
		}
	}
}

func TestCheckedIsNormalAndShares(t *testing.T) {
	r := lease.Request{ID: "r", Claims: []lease.Claim{{Pool: "z", Select: map[string]string{"a": "b"}}, {Pool: "a", Count: 2, Units: 7}}}
	c, err := r.Checked()
	if err != nil {
		t.Fatal(err)
	}
	want := []lease.Claim{{Pool: "a", Count: 2, Units: 7}, {Pool: "z", Count: 1, Units: 1, Select: map[string]string{"a": "b"}}}
	if !reflect.DeepEqual(c.Claims, want) {
		t.Errorf("the claims are %+v; want %+v", c.Claims, want)
	}
	r.Claims[0].Select["a"] = "changed"
	r.Claims[0].Pool, r.Claims[1].Pool = "x", "y"
	if !reflect.DeepEqual(c.Claims, want) {
		t.Errorf("a change of the original changed the copy: %+v", c.Claims)
	}
	again, err := c.Checked()
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("checked twice: %+v, %v; want %+v", again, err, c)
	}
}

func body(t *testing.T, r lease.Request) lease.Digest {
	t.Helper()
	c, err := r.Checked()
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return c.Body()
}

// What a repeat may say differently, and what it may not (I4).
func TestI4_TheBody(t *testing.T) {
	first := body(t, wish())
	for name, change := range map[string]func(r *lease.Request){
		"the id":             func(r *lease.Request) { r.ID = "other" },
		"the note":           func(r *lease.Request) { r.Note = "other" },
		"the claims' order":  func(r *lease.Request) { slices.Reverse(r.Claims) },
		"a default spelt":    func(r *lease.Request) { r.Claims[1].Count = 0 },
		"an empty selection": func(r *lease.Request) { r.Claims[1].Select = map[string]string{} },
	} {
		r := wish()
		change(&r)
		if body(t, r) != first {
			t.Errorf("%s is part of the body", name)
		}
	}
	for name, change := range map[string]func(r *lease.Request){
		"pool":          func(r *lease.Request) { r.Claims[0].Pool = "gpv" },
		"count":         func(r *lease.Request) { r.Claims[0].Count++ },
		"units":         func(r *lease.Request) { r.Claims[0].Units++ },
		"label":         func(r *lease.Request) { r.Claims[0].Select["model"] = "b" },
		"label name":    func(r *lease.Request) { delete(r.Claims[0].Select, "zone") },
		"one claim":     func(r *lease.Request) { r.Claims = r.Claims[:1] },
		"ttl":           func(r *lease.Request) { r.TTL++ },
		"max hold":      func(r *lease.Request) { r.MaxHold++ },
		"wait":          func(r *lease.Request) { r.Wait++ },
		"priority":      func(r *lease.Request) { r.Priority = -5 },
		"name":          func(r *lease.Request) { r.Holder.Name = "" },
		"machine":       func(r *lease.Request) { r.Holder.Machine = "" },
		"boot":          func(r *lease.Request) { r.Holder.Boot = "" },
		"pid":           func(r *lease.Request) { r.Holder.Process.PID++ },
		"start":         func(r *lease.Request) { r.Holder.Process.Start++ },
		"pid namespace": func(r *lease.Request) { r.Holder.Process.Namespace++ },
		"path":          func(r *lease.Request) { r.Holder.Cgroup.Path = "" },
		"inode":         func(r *lease.Request) { r.Holder.Cgroup.Inode++ },
		"cgroup ns":     func(r *lease.Request) { r.Holder.Cgroup.Namespace++ },
		// The same letters, divided differently.
		"name|machine": func(r *lease.Request) { r.Holder.Name, r.Holder.Machine = "nm", "" },
	} {
		r := wish()
		change(&r)
		if body(t, r) == first {
			t.Errorf("%s is not part of the body", name)
		}
	}
}

// Two requests have one digest just when they are alike but for id and note.
func TestI4_EqualBodiesAreEqualRequests(t *testing.T) {
	small := rapid.Custom(func(t *rapid.T) lease.Request {
		r := lease.Request{ID: "r", TTL: time.Duration(rapid.IntRange(1, 2).Draw(t, "ttl")) * time.Second,
			Wait: time.Duration(rapid.IntRange(0, 1).Draw(t, "wait")), Priority: rapid.IntRange(-1, 1).Draw(t, "priority")}
		for _, p := range rapid.SliceOfNDistinct(rapid.StringMatching("[ab]{1,2}"), 1, 3, rapid.ID).Draw(t, "pools") {
			r.Claims = append(r.Claims, lease.Claim{Pool: p, Count: rapid.IntRange(0, 2).Draw(t, "count"),
				Select: rapid.MapOfN(rapid.StringMatching("[ab]{1,2}"), rapid.StringMatching("[ab]{0,1}"), 0, 2).Draw(t, "select")})
		}
		return r
	})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := small.Draw(rt, "a"), small.Draw(rt, "b")
		if rapid.Bool().Draw(rt, "alike") {
			b = a
			b.Claims = slices.Clone(a.Claims)
			slices.Reverse(b.Claims)
		}
		a, errA := a.Checked()
		b, errB := b.Checked()
		if errA != nil || errB != nil {
			rt.Fatal(errA, errB)
		}
		if alike, digests := sameBody(a, b), a.Body() == b.Body(); alike != digests {
			rt.Fatalf("alike %v, digests alike %v:\n%+v\n%+v", alike, digests, a, b)
		}
	})
}

func sameBody(a, b lease.Request) bool {
	return a.TTL == b.TTL && a.Wait == b.Wait && a.Priority == b.Priority &&
		slices.EqualFunc(a.Claims, b.Claims, func(x, y lease.Claim) bool {
			return x.Pool == y.Pool && x.Count == y.Count && x.Units == y.Units && maps.Equal(x.Select, y.Select)
		})
}

func TestHolderIsNamedByAllFive(t *testing.T) {
	full := wish().Holder
	if !full.Named() {
		t.Error("a full holder is not named")
	}
	for name, drop := range map[string]func(h *lease.Holder){
		"machine": func(h *lease.Holder) { h.Machine = "" },
		"pid":     func(h *lease.Holder) { h.Process.PID = 0 },
		"start":   func(h *lease.Holder) { h.Process.Start = 0 },
		"path":    func(h *lease.Holder) { h.Cgroup.Path = "" },
		"inode":   func(h *lease.Holder) { h.Cgroup.Inode = 0 },
	} {
		h := full
		if drop(&h); h.Named() {
			t.Errorf("named without %s", name)
		}
	}
}

// Errors show what was wrong, but no more of it than fits a line.
func TestErrorsClipWhatTheyShow(t *testing.T) {
	r := wish()
	r.Claims[0].Pool = strings.Repeat("ü", 1000)
	_, err := r.Checked()
	if err == nil || len(err.Error()) > 250 {
		t.Errorf("the error has %d bytes: %v", len(fmt.Sprint(err)), err)
	}
	var e *lease.Error
	if !errors.As(err, &e) || e.Code() != string(lease.CodeNameInvalid) {
		t.Errorf("the error is %#v", err)
	}
}

func TestChecksOfExtremesDoNotOverflow(t *testing.T) {
	r := wish()
	r.Claims = []lease.Claim{{Pool: "a", Count: math.MaxInt}, {Pool: "b", Count: math.MaxInt}}
	if _, err := r.Checked(); err == nil {
		t.Error("two claims of MaxInt slots are accepted")
	}
	r = wish()
	r.TTL, r.MaxHold, r.Wait = math.MaxInt64, math.MaxInt64, math.MaxInt64
	if _, err := r.Checked(); err == nil {
		t.Error("endless times are accepted")
	}
}
