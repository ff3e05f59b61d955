package hold

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's own idea of how long the machine is up counts its sleep too.
func TestSinceBoot(t *testing.T) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	up := time.Duration(info.Uptime) * time.Second
	if got := sinceBoot(time.Now()); got < up-2*time.Second || got > up+time.Minute {
		t.Errorf("%v since boot, the kernel says %v", got, up)
	}
}
