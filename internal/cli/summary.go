package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
	"github.com/berth-dev/berth/render"
)

// A summary is how a run of jobs ended, and that its slots came back.
type summary struct {
	Acquired    uint64         `json:"acquired"`
	Released    uint64         `json:"released"`
	Orphaned    uint64         `json:"orphaned"`
	Revoked     uint64         `json:"revoked"`
	Held        uint64         `json:"held"`
	Queued      int            `json:"queued"`
	Quarantined int            `json:"quarantined"`
	Stuck       int            `json:"stuck"`
	Slots       int            `json:"slots"`
	Free        int            `json:"free"`
	Rendered    int            `json:"rendered"`
	Failed      int            `json:"failed"`
	Failures    map[string]int `json:"failures"`
}

func newSummary(s lease.Status, results []render.Result) summary {
	sum := summary{
		Acquired: s.Acquired, Released: s.Released, Orphaned: s.Orphaned, Revoked: s.Revoked, Held: s.Held,
		Queued: s.Queued, Quarantined: s.Quarantined, Stuck: s.Stuck, Slots: s.Slots, Free: s.Free, Failures: map[string]int{},
	}
	for _, r := range results {
		if r.Err == nil {
			sum.Rendered++
			continue
		}
		sum.Failed++
		sum.Failures[kindOf(r.Err)]++
	}
	return sum
}

// back reports whether every slot came back.
func (s summary) back() bool {
	return s.Acquired == s.Released+s.Orphaned+s.Revoked+s.Held && s.Held == 0 && s.Queued == 0 &&
		s.Quarantined == 0 && s.Stuck == 0 && s.Free == s.Slots
}

func (s summary) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// write says it for people.
func (s summary) write(w io.Writer, out string) {
	fmt.Fprintf(w, "\n%d rendered into %s, %d failed%s\n", s.Rendered, out, s.Failed, s.kinds())
	fmt.Fprintf(w, "leases: %d acquired = %d released + %d orphaned + %d revoked + %d held\n", s.Acquired, s.Released, s.Orphaned, s.Revoked, s.Held)
	fmt.Fprintf(w, "slots:  %d of %d free, %d quarantined, %d stuck, %d waiting\n", s.Free, s.Slots, s.Quarantined, s.Stuck, s.Queued)
	if s.back() {
		fmt.Fprintln(w, "every slot came back")
	} else {
		fmt.Fprintln(w, "NOT every slot came back")
	}
}

func (s summary) kinds() string {
	if s.Failed == 0 {
		return ""
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(s.Failures)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", s.Failures[k], k))
	}
	return " (" + strings.Join(kinds, ", ") + ")"
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || policy.Of(err).Class == policy.Cancelled
}
