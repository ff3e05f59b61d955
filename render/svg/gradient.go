package svg

import (
	"image/color"
	"math"
	"slices"
	"strings"
)

// A paint gives the color of each pixel.
type paint interface {
	at(x, y float64) color.NRGBA
}

// A flat paint is one color.
type flat color.NRGBA

func (f flat) at(float64, float64) color.NRGBA { return color.NRGBA(f) }

// A stop is one color of a gradient; its offsets never go back.
type stop struct {
	offset float64
	color  color.NRGBA
}

// A gradient is a paint that changes along a line or outwards from a point.
type gradient struct {
	stops  []stop
	spread string
	// inverse maps pixels to the gradient's own coordinates.
	inverse matrix
	// position says how far along a point of those coordinates is.
	position func(p point) float64
}

func (g *gradient) at(x, y float64) color.NRGBA {
	t := g.position(g.inverse.apply(point{x + 0.5, y + 0.5}))
	switch g.spread {
	case "repeat":
		t -= math.Floor(t)
	case "reflect":
		t = math.Abs(t - 2*math.Floor((t+1)/2))
	}
	return g.color(t)
}

func (g *gradient) color(t float64) color.NRGBA {
	last := len(g.stops) - 1
	if !(t > g.stops[0].offset) {
		return g.stops[0].color
	}
	for i := 1; i <= last; i++ {
		if a, b := g.stops[i-1], g.stops[i]; t < b.offset {
			return mix(a.color, b.color, (t-a.offset)/(b.offset-a.offset))
		}
	}
	return g.stops[last].color
}

func mix(a, b color.NRGBA, t float64) color.NRGBA {
	part := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*t)) }
	return color.NRGBA{part(a.R, b.R), part(a.G, b.G), part(a.B, b.B), part(a.A, b.A)}
}

// A gradientSource reads a gradient element whose attributes and stops may
// come from the elements it refers to.
type gradientSource struct {
	doc   *document
	chain []*element
	whole point
}

func (d *document) gradientSource(el *element, whole point) gradientSource {
	g := gradientSource{doc: d, whole: whole}
	for el != nil && strings.HasSuffix(el.name, "Gradient") && !slices.Contains(g.chain, el) {
		g.chain = append(g.chain, el)
		el = d.target(el)
	}
	return g
}

func (g gradientSource) attr(name string) string {
	for _, el := range g.chain {
		if v, ok := el.attrs[name]; ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (g gradientSource) length(name string, whole, missing float64) float64 {
	if v, ok := length(g.attr(name), whole); ok {
		return v
	}
	return missing
}

// paint returns the gradient for a shape with the given outline under the
// matrix, or nil where nothing is painted.
func (g gradientSource) paint(shape path, m matrix, current color.NRGBA) paint {
	stops := g.stops(current)
	switch len(stops) {
	case 0:
		return nil
	case 1:
		return flat(stops[0].color)
	}
	whole := g.whole
	if g.attr("gradientUnits") != "userSpaceOnUse" {
		low, high := shape.bounds()
		if !(high.x > low.x && high.y > low.y) {
			return flat(stops[len(stops)-1].color)
		}
		m = m.after(matrix{high.x - low.x, 0, 0, high.y - low.y, low.x, low.y})
		whole = point{1, 1}
	}
	if t, ok := parseTransform(g.attr("gradientTransform")); ok {
		m = m.after(t)
	}
	inverse, ok := m.inverse()
	if !ok {
		return flat(stops[len(stops)-1].color)
	}
	position := g.linear(whole)
	if g.chain[0].name == "radialGradient" {
		position = g.radial(whole)
	}
	return &gradient{stops: stops, spread: g.attr("spreadMethod"), inverse: inverse, position: position}
}

func (g gradientSource) linear(whole point) func(point) float64 {
	p := point{g.length("x1", whole.x, 0), g.length("y1", whole.y, 0)}
	q := point{g.length("x2", whole.x, whole.x), g.length("y2", whole.y, 0)}
	d := point{q.x - p.x, q.y - p.y}
	square := d.x*d.x + d.y*d.y
	return func(at point) float64 {
		if square == 0 {
			return 1
		}
		return ((at.x-p.x)*d.x + (at.y-p.y)*d.y) / square
	}
}

// radial returns how far a point is on the ray from the focus to the circle.
func (g gradientSource) radial(whole point) func(point) float64 {
	diagonal := math.Hypot(whole.x, whole.y) / math.Sqrt2
	center := point{g.length("cx", whole.x, whole.x/2), g.length("cy", whole.y, whole.y/2)}
	r := g.length("r", diagonal, diagonal/2)
	focus := point{g.length("fx", whole.x, center.x), g.length("fy", whole.y, center.y)}
	f := point{focus.x - center.x, focus.y - center.y}
	if far := math.Hypot(f.x, f.y); far > 0.99*r && far > 0 {
		f = point{f.x * 0.99 * r / far, f.y * 0.99 * r / far}
	}
	c := f.x*f.x + f.y*f.y - r*r
	return func(at point) float64 {
		d := point{at.x - center.x - f.x, at.y - center.y - f.y}
		a := d.x*d.x + d.y*d.y
		switch {
		case r <= 0:
			return 1
		case a == 0:
			return 0
		}
		b := d.x*f.x + d.y*f.y
		return a / (-b + math.Sqrt(b*b-a*c))
	}
}

func (g gradientSource) stops(current color.NRGBA) []stop {
	for _, el := range g.chain {
		var stops []stop
		for _, child := range el.children {
			if child.name == "stop" {
				stops = append(stops, g.stop(child, current))
			}
		}
		if len(stops) > 0 {
			for i := 1; i < len(stops); i++ {
				stops[i].offset = max(stops[i].offset, stops[i-1].offset)
			}
			return stops
		}
	}
	return nil
}

func (g gradientSource) stop(el *element, current color.NRGBA) stop {
	property := g.doc.properties(el)
	s := stop{color: color.NRGBA{A: 255}}
	s.offset, _ = fraction(el.attrs["offset"])
	if own, ok := property("color"); ok {
		if c, ok := parseColor(own); ok {
			current = c
		}
	}
	if text, ok := property("stop-color"); ok {
		if strings.EqualFold(text, "currentColor") {
			s.color = current
		} else if c, ok := parseColor(text); ok {
			s.color = c
		}
	}
	if text, ok := property("stop-opacity"); ok {
		if v, ok := fraction(text); ok {
			s.color.A = level(float64(s.color.A) / 255 * v)
		}
	}
	return s
}
