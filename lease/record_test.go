package lease_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/lease"
)

// Every state has a name of its own, and one that is unknown its number.
func TestStatesHaveNames(t *testing.T) {
	for _, c := range []struct {
		of   func(i uint8) fmt.Stringer
		last uint8
	}{
		{func(i uint8) fmt.Stringer { return lease.State(i) }, uint8(lease.Ended)},
		{func(i uint8) fmt.Stringer { return lease.End(i) }, uint8(lease.EndRevoked)},
		{func(i uint8) fmt.Stringer { return lease.PartState(i) }, uint8(lease.PartFree)},
	} {
		names := map[string]bool{}
		for i := range c.last + 1 {
			names[c.of(i).String()] = true
		}
		if len(names) != int(c.last)+1 || names[fmt.Sprint(c.last)] {
			t.Errorf("%T has the names %v", c.of(0), names)
		}
		if got := c.of(c.last + 1).String(); got != fmt.Sprint(c.last+1) {
			t.Errorf("an unknown %T is called %q", c.of(0), got)
		}
	}
	for want, got := range map[string]fmt.Stringer{
		"held": lease.Held, "expired": lease.EndExpired, "timed_out": lease.EndTimedOut, "quarantined": lease.PartQuarantined, "none": lease.End(0),
	} {
		if got.String() != want {
			t.Errorf("%q is called %q", want, got)
		}
	}
}
