package hold

import (
	"testing"
	"time"
)

func TestSystemClock(t *testing.T) {
	c := newSystemClock()
	for range 1000 {
		if now := c.Now(); now.Mono < 0 || now.Mono > time.Minute || now.Boot < 0 || now.Boot > time.Minute {
			t.Fatalf("just after its start the clock says %+v", now)
		}
	}
}
