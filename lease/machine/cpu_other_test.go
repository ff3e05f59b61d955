//go:build !unix

package machine

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
