package simulate_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
)

// A few short histories, in which every invariant holds.
func TestInvariants(t *testing.T) {
	var met simulate.Table
	for seed := range uint64(8) {
		r := simulate.Run(simulate.Config{Seed: 1000 + seed, Steps: 4000})
		if r.Breach != nil {
			t.Errorf("seed %d: %v", 1000+seed, r.Breach)
		}
		met.Add(r.Met)
	}
	if _, wrong := met.Rare(0); len(wrong) > 0 {
		t.Errorf("met, though called unreachable: %v", wrong)
	}
}

// The same seed gives the same history, byte for byte.
func TestSameSeedSameHistory(t *testing.T) {
	history := func() []byte {
		var b bytes.Buffer
		simulate.Run(simulate.Config{Seed: 77, Steps: 3000, Trace: &b})
		return b.Bytes()
	}
	a, b := history(), history()
	if !bytes.Equal(a, b) {
		t.Fatal("two runs of one seed differ")
	}
	if len(a) < 100_000 {
		t.Fatalf("a history of %d bytes proves nothing", len(a))
	}
}

// Each rule that is broken on purpose is found broken.
func TestFaultsAreFound(t *testing.T) {
	for fault, rules := range map[simulate.Fault]string{
		simulate.AnswerEarly:    "I3",
		simulate.LoseCommits:    "I3 books",
		simulate.TrustFromReply: "I8 I1",
		simulate.IgnoreSleep:    "I8 I1",
		simulate.FastClock:      "I8 I1",
		simulate.ReleaseEarly:   "I1",
		simulate.AgentGuesses:   "I1",
		simulate.StaleBoots:     "I1",
		simulate.EarlyHandover:  "I1",
		simulate.FenceFromStore: "I2",
		simulate.ForgetSoon:     "I4",
		simulate.ExtendAgain:    "I5",
		simulate.MissLeaves:     "I7 I9",
		simulate.NoCancel:       "I9",
	} {
		t.Run(fmt.Sprint(rules, " ", int(fault)), func(t *testing.T) {
			for seed := range uint64(30) {
				r := simulate.Run(simulate.Config{Seed: seed, Steps: 6000, Fault: fault})
				if r.Breach == nil {
					continue
				}
				t.Logf("seed %d: %v", seed, r.Breach)
				if !bytes.Contains([]byte(rules), []byte(r.Breach.Rule)) {
					t.Errorf("broke %s, not %s", r.Breach.Rule, rules)
				}
				return
			}
			t.Error("not found")
		})
	}
}
