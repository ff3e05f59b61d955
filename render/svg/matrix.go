package svg

import (
	"math"
	"strings"
)

type point struct{ x, y float64 }

// A matrix maps (x, y) to (a·x + c·y + e, b·x + d·y + f).
type matrix struct{ a, b, c, d, e, f float64 }

var identity = matrix{a: 1, d: 1}

// after returns the matrix that applies n first and m after it.
func (m matrix) after(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

func (m matrix) apply(p point) point {
	return point{m.a*p.x + m.c*p.y + m.e, m.b*p.x + m.d*p.y + m.f}
}

func (m matrix) determinant() float64 { return m.a*m.d - m.b*m.c }

// scale returns by how much the matrix makes things larger, on average.
func (m matrix) scale() float64 { return math.Sqrt(math.Abs(m.determinant())) }

// inverse returns the inverse; ok is false where there is none.
func (m matrix) inverse() (matrix, bool) {
	det := m.determinant()
	if math.Abs(det) < 1e-12 || math.IsNaN(det) {
		return identity, false
	}
	return matrix{
		m.d / det, -m.b / det, -m.c / det, m.a / det,
		(m.c*m.f - m.d*m.e) / det, (m.b*m.e - m.a*m.f) / det,
	}, true
}

func translation(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

func rotation(degrees float64) matrix {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	return matrix{cos, sin, -sin, cos, 0, 0}
}

// parseTransform reads a transform attribute.
func parseTransform(text string) (matrix, bool) {
	m := identity
	for text = strings.Trim(text, " ,\t\r\n"); text != ""; text = strings.TrimLeft(text, " ,\t\r\n") {
		call, rest, ok := strings.Cut(text, ")")
		if !ok {
			return m, false
		}
		name, args, ok := strings.Cut(call, "(")
		if !ok {
			return m, false
		}
		v, ok := numbers(args)
		if !ok {
			return m, false
		}
		step, ok := transformStep(strings.TrimSpace(name), v)
		if !ok {
			return m, false
		}
		m, text = m.after(step), rest
	}
	return m, true
}

func transformStep(name string, v []float64) (matrix, bool) {
	tan := func(degrees float64) float64 { return math.Tan(degrees * math.Pi / 180) }
	switch {
	case name == "matrix" && len(v) == 6:
		return matrix{v[0], v[1], v[2], v[3], v[4], v[5]}, true
	case name == "translate" && len(v) == 1:
		return translation(v[0], 0), true
	case name == "translate" && len(v) == 2:
		return translation(v[0], v[1]), true
	case name == "scale" && len(v) == 1:
		return matrix{a: v[0], d: v[0]}, true
	case name == "scale" && len(v) == 2:
		return matrix{a: v[0], d: v[1]}, true
	case name == "rotate" && len(v) == 1:
		return rotation(v[0]), true
	case name == "rotate" && len(v) == 3:
		return translation(v[1], v[2]).after(rotation(v[0])).after(translation(-v[1], -v[2])), true
	case name == "skewX" && len(v) == 1:
		return matrix{1, 0, tan(v[0]), 1, 0, 0}, true
	case name == "skewY" && len(v) == 1:
		return matrix{1, tan(v[0]), 0, 1, 0, 0}, true
	}
	return identity, false
}
