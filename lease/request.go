package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of one request.
const (
	MaxClaims   = 8
	MaxSlots    = 32
	MaxUnits    = 1 << 40
	MaxSelect   = 16
	MaxLabels   = 64  // of a slot
	MaxLabel    = 256 // bytes of a label's value
	MaxNote     = 256 // bytes
	MinTTL      = time.Second
	MaxWait     = 30 * 24 * time.Hour
	LongestHold = 365 * 24 * time.Hour // of a request's and a pool's MaxHold
	MaxPriority = 100
	// MaxPoll is how long one call may block before it is answered "queued".
	MaxPoll = 30 * time.Second
)

// A Claim asks for slots of one pool.
type Claim struct {
	Pool string
	// Count is how many slots; 0 means 1.
	Count int
	// Units is how many units of each of them; 0 means 1.
	Units int64
	// Select names labels that a slot must have, all of them.
	Select map[string]string
}

// A Request is a wish for a lease. All claims are granted together or none.
type Request struct {
	ID     RequestID
	Claims []Claim
	// TTL is how long the lease lasts without a renewal; 0 is the default of
	// the claimed pools.
	TTL time.Duration
	// MaxHold bounds the whole hold, renewals included; 0 is the pools' bound.
	MaxHold time.Duration
	// Wait is the request's whole patience, counted by the broker from its
	// first arrival; 0 asks once.
	Wait time.Duration
	// Priority moves the request's rank by 60 s a point, from -100 to 100.
	Priority int
	Holder   Holder
	// Note is for people; it is shown in listings and is not part of the body.
	Note string
}

// A Holder says who will work under a lease, so that its end can be proved.
// Machine and Boot are the host's machine id and boot id.
type Holder struct {
	Name    string
	Machine string
	Boot    string
	Process Process
	Cgroup  Cgroup
}

// A Process is known by its pid and its start time in clock ticks since boot,
// inside the pid namespace with that inode.
type Process struct {
	PID       int
	Start     uint64
	Namespace uint64
}

// A Cgroup is known by its path and inode, inside the cgroup namespace with
// that inode.
type Cgroup struct {
	Path      string
	Inode     uint64
	Namespace uint64
}

// Named reports whether the holder named a wrapper and a cgroup made for this
// request, without which its end cannot be proved by a tree.
func (h Holder) Named() bool {
	return h.Machine != "" && h.Process.PID > 0 && h.Process.Start > 0 && h.Cgroup.Path != "" && h.Cgroup.Inode > 0
}

// A Digest stands for a request's body in comparisons.
type Digest [16]byte

// Checked returns a normal copy of r that shares nothing with it: defaults
// filled in, claims sorted by pool. It refuses what no pool could make right;
// the error is an [*Error] that names the field.
func (r Request) Checked() (Request, error) {
	if err := r.check(); err != nil {
		return Request{}, err
	}
	claims := make([]Claim, len(r.Claims))
	for i, c := range r.Claims {
		claims[i] = Claim{Pool: c.Pool, Count: max(c.Count, 1), Units: max(c.Units, 1), Select: maps.Clone(c.Select)}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(a.Pool, b.Pool) })
	for i := range len(claims) - 1 {
		if claims[i].Pool == claims[i+1].Pool {
			return Request{}, Errorf(CodeRequestInvalid, "cannot accept the request: claims: pool %q is claimed twice; put both into one claim", claims[i].Pool)
		}
	}
	r.Claims = claims
	return r, nil
}

func (r Request) check() error {
	if !ValidName(string(r.ID)) {
		return Errorf(CodeNameInvalid, "cannot accept the request: id: must match [A-Za-z0-9_.:-]{1,128}; use 32 random hex digits")
	}
	if len(r.Claims) == 0 || len(r.Claims) > MaxClaims {
		return Errorf(CodeRequestInvalid, "cannot accept the request: claims: %d given; give 1 to %d", len(r.Claims), MaxClaims)
	}
	slots := 0
	for i, c := range r.Claims {
		if err := c.check(i); err != nil {
			return err
		}
		slots += max(c.Count, 1)
	}
	if slots > MaxSlots {
		return Errorf(CodeRequestInvalid, "cannot accept the request: claims: %d slots in all; ask for at most %d", slots, MaxSlots)
	}
	return r.checkRest()
}

func (c Claim) check(i int) error {
	if err := c.wrong(); err != nil {
		return Errorf(CodeOf(err), "cannot accept the request: claims[%d].%v", i, err)
	}
	return nil
}

func (c Claim) wrong() error {
	switch {
	case !ValidName(c.Pool):
		return Errorf(CodeNameInvalid, "pool: %q must match [A-Za-z0-9_.:-]{1,128}", clip(c.Pool))
	case c.Count < 0 || c.Count > MaxSlots:
		return Errorf(CodeRequestInvalid, "count: %d; ask for 1 to %d slots", c.Count, MaxSlots)
	case c.Units < 0 || c.Units > MaxUnits:
		return Errorf(CodeRequestInvalid, "units: %d; ask for 1 to %d units", c.Units, int64(MaxUnits))
	case len(c.Select) > MaxSelect:
		return Errorf(CodeRequestInvalid, "select: %d labels; give at most %d", len(c.Select), MaxSelect)
	}
	return CheckLabels("select", c.Select)
}

func (r Request) checkRest() error {
	switch {
	case r.TTL != 0 && r.TTL < MinTTL:
		return Errorf(CodeTTLOutOfRange, "cannot accept the request: ttl: %v is below the least of %v", r.TTL, MinTTL)
	case r.MaxHold != 0 && (r.MaxHold < MinTTL || r.MaxHold > LongestHold):
		return Errorf(CodeRequestInvalid, "cannot accept the request: max_hold: %v; give %v to %v, or 0 for the pools' bound", r.MaxHold, MinTTL, LongestHold)
	case r.Wait < 0 || r.Wait > MaxWait:
		return Errorf(CodeRequestInvalid, "cannot accept the request: wait: %v; give 0 (ask once) to %v", r.Wait, MaxWait)
	case r.Priority < -MaxPriority || r.Priority > MaxPriority:
		return Errorf(CodeRequestInvalid, "cannot accept the request: priority: %d; give -%d to %d", r.Priority, MaxPriority, MaxPriority)
	case len(r.Note) > MaxNote:
		return Errorf(CodeRequestInvalid, "cannot accept the request: note: %d bytes; at most %d", len(r.Note), MaxNote)
	}
	return r.Holder.check()
}

func (h Holder) check() error {
	for _, f := range []struct{ name, value string }{{"name", h.Name}, {"machine", h.Machine}, {"boot", h.Boot}} {
		if len(f.value) > MaxName {
			return Errorf(CodeRequestInvalid, "cannot accept the request: holder.%s: %d bytes; at most %d", f.name, len(f.value), MaxName)
		}
	}
	if h.Process.PID < 0 || len(h.Cgroup.Path) > 4096 {
		return Errorf(CodeRequestInvalid, "cannot accept the request: holder: the pid must not be negative and the cgroup path at most 4096 bytes")
	}
	return nil
}

// CheckLabels refuses label names and values outside their bounds; what is
// said first in the error.
func CheckLabels(what string, labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Errorf(CodeRequestInvalid, "%s: %d labels; at most %d", what, len(labels), MaxLabels)
	}
	if len(labels) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !ValidName(k) {
			return Errorf(CodeNameInvalid, "%s: label name %q must match [A-Za-z0-9_.:-]{1,128}", what, clip(k))
		}
		if v := labels[k]; len(v) > MaxLabel {
			return Errorf(CodeRequestInvalid, "%s: label %s has a value of %d bytes; at most %d", what, k, len(v), MaxLabel)
		}
	}
	return nil
}

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}

// Body returns the digest of what a repeat must say again: claims, TTL,
// longest hold, wait, priority and holder. The note may change. r is as
// [Request.Checked] returned it.
func (r Request) Body() Digest {
	b := make([]byte, 0, 256)
	for _, c := range r.Claims {
		b = appendString(b, c.Pool)
		b = binary.AppendUvarint(b, uint64(c.Count))
		b = binary.AppendUvarint(b, uint64(c.Units))
		b = appendLabels(b, c.Select)
	}
	for _, v := range []int64{int64(r.TTL), int64(r.MaxHold), int64(r.Wait), int64(r.Priority)} {
		b = binary.AppendVarint(b, v)
	}
	h := r.Holder
	for _, s := range []string{h.Name, h.Machine, h.Boot, h.Cgroup.Path} {
		b = appendString(b, s)
	}
	for _, v := range []uint64{uint64(h.Process.PID), h.Process.Start, h.Process.Namespace, h.Cgroup.Inode, h.Cgroup.Namespace} {
		b = binary.AppendUvarint(b, v)
	}
	sum := sha256.Sum256(b)
	return Digest(sum[:16])
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLabels(b []byte, labels map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(labels)))
	if len(labels) == 0 {
		return b
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b = appendString(appendString(b, k), labels[k])
	}
	return b
}
