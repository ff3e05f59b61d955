package machine

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A request that does not wait is answered once it has been decided, and not
// before: also where the step in which it came had no room left to decide.
func TestNoWaitIsDecidedFirst(t *testing.T) {
	m := started(t, Config{StepChanges: 1})
	finish(m, 1, Apply{Source: lease.SourceFile, Pools: manySlots(2, lease.Settings{})})
	both := request(1, lease.Claim{Pool: "g", Count: 2}, 0)
	finish(m, 1, both)
	finish(m, 1, request(2, lease.Claim{Pool: "g"}, time.Minute))
	m.Step(2, Release{Caller: lease.Local, Lease: both.LeaseID})
	once := request(3, lease.Claim{Pool: "g"}, 0)
	once.Poll = 0
	fx := m.Step(2, once)
	for {
		for _, a := range fx.Answers {
			if a.Call == once.Call && a.Err != nil {
				t.Fatalf("with a slot free it was told: %v", a.Err)
			}
		}
		if !fx.More {
			break
		}
		fx = m.Step(2, Tick{})
	}
	if got := m.StateOf(lease.Local, once.Request.ID); got != StateFresh {
		t.Fatalf("it is %s, though a slot was free", got)
	}
}
