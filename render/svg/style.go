package svg

import (
	"image/color"
	"math"
	"strings"

	"github.com/srwiley/rasterx"
)

// A style is what an element hands down to its children, with the opacity of
// all groups around it multiplied.
type style struct {
	current       color.NRGBA
	fill, stroke  string
	fillOpacity   float64
	strokeOpacity float64
	opacity       float64
	evenOdd       bool
	clipEvenOdd   bool
	hidden        bool
	width, miter  float64
	cap           rasterx.CapFunc
	join          rasterx.JoinMode
	dashes        []float64
	dashOffset    float64
}

var initialStyle = style{
	current: color.NRGBA{A: 255},
	fill:    "black", stroke: "none",
	fillOpacity: 1, strokeOpacity: 1, opacity: 1,
	width: 1, miter: 4, cap: rasterx.ButtCap, join: rasterx.Miter,
}

// inherit returns the style of an element inside one of style s. A value that
// cannot be read leaves the inherited one, as CSS demands.
func (s style) inherit(property func(string) (string, bool), whole point) style {
	text := func(name string, set func(v string)) {
		if v, ok := property(name); ok && v != "inherit" && v != "" {
			set(v)
		}
	}
	share := func(name string, to *float64) {
		text(name, func(v string) {
			if f, ok := fraction(v); ok {
				*to = f
			}
		})
	}
	diagonal := math.Hypot(whole.x, whole.y) / math.Sqrt2
	measure := func(name string, to *float64) {
		text(name, func(v string) {
			if f, ok := length(v, diagonal); ok && f >= 0 {
				*to = f
			}
		})
	}
	text("color", func(v string) {
		if c, ok := parseColor(v); ok {
			s.current = c
		}
	})
	text("fill", func(v string) { s.fill = s.paintText(v, s.fill) })
	text("stroke", func(v string) { s.stroke = s.paintText(v, s.stroke) })
	share("fill-opacity", &s.fillOpacity)
	share("stroke-opacity", &s.strokeOpacity)
	own := 1.0
	share("opacity", &own)
	s.opacity *= own
	text("fill-rule", func(v string) { s.evenOdd = v == "evenodd" })
	text("clip-rule", func(v string) { s.clipEvenOdd = v == "evenodd" })
	text("visibility", func(v string) { s.hidden = v != "visible" })
	measure("stroke-width", &s.width)
	measure("stroke-miterlimit", &s.miter)
	measure("stroke-dashoffset", &s.dashOffset)
	text("stroke-linecap", s.setCap)
	text("stroke-linejoin", s.setJoin)
	text("stroke-dasharray", func(v string) { s.dashes = dashes(v, diagonal) })
	return s
}

// paintText keeps what can be painted. currentColor means the color of the
// element that says it.
func (s style) paintText(v, inherited string) string {
	if strings.EqualFold(v, "currentColor") {
		return "currentColor"
	}
	if _, _, ok := reference(v); ok || v == "none" {
		return v
	}
	if _, ok := parseColor(v); ok {
		return v
	}
	return inherited
}

func (s *style) setCap(v string) {
	switch v {
	case "round":
		s.cap = rasterx.RoundCap
	case "square":
		s.cap = rasterx.SquareCap
	default:
		s.cap = rasterx.ButtCap
	}
}

func (s *style) setJoin(v string) {
	switch v {
	case "round":
		s.join = rasterx.Round
	case "bevel":
		s.join = rasterx.Bevel
	default:
		s.join = rasterx.Miter
	}
}

// dashes reads a list of dashes, or none where they say nothing.
func dashes(text string, diagonal float64) []float64 {
	var list []float64
	sum := 0.0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		v, ok := length(word, diagonal)
		if !ok || v < 0 {
			return nil
		}
		sum += v
		list = append(list, v)
	}
	if sum == 0 {
		return nil
	}
	if len(list)%2 == 1 {
		list = append(list, list...)
	}
	return list
}
