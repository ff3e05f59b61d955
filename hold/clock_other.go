//go:build !linux

package hold

import "time"

// sinceBoot stands in for a clock that counts sleep: the wall clock does. One
// that is set back only leaves the monotonic clock to decide, one that is set
// forward ends trust early.
func sinceBoot(now time.Time) time.Duration { return time.Duration(now.UnixNano()) }
