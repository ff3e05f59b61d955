package render

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A Renderer renders in a slot that it is lent. It has no duty to give the
// slot back.
type Renderer interface {
	// Render reads w.Source and writes the file w.Output, which does not
	// exist before and whose directory does. It returns when its work has
	// stopped, soon after ctx ends. Work that it cannot stop it reports by
	// [github.com/berth-dev/berth/hold.StillRunning]. Its error has a code of
	// package lease.
	Render(ctx context.Context, w Work) error
}

// A Work is one render, under one lease. A Renderer must not keep it.
type Work struct {
	Job Job
	// Source and Output are absolute paths.
	Source, Output string
	// Slots are what the lease holds. Fence is the lease's, and may be
	// compared only where Whole says so of all slots.
	Slots []lease.GrantedSlot
	Fence lease.Fence
	// StopWithin is how long the work may still go on after ctx has ended
	// because the lease was lost; 0 means as long as it takes.
	StopWithin time.Duration
	leftOut    *[]string
}

// Whole reports whether the lease holds all units of each of its slots.
func (w Work) Whole() bool {
	for _, s := range w.Slots {
		if !s.Whole {
			return false
		}
	}
	return len(w.Slots) > 0
}

// LeaveOut notes what the source has and the output lacks; it goes into the
// job's receipt. It must not be called after Render has returned.
func (w Work) LeaveOut(what ...string) {
	if w.leftOut != nil {
		*w.leftOut = append(*w.leftOut, what...)
	}
}

// call calls a renderer. A panic of it is its failure, not the service's.
func call(ctx context.Context, r Renderer, w Work) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = lease.Errorf(lease.CodeRendererFailed, "cannot render %s: the renderer panics: %v\n%s", w.Job.SourceKey, p, debug.Stack())
		}
	}()
	return r.Render(ctx, w)
}

// A Receipt says what became of a job.
type Receipt struct {
	JobID     string
	OutputKey string
	// Skipped says that the output was there already, whole.
	Skipped bool
	// Slot names what was used, as "pool/slot", with commas between several.
	Slot  string
	Lease lease.Ref
	Fence lease.Fence
	// Bytes is the size of the output, or 0 where there is none. Took is the
	// time under the lease.
	Bytes int64
	Took  time.Duration
	// LeftOut names what the source has and the output lacks.
	LeftOut []string
}

// names returns slots as people name them.
func names(slots []lease.GrantedSlot) string {
	list := make([]string, len(slots))
	for i, s := range slots {
		list[i] = s.Pool + "/" + s.ID
	}
	return strings.Join(list, ",")
}
