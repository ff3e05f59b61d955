package pools_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/pools"
	"github.com/berth-dev/berth/lease"
)

func TestTheExampleFile(t *testing.T) {
	got, err := pools.Read("testdata/pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hour, after15 := time.Hour, lease.Handover{After: 15 * time.Second}
	want := []lease.PoolSpec{
		{
			Name: "gpu",
			Settings: &lease.Settings{TTL: 30 * time.Second, MaxTTL: 2 * hour, MaxHold: 8 * hour,
				StallAfter: 10 * time.Minute, StallRevokes: true, Handover: after15},
			Slots: []lease.SlotSpec{
				{ID: "gpu-0", Labels: map[string]string{"model": "rtx4090", "device": "GPU-5a1c"}},
				{ID: "gpu-1", Labels: map[string]string{"model": "rtx4090", "device": "1"}},
			},
		},
		{
			Name: "devices",
			Settings: &lease.Settings{TTL: 30 * time.Second, MaxTTL: hour, Clean: []string{"device-reset", "--full"},
				Handover: lease.Handover{Proofs: lease.ProofTree | lease.ProofBoot | lease.ProofCleaned, Max: hour}},
			Slots: []lease.SlotSpec{{ID: "phone-0"}},
		},
		{
			Name:     "seats",
			Settings: &lease.Settings{TTL: 30 * time.Second, MaxTTL: hour, Handover: after15},
			Slots:    []lease.SlotSpec{{ID: "nuke", Capacity: 20}},
		},
		{
			Name:     "permits",
			Settings: &lease.Settings{TTL: 30 * time.Second, MaxTTL: hour, Handover: lease.Handover{After: lease.AtOnce}},
			Slots:    []lease.SlotSpec{{ID: "p", Capacity: 4}},
		},
		{Name: "farm", Settings: &lease.Settings{TTL: 30 * time.Second, MaxTTL: hour, Handover: after15}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%#v\nwant\n%#v", got, want)
	}
}

func TestGoodFiles(t *testing.T) {
	for _, c := range []struct {
		what, text string
		check      func(specs []lease.PoolSpec) bool
	}{
		{"no pools", "pools: {}", func(s []lease.PoolSpec) bool { return len(s) == 0 }},
		{"no pools with a comment and a document mark", "# none\n---\npools: {}\n", func(s []lease.PoolSpec) bool { return len(s) == 0 }},
		{"an empty handover is the default", "pools: {g: {handover: {}}}", func(s []lease.PoolSpec) bool { return s[0].Settings.Handover.After == lease.DefaultAfter }},
		{"an empty list of slots", "pools: {g: {slots: []}}", func(s []lease.PoolSpec) bool { return len(s[0].Slots) == 0 }},
		{"a small max_ttl lowers the default ttl", "pools: {g: {max_ttl: 5s}}", func(s []lease.PoolSpec) bool { return s[0].Settings.TTL == 5*time.Second }},
		{"the default max", "pools: {g: {handover: {proof: [cleaned]}}}", func(s []lease.PoolSpec) bool {
			return s[0].Settings.Handover == lease.Handover{Proofs: lease.ProofCleaned, Max: lease.DefaultMax}
		}},
		{"max with a cleaner", "pools: {g: {handover: {max: 5m}, clean: [x]}}", func(s []lease.PoolSpec) bool { return s[0].Settings.Handover.Max == 5*time.Minute }},
		{"a stall that only shows", "pools: {g: {stall: {after: 1m, revoke: false}}}", func(s []lease.PoolSpec) bool {
			return s[0].Settings.StallAfter == time.Minute && !s[0].Settings.StallRevokes
		}},
		{"quotes and digits are text", "pools: {7: {slots: [{id: 0, labels: {a: 'x: y', b: 1.50, c: true, d: \"\", e: 007, f: no}}]}}", func(s []lease.PoolSpec) bool {
			return s[0].Name == "7" && s[0].Slots[0].ID == "0" &&
				reflect.DeepEqual(s[0].Slots[0].Labels, map[string]string{"a": "x: y", "b": "1.50", "c": "true", "d": "", "e": "007", "f": "no"})
		}},
		{"a label of many lines", "pools:\n  g:\n    slots:\n      - id: a\n        labels:\n          x: |\n            one\n            two\n", func(s []lease.PoolSpec) bool { return s[0].Slots[0].Labels["x"] == "one\ntwo\n" }},
		{"the same slot id in two pools", "pools: {g: {slots: [{id: a}]}, h: {slots: [{id: a}]}}", func(s []lease.PoolSpec) bool { return len(s) == 2 }},
		{"the most units", "pools: {g: {slots: [{id: a, units: 1099511627776}]}}", func(s []lease.PoolSpec) bool { return s[0].Slots[0].Capacity == lease.MaxUnits }},
	} {
		t.Run(c.what, func(t *testing.T) {
			specs, err := pools.Parse("p.yaml", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(specs) {
				t.Errorf("read as %#v", specs)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	long := strings.Repeat("x", 257)
	for _, c := range []struct{ text, want string }{
		{"", "p.yaml: it is empty; write pools: {} for no pools"},
		{"# nothing\n", "p.yaml: it is empty; write pools: {} for no pools"},
		{"hello", `p.yaml:1:1: "hello" is given; give a mapping, as in pools: {}`},
		{"- a", "p.yaml:1:1: a list is given; give a mapping, as in pools: {}"},
		{"{}", "p.yaml:1:1: the key pools is missing; write pools: {} for no pools"},
		{"pools:", "p.yaml:1:1: pools: nothing is given; give a mapping, as in {gpu: {}}"},
		{"pool: {}", `p.yaml:1:1: pool: there is no key "pool"; did you mean pools?`},
		{"pools: {}\npools: {}", "p.yaml:2:1: pools: it stands in line 1 already; drop one"},
		{"pools: {}\n---\npools: {}", "p.yaml:3:1: directives and further documents are not supported; write one plain document"},
		{"%YAML 1.2\n---\npools: {}", "p.yaml:1:1: directives and further documents are not supported; write one plain document"},
		{"pools:\n\tgpu: {}", "p.yaml:2:1: it is no YAML: found character '\t' that cannot start any token"},
		{"pools: {gpu: {}", "p.yaml:1:8: it is no YAML: could not find flow mapping end token '}'"},
		{"pools: 1\n  gpu: 2", "p.yaml:1:8: it is no YAML: mapping value is not allowed in this context"},
		{"pools: &p {}", "p.yaml:1:1: pools: anchors, aliases and tags are not supported; write the value out"},
		{"pools: {a: {slots: []}, <<: {}}", "p.yaml:1:25: pools: a key must be a plain word"},
		{"pools: {? a : {}}", "p.yaml:1:9: pools: a key must be a plain word"},
		{"pools: {~: {}}", "p.yaml:1:9: pools: a key must be a plain word"},

		{"pools:\n  gpu:\n", "p.yaml:2:3: pools.gpu: nothing is given; give a mapping, as in {slots: [{id: a}]}, or {} for one with defaults and no slots here"},
		{"pools:\n  gpu: {}\n  gpu: {}\n", "p.yaml:3:3: pools.gpu: it stands in line 2 already; drop one"},
		{"pools: {'g p': {}}", `p.yaml:1:9: pools."g p": the name must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools: {'': {}}", `p.yaml:1:9: pools."": the name must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools: {g: {tll: 3s}}", `p.yaml:1:13: pools.g.tll: there is no key "tll"; did you mean ttl?`},
		{"pools: {g: {maxttl: 3s}}", `p.yaml:1:13: pools.g.maxttl: there is no key "maxttl"; did you mean max_ttl?`},
		{"pools: {g: {slot: []}}", `p.yaml:1:13: pools.g.slot: there is no key "slot"; did you mean slots?`},
		{"pools: {g: {units: 3}}", `p.yaml:1:13: pools.g.units: there is no key "units"; give ttl, max_ttl, max_hold, stall, handover, clean, slots`},
		{"pools: {g: {ttl: 3s, ttl: 4s}}", "p.yaml:1:22: pools.g.ttl: it stands in line 1 already; drop one"},

		{"pools: {g: {ttl: 30}}", `p.yaml:1:13: pools.g.ttl: "30" is given; give a number with a unit, such as 30s, 15m or 1h30m`},
		{"pools: {g: {ttl: 7d}}", `p.yaml:1:13: pools.g.ttl: "7d" is given; give a number with a unit, such as 30s, 15m or 1h30m`},
		{"pools: {g: {ttl: }}", "p.yaml:1:13: pools.g.ttl: nothing is given; give a number with a unit, such as 30s, 15m or 1h30m"},
		{"pools: {g: {ttl: [30s]}}", "p.yaml:1:13: pools.g.ttl: a list is given; give a number with a unit, such as 30s, 15m or 1h30m"},
		{"pools: {g: {ttl: !!str 30s}}", "p.yaml:1:13: pools.g.ttl: anchors, aliases and tags are not supported; write the value out"},
		{"pools: {g: {ttl: 0s}}", "p.yaml:1:13: pools.g.ttl: 0s is out of range; give a duration above 0, or leave the key out for the default"},
		{"pools: {g: {ttl: -1ns}}", "p.yaml:1:13: pools.g.ttl: -1ns is out of range; give a duration above 0, or leave the key out for the default"},
		{"pools: {g: {ttl: 999ms}}", "p.yaml:1:13: pools.g.ttl: 999ms is out of range; give 1s to 1h0m0s"},
		{"pools: {g: {ttl: 61m}}", "p.yaml:1:13: pools.g.ttl: 1h1m0s is out of range; give 1s to 1h0m0s"},
		{"pools: {g: {max_ttl: 169h}}", "p.yaml:1:13: pools.g.max_ttl: 169h0m0s is out of range; give 1s to 168h0m0s"},
		{"pools: {g: {max_hold: 10ms}}", "p.yaml:1:13: pools.g.max_hold: 10ms is below the least of 1s; leave it out for no bound"},
		{"pools: {g: {max_hold: 9000h}}", "p.yaml:1:13: pools.g.max_hold: 9000h0m0s is out of range; give 0s to 8760h0m0s"},

		{"pools: {g: {stall: 10m}}", `p.yaml:1:13: pools.g.stall: "10m" is given; give a mapping, as in {after: 10m, revoke: true}`},
		{"pools: {g: {stall: {}}}", "p.yaml:1:13: pools.g.stall: the key after is missing; say how long a holder may report no progress"},
		{"pools: {g: {stall: {revoke: true}}}", "p.yaml:1:13: pools.g.stall: the key after is missing; say how long a holder may report no progress"},
		{"pools: {g: {stall: {after: 1m, revoke: yes}}}", `p.yaml:1:32: pools.g.stall.revoke: "yes" is given; give true or false`},
		{"pools: {g: {stall: {after: 1m, revokes: true}}}", `p.yaml:1:32: pools.g.stall.revokes: there is no key "revokes"; did you mean revoke?`},
		{"pools: {g: {stall: {after: 9000h}}}", "p.yaml:1:21: pools.g.stall.after: 9000h0m0s is out of range; give 0s to 8760h0m0s"},

		{"pools: {g: {handover: 15s}}", `p.yaml:1:13: pools.g.handover: "15s" is given; give a mapping, as in {after: 15s}`},
		{"pools: {g: {handover: {after: -1ns}}}", "p.yaml:1:24: pools.g.handover.after: -1ns is out of range; give 0s for no wait, or more"},
		{"pools: {g: {handover: {after: 0}}}", ""},
		{"pools: {g: {handover: {after: 169h}}}", "p.yaml:1:24: pools.g.handover.after: 169h0m0s is out of range; give 0s to 168h0m0s"},
		{"pools: {g: {handover: {after: soon}}}", `p.yaml:1:24: pools.g.handover.after: "soon" is given; give a number with a unit, such as 30s, 15m or 1h30m`},
		{"pools: {g: {handover: {after: 0s, proof: [tree]}}}", "p.yaml:1:13: pools.g.handover: give after or proof, not both"},
		{"pools: {g: {handover: {proof: tree}}}", `p.yaml:1:24: pools.g.handover.proof: "tree" is given; give a list, as in [tree, boot]`},
		{"pools: {g: {handover: {proof: []}}}", "p.yaml:1:24: pools.g.handover.proof: the list is empty; name at least one proof, or give after instead"},
		{"pools: {g: {handover: {proof: [tree, tres]}}}", `p.yaml:1:38: pools.g.handover.proof[1]: there is no proof "tres"; did you mean tree?`},
		{"pools: {g: {handover: {proof: [magic]}}}", `p.yaml:1:32: pools.g.handover.proof[0]: there is no proof "magic"; give tree, boot, cleaned`},
		{"pools: {g: {handover: {proof: [[tree]]}}}", `p.yaml:1:32: pools.g.handover.proof[0]: a list is given; give a text; "" is the empty one`},
		{"pools: {g: {handover: {proof: [boot, boot]}}}", "p.yaml:1:38: pools.g.handover.proof[1]: proof boot is there twice; drop one"},
		{"pools: {g: {handover: {max: 5m}}}", "p.yaml:1:24: pools.g.handover.max: it counts only where units wait for a proof or a cleaner; leave it out, or give proof"},
		{"pools: {g: {handover: {proof: [boot], max: 9000h}}}", "p.yaml:1:39: pools.g.handover.max: 9000h0m0s is out of range; give 0s to 8760h0m0s"},

		{"pools: {g: {clean: reset}}", `p.yaml:1:13: pools.g.clean: "reset" is given; give a list, as in [reset, --all]`},
		{"pools: {g: {clean: []}}", "p.yaml:1:13: pools.g.clean: the list is empty; give the command and its arguments, or leave the key out"},
		{"pools: {g: {clean: ['']}}", "p.yaml:1:13: pools.g.clean: the command is empty"},
		{"pools: {g: {clean: [x, {}]}}", `p.yaml:1:24: pools.g.clean[1]: a mapping is given; give a text; "" is the empty one`},

		{"pools: {g: {slots: 4}}", `p.yaml:1:13: pools.g.slots: "4" is given; give a list, as in [{id: a}, {id: b}]`},
		{"pools: {g: {slots: [gpu-0]}}", `p.yaml:1:21: pools.g.slots[0]: "gpu-0" is given; give a mapping, as in {id: a}`},
		{"pools: {g: {slots: [{units: 2}]}}", "p.yaml:1:21: pools.g.slots[0]: the key id is missing; give each slot an id"},
		{"pools:\n  g:\n    slots:\n      - units: 2\n", "p.yaml:4:9: pools.g.slots[0]: the key id is missing; give each slot an id"},
		{"pools: {g: {slots: [{id: 'a b'}]}}", `p.yaml:1:22: pools.g.slots[0].id: "a b" must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools: {g: {slots: [{id: ''}]}}", `p.yaml:1:22: pools.g.slots[0].id: "" must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools: {g: {slots: [{id: }]}}", `p.yaml:1:22: pools.g.slots[0].id: nothing is given; give a text; "" is the empty one`},
		{"pools: {g: {slots: [{id: " + long + "}]}}", `p.yaml:1:22: pools.g.slots[0].id: "` + long[:32] + `…" must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools:\n  g:\n    slots:\n      - id: a\n      - id: b\n      - id: a\n", "p.yaml:6:9: pools.g.slots[2]: slot a stands in line 4 already; drop one, or give it another id"},
		{"pools: {g: {slots: [{id: a, unit: 2}]}}", `p.yaml:1:29: pools.g.slots[0].unit: there is no key "unit"; did you mean units?`},
		{"pools: {g: {slots: [{it: a}]}}", `p.yaml:1:22: pools.g.slots[0].it: there is no key "it"; did you mean id?`},
		{"pools: {g: {slots: [{x: a}]}}", `p.yaml:1:22: pools.g.slots[0].x: there is no key "x"; give id, units, labels`},
		{"pools: {g: {slots: [{id: a, units: 0}]}}", `p.yaml:1:29: pools.g.slots[0].units: "0" is given; give a whole number from 1 to 1099511627776`},
		{"pools: {g: {slots: [{id: a, units: 1.5}]}}", `p.yaml:1:29: pools.g.slots[0].units: "1.5" is given; give a whole number from 1 to 1099511627776`},
		{"pools: {g: {slots: [{id: a, units: 010}]}}", `p.yaml:1:29: pools.g.slots[0].units: "010" is given; give a whole number from 1 to 1099511627776`},
		{"pools: {g: {slots: [{id: a, units: 1099511627777}]}}", `p.yaml:1:29: pools.g.slots[0].units: "1099511627777" is given; give a whole number from 1 to 1099511627776`},
		{"pools: {g: {slots: [{id: a, labels: [x]}]}}", "p.yaml:1:29: pools.g.slots[0].labels: a list is given; give a mapping, as in {model: a}"},
		{"pools: {g: {slots: [{id: a, labels: {'m l': x}}]}}", `p.yaml:1:38: pools.g.slots[0].labels."m l": the name must match [A-Za-z0-9_.:-]{1,128}`},
		{"pools: {g: {slots: [{id: a, labels: {m: }}]}}", `p.yaml:1:38: pools.g.slots[0].labels.m: nothing is given; give a text; "" is the empty one`},
		{"pools: {g: {slots: [{id: a, labels: {m: " + long + "}}]}}", "p.yaml:1:38: pools.g.slots[0].labels.m: the value has 257 bytes; give at most 256"},
		{"pools: {g: {slots: [{id: a, labels: {m: 1, m: 1}}]}}", "p.yaml:1:44: pools.g.slots[0].labels.m: it stands in line 1 already; drop one"},
	} {
		t.Run(c.text[:min(len(c.text), 60)], func(t *testing.T) {
			specs, err := pools.Parse("p.yaml", []byte(c.text))
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("read as %#v", specs)
			}
			want := "cannot use the pools file: " + c.want
			if err.Error() != want || !errors.Is(err, lease.CodePoolsInvalid.Err()) || specs != nil {
				t.Errorf("got  %v (%s, %v)\nwant %s", err, lease.CodeOf(err), specs, want)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "pools.yaml")
	_, err := pools.Read(missing)
	if lease.CodeOf(err) != lease.CodePoolsInvalid || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
	_, err = pools.Parse("p.yaml", make([]byte, 16<<20+1))
	if err == nil || err.Error() != "cannot use the pools file: p.yaml: it has 16777217 bytes; give at most 16777216" {
		t.Errorf("a large file: %v", err)
	}
}

// Whatever the text, Parse returns: with pools that hold together or with an
// error of its own.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("testdata/pools.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add("pools: {g: {handover: {proof: [tree], max: 1h}, clean: [x], slots: [{id: a, units: 2, labels: {k: v}}]}}")
	f.Add("pools: &a {g: *a}\n---\n<<: ")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 { // the YAML parser needs the square of a depth
			return
		}
		specs, err := pools.Parse("p.yaml", []byte(text))
		if err != nil {
			if c := lease.CodeOf(err); c != lease.CodePoolsInvalid {
				t.Fatalf("refused with %s: %v", c, err)
			}
			return
		}
		if err := sound(specs); err != nil {
			t.Fatalf("%q is read as %#v: %v", text, specs, err)
		}
	})
}

func sound(specs []lease.PoolSpec) error {
	seen := map[string]bool{}
	once := func(name string) error {
		if seen[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		return nil
	}
	for _, p := range specs {
		if err := once(p.Name); err != nil || !lease.ValidName(p.Name) {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
		if again, err := p.Settings.Checked(); err != nil || !again.Equal(*p.Settings) {
			return fmt.Errorf("pool %q: settings %#v: %w", p.Name, p.Settings, err)
		}
		for _, s := range p.Slots {
			if err := once(p.Name + "/" + s.ID); err != nil || !lease.ValidName(s.ID) || s.Capacity < 0 {
				return fmt.Errorf("slot %q: %w", s.ID, err)
			}
			if err := lease.CheckLabels("slot", s.Labels); err != nil {
				return err
			}
		}
	}
	return nil
}
