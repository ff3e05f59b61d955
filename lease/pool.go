package lease

import (
	"slices"
	"strings"
	"time"
)

// Defaults of a pool.
const (
	DefaultTTL    = 30 * time.Second
	DefaultMaxTTL = time.Hour
	DefaultAfter  = 15 * time.Second
	DefaultMax    = 20 * time.Minute
	// MaxCommand is the longest cleaning command, in bytes.
	MaxCommand = 4096
	// LongestTTL bounds what a pool may allow.
	LongestTTL = 7 * 24 * time.Hour
)

// A Source is who declared a slot or a pool and alone may change or remove it.
type Source string

// The sources there are. An agent's source is SourceAgent + its machine id.
const (
	SourceFile  Source = "file"
	SourceAPI   Source = "api"
	SourceAgent Source = "agent:"
)

// Settings say how a pool lends its slots. The zero value is the default.
type Settings struct {
	// TTL is the default of a lease; 0 means 30 s.
	TTL time.Duration
	// MaxTTL bounds what a request may ask; 0 means 1 h.
	MaxTTL time.Duration
	// MaxHold ends a lease, however often it is renewed; 0 means never.
	MaxHold time.Duration
	// StallAfter is how long a holder may report no progress before it is
	// shown as stalled; 0 means for ever. StallRevokes also ends its lease.
	StallAfter   time.Duration
	StallRevokes bool
	Handover     Handover
	// Clean is the command that makes a slot fit for the next holder. A pool
	// that has one quarantines every lease's units until they are cleaned.
	Clean []string
}

// A Handover says how units go on after a lease that ended without a release:
// After its promised end where Proofs is empty (0 means 15 s, [AtOnce] means
// no wait), else on one of the Proofs only, and past Max (0 means 20 min)
// openly stuck until somebody clears them.
type Handover struct {
	After  time.Duration
	Proofs Proofs
	Max    time.Duration
}

// Proofs is a set of ways to know that the work under a lease has stopped.
type Proofs uint8

// The proofs. A late release and an operator's clear count everywhere and
// need no entry.
const (
	ProofTree    Proofs = 1 << iota // the named wrapper and its cgroup are gone
	ProofBoot                       // the holder's machine has booted anew
	ProofCleaned                    // a cleaner made the slot fit
)

var proofNames = []struct {
	bit  Proofs
	name string
}{{ProofTree, "tree"}, {ProofBoot, "boot"}, {ProofCleaned, "cleaned"}}

// ParseProof returns the proof with that name.
func ParseProof(name string) (Proofs, bool) {
	for _, p := range proofNames {
		if p.name == name {
			return p.bit, true
		}
	}
	return 0, false
}

// Names returns the set's names in a fixed order.
func (p Proofs) Names() []string {
	var names []string
	for _, n := range proofNames {
		if p&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// String returns the names, joined by commas.
func (p Proofs) String() string { return strings.Join(p.Names(), ",") }

// Delay returns how long after the promised end the units wait, where they
// wait for no proof.
func (h Handover) Delay() time.Duration { return max(h.After, 0) }

// String returns the handover as a pools file would say it.
func (h Handover) String() string {
	if h.Proofs == 0 {
		return "after " + h.Delay().String()
	}
	return "proof " + h.Proofs.String() + ", max " + h.Max.String()
}

// A PoolSpec declares a pool, or slots of one. Settings is nil where the
// source adds slots to a pool that another source declares.
type PoolSpec struct {
	Name     string
	Settings *Settings
	Slots    []SlotSpec
}

// A SlotSpec declares a slot. Capacity 0 means 1 unit.
type SlotSpec struct {
	ID       string
	Labels   map[string]string
	Capacity int64
}

// AtOnce is the Handover.After of a pool that needs no caution.
const AtOnce time.Duration = -1

// Checked returns s with defaults filled in, or an error that names the field.
// It refuses nothing that a pool could mean.
func (s Settings) Checked() (Settings, error) {
	s.MaxTTL = orElse(s.MaxTTL, DefaultMaxTTL)
	s.TTL = orElse(s.TTL, min(DefaultTTL, s.MaxTTL))
	if s.Handover.Max == 0 && (s.Handover.Proofs != 0 || len(s.Clean) > 0) {
		s.Handover.Max = DefaultMax
	}
	if s.Handover.Proofs == 0 {
		s.Handover.After = orElse(s.Handover.After, DefaultAfter)
	}
	if s.Handover.Proofs != 0 && len(s.Clean) > 0 {
		s.Handover.Proofs |= ProofCleaned
	}
	s.Clean = slices.Clone(s.Clean)
	for _, f := range []struct {
		name     string
		v        time.Duration
		min, max time.Duration
	}{
		{"max_ttl", s.MaxTTL, MinTTL, LongestTTL},
		{"ttl", s.TTL, MinTTL, s.MaxTTL},
		{"max_hold", s.MaxHold, 0, LongestHold},
		{"stall.after", s.StallAfter, 0, 365 * 24 * time.Hour},
		{"handover.after", s.Handover.After, AtOnce, LongestTTL},
		{"handover.max", s.Handover.Max, 0, 365 * 24 * time.Hour},
	} {
		if f.v < f.min || f.v > f.max {
			return s, Errorf(CodePoolsInvalid, "%s: %v is out of range; give %v to %v", f.name, f.v, max(f.min, 0), f.max)
		}
	}
	return s, s.checkTogether()
}

func (s Settings) checkTogether() error {
	switch {
	case s.MaxHold != 0 && s.MaxHold < MinTTL:
		return Errorf(CodePoolsInvalid, "max_hold: %v is below the least of %v; leave it out for no bound", s.MaxHold, MinTTL)
	case s.Handover.Proofs != 0 && s.Handover.After != 0:
		return Errorf(CodePoolsInvalid, "handover: give after or proof, not both")
	case s.StallRevokes && s.StallAfter == 0:
		return Errorf(CodePoolsInvalid, "stall.after: needed where a stall revokes")
	case len(s.Clean) > 0 && s.Clean[0] == "":
		return Errorf(CodePoolsInvalid, "clean: the command is empty")
	case len(strings.Join(s.Clean, " ")) > MaxCommand:
		return Errorf(CodePoolsInvalid, "clean: the command is longer than %d bytes; put it into a script", MaxCommand)
	}
	return nil
}

// Equal reports whether both say the same.
func (s Settings) Equal(o Settings) bool {
	c := slices.Equal(s.Clean, o.Clean)
	s.Clean, o.Clean = nil, nil
	return c && s.plain() == o.plain()
}

type plainSettings struct {
	ttl, maxTTL, maxHold, stall time.Duration
	revokes                     bool
	handover                    Handover
}

func (s Settings) plain() plainSettings {
	return plainSettings{s.TTL, s.MaxTTL, s.MaxHold, s.StallAfter, s.StallRevokes, s.Handover}
}

func orElse(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}
