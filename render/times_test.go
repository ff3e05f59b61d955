package render_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
)

// A limit that has passed is over at once, the shortest one too, and only 0
// is none; neither is the longest too long for sums.
func TestBR024_LimitsOfARendering(t *testing.T) {
	for limit, code := range map[time.Duration]lease.Code{
		0: "", time.Hour: "", math.MaxInt64: "",
		1: lease.CodeRendererTimedOut, -1: lease.CodeRendererTimedOut, math.MinInt64: lease.CodeRendererTimedOut,
	} {
		t.Run(limit.String(), func(t *testing.T) {
			f := newFarm(t, 1)
			s := f.service(program(t, map[lease.Code]string{"": "whole", lease.CodeRendererTimedOut: "hang"}[code], render.Program{Grace: time.Millisecond}))
			s.Limit = func(render.Job) time.Duration { return limit }
			_, err := execute(t, t.Context(), s, f.job("j"))
			demandCode(t, err, code)
		})
	}
}

// A grace below 0 is refused, and one that no handover can hold as well,
// whatever comes of adding to it.
func TestBR024_GraceOfAProgram(t *testing.T) {
	for _, grace := range []time.Duration{-1, -time.Second, math.MinInt64} {
		_, err := render.NewCommand(render.Program{Path: "true", Grace: grace})
		demandCode(t, err, lease.CodeRequestInvalid, grace.String())
	}
	for _, grace := range []time.Duration{time.Hour, math.MaxInt64 - 1, math.MaxInt64} {
		f := newFarm(t, 1)
		_, err := execute(t, t.Context(), f.service(program(t, "whole", render.Program{Grace: grace})), f.job("j"))
		demandCode(t, err, lease.CodeRequestInvalid, "shorten the grace")
		demandFiles(t, f.outputs)
	}
}
