package simulate

import (
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/machine"
	"github.com/berth-dev/berth/store"
)

// A plan is what kind of world a seed makes.
type plan struct {
	hosts, clients, janitors int
	// withheld is the number of the host whose agent is silent, or -1.
	withheld int
	limits   store.Limits
	machine  machine.Config
	// restores says that backups are taken and restored.
	restores bool
	// gap is the mean time between decisions.
	gap time.Duration
}

func newPlan(d dice, f Fault) plan {
	p := plan{hosts: 2 + d.IntN(3), janitors: 2, withheld: -1, gap: d.between(200*time.Millisecond, 900*time.Millisecond)}
	p.clients = 6 + d.IntN(16) + p.janitors
	if d.in(0.25) {
		p.withheld = d.IntN(p.hosts)
	}
	if d.in(0.5) {
		p.limits.Changes = 100
	}
	if d.in(0.4) {
		p.machine.StepChanges = 1 + d.IntN(6)
	}
	p.restores = d.in(0.25) || f == FenceFromStore
	if f == ForgetSoon {
		p.machine.Retention = time.Second
	}
	return p
}

// maxTTL bounds what a request may ask in every pool.
const maxTTL = 40 * time.Second

// A poolSpec is a pool as the operators mean it to be now.
type poolSpec struct {
	name     string
	source   lease.Source
	settings lease.Settings
	slots    []slotSpec
	// byProof says that units go on by a proof only: holders need not be
	// honest.
	byProof, cleans bool
	gone            bool
}

type slotSpec struct {
	id       string
	source   lease.Source
	labels   map[string]string
	capacity int64
	gone     bool
}

func slots(source lease.Source, specs ...slotSpec) []slotSpec {
	for i := range specs {
		specs[i].source = source
		specs[i].capacity = max(specs[i].capacity, 1)
	}
	return specs
}

// The pools that every world has.
func newPools() []*poolSpec {
	model := func(m string) map[string]string { return map[string]string{"model": m} }
	const sec = time.Second
	agent := lease.SourceAgent + "host0"
	return []*poolSpec{
		{name: "g", source: lease.SourceFile, settings: lease.Settings{TTL: 10 * sec, MaxTTL: maxTTL, Handover: lease.Handover{After: 5 * sec}},
			slots: append(slots(lease.SourceFile, slotSpec{id: "g-0", labels: model("a")}, slotSpec{id: "g-1", labels: model("a")}, slotSpec{id: "g-2", labels: model("b")}),
				slots(agent, slotSpec{id: "g-9", labels: model("b")})...)},
		{name: "seats", source: lease.SourceAPI, settings: lease.Settings{TTL: 8 * sec, MaxTTL: maxTTL, Handover: lease.Handover{After: 3 * sec}},
			slots: slots(lease.SourceAPI, slotSpec{id: "nuke", capacity: 6}, slotSpec{id: "mari", capacity: 3})},
		{name: "quick", source: lease.SourceFile, settings: lease.Settings{TTL: 2 * sec, MaxTTL: maxTTL, Handover: lease.Handover{After: lease.AtOnce}},
			slots: slots(lease.SourceFile, slotSpec{id: "q-0"}, slotSpec{id: "q-1"})},
		{name: "bound", source: lease.SourceFile, settings: lease.Settings{TTL: 6 * sec, MaxTTL: maxTTL, MaxHold: 14 * sec, StallAfter: 7 * sec, StallRevokes: true, Handover: lease.Handover{After: 2 * sec}},
			slots: slots(lease.SourceFile, slotSpec{id: "b-0"}, slotSpec{id: "b-1"})},
		{name: "wash", source: lease.SourceAPI, cleans: true, settings: lease.Settings{TTL: 5 * sec, MaxTTL: maxTTL, Clean: []string{"wash"}, Handover: lease.Handover{After: 4 * sec, Max: 40 * sec}},
			slots: slots(lease.SourceAPI, slotSpec{id: "w-0"}, slotSpec{id: "w-1"})},
		{name: "tree", source: lease.SourceFile, byProof: true, settings: lease.Settings{TTL: 6 * sec, MaxTTL: maxTTL, Handover: lease.Handover{Proofs: lease.ProofTree | lease.ProofBoot, Max: 50 * sec}},
			slots: slots(lease.SourceFile, slotSpec{id: "t-0"}, slotSpec{id: "t-1", capacity: 2}, slotSpec{id: "t-2"})},
		{name: "boot", source: lease.SourceFile, byProof: true, settings: lease.Settings{TTL: 6 * sec, MaxTTL: maxTTL, Handover: lease.Handover{Proofs: lease.ProofBoot, Max: 30 * sec}},
			slots: slots(lease.SourceFile, slotSpec{id: "o-0"}, slotSpec{id: "o-1"})},
		{name: "scrub", source: lease.SourceFile, byProof: true, cleans: true, settings: lease.Settings{TTL: 5 * sec, MaxTTL: maxTTL, Clean: []string{"scrub"}, Handover: lease.Handover{Proofs: lease.ProofTree | lease.ProofCleaned, Max: 40 * sec}},
			slots: slots(lease.SourceFile, slotSpec{id: "s-0"}, slotSpec{id: "s-1"})},
	}
}
