package hold

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine started, its sleep included.
// Linux has had that clock since 2.6.39; where it is refused (a sandbox) the
// wall clock stands in for it.
func sinceBoot(now time.Time) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Duration(now.UnixNano())
	}
	return time.Duration(t.Nano())
}
