package lease_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

const year = 365 * 24 * time.Hour

// Each bound from both sides.
func TestSettingsBounds(t *testing.T) {
	proof := lease.Handover{Proofs: lease.ProofTree}
	for _, c := range []struct {
		field     string
		good, bad lease.Settings
	}{
		{"ttl", lease.Settings{TTL: time.Second}, lease.Settings{TTL: time.Second - 1}},
		{"ttl", lease.Settings{TTL: time.Hour}, lease.Settings{TTL: time.Hour + 1}},
		{"ttl", lease.Settings{TTL: 2 * time.Hour, MaxTTL: 2 * time.Hour}, lease.Settings{TTL: 2 * time.Hour, MaxTTL: 2*time.Hour - 1}},
		{"max_ttl", lease.Settings{MaxTTL: time.Second}, lease.Settings{MaxTTL: time.Second - 1}},
		{"max_ttl", lease.Settings{MaxTTL: lease.LongestTTL}, lease.Settings{MaxTTL: lease.LongestTTL + 1}},
		{"max_hold", lease.Settings{MaxHold: time.Second}, lease.Settings{MaxHold: time.Second - 1}},
		{"max_hold", lease.Settings{MaxHold: year}, lease.Settings{MaxHold: year + 1}},
		{"max_hold", lease.Settings{}, lease.Settings{MaxHold: -1}},
		{"stall.after", lease.Settings{StallAfter: 1}, lease.Settings{StallAfter: -1}},
		{"stall.after", lease.Settings{StallAfter: year}, lease.Settings{StallAfter: year + 1}},
		{"stall.after", lease.Settings{StallAfter: 1, StallRevokes: true}, lease.Settings{StallRevokes: true}},
		{"handover.after", lease.Settings{Handover: lease.Handover{After: lease.AtOnce}}, lease.Settings{Handover: lease.Handover{After: lease.AtOnce - 1}}},
		{"handover.after", lease.Settings{Handover: lease.Handover{After: lease.LongestTTL}}, lease.Settings{Handover: lease.Handover{After: lease.LongestTTL + 1}}},
		{"handover.max", lease.Settings{Handover: lease.Handover{Proofs: 1, Max: 1}}, lease.Settings{Handover: lease.Handover{Proofs: 1, Max: -1}}},
		{"handover.max", lease.Settings{Handover: lease.Handover{Proofs: 1, Max: year}}, lease.Settings{Handover: lease.Handover{Proofs: 1, Max: year + 1}}},
		{"handover", lease.Settings{Handover: proof}, lease.Settings{Handover: lease.Handover{Proofs: lease.ProofTree, After: 1}}},
		{"handover", lease.Settings{Handover: proof}, lease.Settings{Handover: lease.Handover{Proofs: lease.ProofTree, After: lease.AtOnce}}},
		{"clean", lease.Settings{Clean: []string{"x", ""}}, lease.Settings{Clean: []string{""}}},
	} {
		if _, err := c.good.Checked(); err != nil {
			t.Errorf("%s: good is refused: %v", c.field, err)
		}
		_, err := c.bad.Checked()
		if lease.CodeOf(err) != lease.CodePoolsInvalid || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("%s: bad gives %v", c.field, err)
		}
	}
}

func TestSettingsDefaults(t *testing.T) {
	after15 := lease.Handover{After: lease.DefaultAfter}
	for _, c := range []struct {
		what      string
		got, want lease.Settings
	}{
		{"none", lease.Settings{}, lease.Settings{TTL: 30 * time.Second, MaxTTL: time.Hour, Handover: after15}},
		{"a small bound", lease.Settings{MaxTTL: 10 * time.Second}, lease.Settings{TTL: 10 * time.Second, MaxTTL: 10 * time.Second, Handover: after15}},
		{"a proof", lease.Settings{Handover: lease.Handover{Proofs: lease.ProofBoot}},
			lease.Settings{TTL: 30 * time.Second, MaxTTL: time.Hour, Handover: lease.Handover{Proofs: lease.ProofBoot, Max: lease.DefaultMax}}},
		{"a cleaner", lease.Settings{Clean: []string{"x"}},
			lease.Settings{TTL: 30 * time.Second, MaxTTL: time.Hour, Clean: []string{"x"}, Handover: lease.Handover{After: lease.DefaultAfter, Max: lease.DefaultMax}}},
		{"at once", lease.Settings{Handover: lease.Handover{After: lease.AtOnce}},
			lease.Settings{TTL: 30 * time.Second, MaxTTL: time.Hour, Handover: lease.Handover{After: lease.AtOnce}}},
	} {
		got, err := c.got.Checked()
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.what, got, err, c.want)
		}
		if again, err := got.Checked(); err != nil || !again.Equal(got) {
			t.Errorf("%s: checked twice: %+v, %v", c.what, again, err)
		}
	}
}

func TestCheckedSettingsShareNothing(t *testing.T) {
	s := lease.Settings{Clean: []string{"a", "b"}}
	c, err := s.Checked()
	if err != nil {
		t.Fatal(err)
	}
	s.Clean[0] = "changed"
	if c.Clean[0] != "a" {
		t.Error("a change of the original changed the copy")
	}
}

func TestSettingsEqual(t *testing.T) {
	full := lease.Settings{TTL: 1, MaxTTL: 2, MaxHold: 3, StallAfter: 4, StallRevokes: true, Handover: lease.Handover{After: 5, Proofs: 1, Max: 6}, Clean: []string{"x"}}
	same := full
	same.Clean = slices.Clone(full.Clean)
	if !full.Equal(same) {
		t.Error("a copy is not equal")
	}
	for name, change := range map[string]func(s *lease.Settings){
		"ttl":     func(s *lease.Settings) { s.TTL++ },
		"max_ttl": func(s *lease.Settings) { s.MaxTTL++ },
		"hold":    func(s *lease.Settings) { s.MaxHold++ },
		"stall":   func(s *lease.Settings) { s.StallAfter++ },
		"revokes": func(s *lease.Settings) { s.StallRevokes = false },
		"after":   func(s *lease.Settings) { s.Handover.After++ },
		"proofs":  func(s *lease.Settings) { s.Handover.Proofs++ },
		"max":     func(s *lease.Settings) { s.Handover.Max++ },
		"clean":   func(s *lease.Settings) { s.Clean = []string{"y"} },
	} {
		s := full
		if change(&s); full.Equal(s) || s.Equal(full) {
			t.Errorf("equal with another %s", name)
		}
	}
}

func TestProofs(t *testing.T) {
	all := lease.ProofTree | lease.ProofBoot | lease.ProofCleaned
	if got := all.String(); got != "tree,boot,cleaned" {
		t.Errorf("all proofs are %q", got)
	}
	var back lease.Proofs
	for _, n := range all.Names() {
		p, ok := lease.ParseProof(n)
		if !ok || p.String() != n {
			t.Errorf("%s is parsed as %v, %v", n, p, ok)
		}
		back |= p
	}
	if back != all {
		t.Errorf("parsed back: %v", back)
	}
	if p, ok := lease.ParseProof("Tree"); ok || p != 0 {
		t.Errorf("Tree is parsed as %v", p)
	}
}

func TestHandoverPrintsAsAPoolsFileSaysIt(t *testing.T) {
	for want, h := range map[string]lease.Handover{
		"after 15s":                   {After: 15 * time.Second},
		"after 0s":                    {After: lease.AtOnce},
		"proof tree,boot, max 20m0s":  {Proofs: lease.ProofTree | lease.ProofBoot, Max: 20 * time.Minute},
		"proof cleaned, max 1h0m0.5s": {Proofs: lease.ProofCleaned, Max: time.Hour + time.Second/2},
	} {
		if got := h.String(); got != want {
			t.Errorf("%+v prints as %q, want %q", h, got, want)
		}
	}
	if d := (lease.Handover{After: lease.AtOnce}).Delay(); d != 0 {
		t.Errorf("at once waits %v", d)
	}
}
