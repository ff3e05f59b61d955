package svg

import (
	"math"
	"strings"
)

// A path is a list of subpaths of cubic curves; a line is a curve too, with
// line set.
type path []subpath

type subpath struct {
	start  point
	curves []curve
	closed bool
}

type curve struct {
	line    bool
	b, c, d point
}

func (s *subpath) end() point {
	if n := len(s.curves); n > 0 {
		return s.curves[n-1].d
	}
	return s.start
}

func (s *subpath) lineTo(p point) {
	s.curves = append(s.curves, curve{true, s.end(), p, p})
}

// transformed returns the path under a matrix.
func (p path) transformed(m matrix) path {
	out := make(path, len(p))
	for i, s := range p {
		out[i] = subpath{start: m.apply(s.start), closed: s.closed, curves: make([]curve, len(s.curves))}
		for j, c := range s.curves {
			out[i].curves[j] = curve{c.line, m.apply(c.b), m.apply(c.c), m.apply(c.d)}
		}
	}
	return out
}

// bounds returns the path's bounding box; curves are sampled.
func (p path) bounds() (low, high point) {
	low, high = point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	grow := func(q point) {
		low = point{min(low.x, q.x), min(low.y, q.y)}
		high = point{max(high.x, q.x), max(high.y, q.y)}
	}
	for _, s := range p {
		a := s.start
		grow(a)
		for _, c := range s.curves {
			const steps = 16
			for i := 1; i < steps && !c.line; i++ {
				grow(c.at(a, float64(i)/steps))
			}
			grow(c.d)
			a = c.d
		}
	}
	return low, high
}

// extent returns the length of the lines between the path's points, which no
// curve is longer than.
func (p path) extent() float64 {
	sum := 0.0
	for _, s := range p {
		a := s.start
		for _, c := range s.curves {
			for _, q := range []point{c.b, c.c, c.d} {
				sum += math.Hypot(q.x-a.x, q.y-a.y)
				a = q
			}
		}
	}
	return sum
}

// at returns the point at t of the curve from a.
func (c curve) at(a point, t float64) point {
	u := 1 - t
	k0, k1, k2, k3 := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
	return point{k0*a.x + k1*c.b.x + k2*c.c.x + k3*c.d.x, k0*a.y + k1*c.b.y + k2*c.c.y + k3*c.d.y}
}

// A pen builds a path from path data.
type pen struct {
	scanner
	path    path
	at      point
	control point // of the last curve, for the commands that mirror it
	last    byte  // the last command, in upper case
}

// parsePath reads path data up to the first thing that is wrong, as the
// standard demands. whole is false where there is one.
func parsePath(text string) (p path, whole bool) {
	t := &pen{scanner: scanner{text: text}}
	var command byte
	for t.space(); !t.done(); t.space() {
		if c := t.text[t.pos]; strings.IndexByte("MmLlHhVvCcSsQqTtAaZz", c) >= 0 {
			t.pos++
			command = c
		} else if command == 0 || command|0x20 == 'z' {
			return t.path, false
		}
		if len(t.path) == 0 && command|0x20 != 'm' || !t.draw(command) {
			return t.path, false
		}
		// What follows a move without a command are lines.
		switch command {
		case 'M':
			command = 'L'
		case 'm':
			command = 'l'
		}
	}
	return t.path, true
}

// counts is how many numbers each command takes.
var counts = map[byte]int{'M': 2, 'L': 2, 'H': 1, 'V': 1, 'C': 6, 'S': 4, 'Q': 4, 'T': 2, 'A': 7}

// draw reads the command's numbers and carries it out once.
func (p *pen) draw(command byte) bool {
	upper := command &^ 0x20
	var v [7]float64
	for i := range counts[upper] {
		p.space()
		var ok bool
		if upper == 'A' && (i == 3 || i == 4) {
			v[i], ok = p.flag()
		} else {
			v[i], ok = p.number()
		}
		if !ok {
			return false
		}
	}
	origin := p.at
	if command == upper {
		origin = point{}
	}
	p.carryOut(upper, v, origin)
	p.last = upper
	return true
}

func (p *pen) carryOut(command byte, v [7]float64, origin point) {
	to := func(i int) point { return point{origin.x + v[i], origin.y + v[i+1]} }
	switch command {
	case 'M':
		p.at = to(0)
		p.path = append(p.path, subpath{start: p.at})
	case 'L':
		p.line(to(0))
	case 'H':
		p.line(point{origin.x + v[0], p.at.y})
	case 'V':
		p.line(point{p.at.x, origin.y + v[0]})
	case 'C':
		p.cubic(to(0), to(2), to(4))
	case 'S':
		p.cubic(p.mirror('C', 'S'), to(0), to(2))
	case 'Q':
		p.quadratic(to(0), to(2))
	case 'T':
		p.quadratic(p.mirror('Q', 'T'), to(0))
	case 'A':
		p.arc(v[0], v[1], v[2], v[3] != 0, v[4] != 0, to(5))
	case 'Z':
		s := p.current()
		s.closed = true
		p.at = s.start
	}
}

// current returns the subpath that is being drawn. After a close the next one
// begins where that one began.
func (p *pen) current() *subpath {
	if s := &p.path[len(p.path)-1]; !s.closed {
		return s
	}
	p.path = append(p.path, subpath{start: p.at})
	return &p.path[len(p.path)-1]
}

func (p *pen) line(to point) {
	p.current().lineTo(to)
	p.at = to
}

func (p *pen) cubic(b, c, d point) {
	s := p.current()
	s.curves = append(s.curves, curve{false, b, c, d})
	p.control, p.at = c, d
}

func (p *pen) quadratic(b, d point) {
	a := p.at
	p.cubic(between(a, b, 2.0/3), between(d, b, 2.0/3), d)
	p.control = b
}

func between(a, b point, t float64) point {
	return point{a.x + (b.x-a.x)*t, a.y + (b.y-a.y)*t}
}

// mirror returns the last control point, mirrored at the pen, where the last
// command was one of the given.
func (p *pen) mirror(a, b byte) point {
	if p.last != a && p.last != b {
		return p.at
	}
	return point{2*p.at.x - p.control.x, 2*p.at.y - p.control.y}
}

// arc draws an elliptical arc as curves, by the formulas of the SVG standard's
// implementation notes.
func (p *pen) arc(rx, ry, degrees float64, large, sweep bool, to point) {
	from := p.at
	rx, ry = math.Abs(rx), math.Abs(ry)
	if rx == 0 || ry == 0 || from == to {
		p.line(to)
		return
	}
	turn := rotation(degrees)
	back := rotation(-degrees)
	h := back.apply(point{(from.x - to.x) / 2, (from.y - to.y) / 2})
	if grow := h.x*h.x/(rx*rx) + h.y*h.y/(ry*ry); grow > 1 {
		rx, ry = rx*math.Sqrt(grow), ry*math.Sqrt(grow)
	}
	k := math.Sqrt(max(0, (rx*rx*ry*ry-rx*rx*h.y*h.y-ry*ry*h.x*h.x)/(rx*rx*h.y*h.y+ry*ry*h.x*h.x)))
	if large == sweep {
		k = -k
	}
	center := point{k * rx * h.y / ry, -k * ry * h.x / rx}
	start := math.Atan2((h.y-center.y)/ry, (h.x-center.x)/rx)
	sweepBy := math.Atan2((-h.y-center.y)/ry, (-h.x-center.x)/rx) - start
	if sweep && sweepBy < 0 {
		sweepBy += 2 * math.Pi
	} else if !sweep && sweepBy > 0 {
		sweepBy -= 2 * math.Pi
	}
	middle := point{(from.x + to.x) / 2, (from.y + to.y) / 2}
	unit := translation(middle.x, middle.y).after(turn).after(translation(center.x, center.y)).after(matrix{a: rx, d: ry})
	p.circleArc(unit, start, sweepBy)
	p.at = to
}

// circleArc draws a part of the unit circle under a matrix.
func (p *pen) circleArc(m matrix, start, sweep float64) {
	n := max(1, int(math.Ceil(math.Abs(sweep)/(math.Pi/2)-1e-9)))
	step := sweep / float64(n)
	k := 4.0 / 3 * math.Tan(step/4)
	for i := range n {
		s0, c0 := math.Sincos(start + float64(i)*step)
		s1, c1 := math.Sincos(start + float64(i+1)*step)
		p.cubic(m.apply(point{c0 - k*s0, s0 + k*c0}), m.apply(point{c1 + k*s1, s1 - k*c1}), m.apply(point{c1, s1}))
	}
}

// A scanner reads numbers as path data has them.
type scanner struct {
	text string
	pos  int
}

func (s *scanner) done() bool { return s.pos >= len(s.text) }

func (s *scanner) space() {
	for !s.done() && strings.IndexByte(" ,\t\r\n\f", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// number reads the longest number there is.
func (s *scanner) number() (float64, bool) {
	start := s.pos
	s.sign()
	s.digits()
	if !s.done() && s.text[s.pos] == '.' {
		s.pos++
		s.digits()
	}
	if mark := s.pos; !s.done() && s.text[s.pos]|0x20 == 'e' {
		s.pos++
		s.sign()
		if first := s.pos; s.digits() == first {
			s.pos = mark // an e that is no exponent
		}
	}
	return number(s.text[start:s.pos])
}

func (s *scanner) sign() {
	if !s.done() && (s.text[s.pos] == '+' || s.text[s.pos] == '-') {
		s.pos++
	}
}

// digits skips digits and returns where they end.
func (s *scanner) digits() int {
	for !s.done() && s.text[s.pos] >= '0' && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos
}

// flag reads a single 0 or 1, which need not be separated from what follows.
func (s *scanner) flag() (float64, bool) {
	if s.done() || s.text[s.pos] != '0' && s.text[s.pos] != '1' {
		return 0, false
	}
	s.pos++
	return float64(s.text[s.pos-1] - '0'), true
}
