package svg

import "math"

// outline returns the path of a basic shape, in its own coordinates, as far as
// it can be read; ok is false where that is not to the end. whole is what 100%
// is, in each direction.
func outline(el *element, whole point) (p path, ok bool) {
	at := func(name string, full float64) float64 {
		v, _ := length(el.attrs[name], full)
		return v
	}
	diagonal := math.Hypot(whole.x, whole.y) / math.Sqrt2
	switch el.name {
	case "path":
		return parsePath(el.attrs["d"])
	case "rect":
		return rectangle(el, whole), true
	case "circle":
		r := at("r", diagonal)
		return ellipse(at("cx", whole.x), at("cy", whole.y), r, r), true
	case "ellipse":
		return ellipse(at("cx", whole.x), at("cy", whole.y), at("rx", whole.x), at("ry", whole.y)), true
	case "line":
		s := subpath{start: point{at("x1", whole.x), at("y1", whole.y)}}
		s.lineTo(point{at("x2", whole.x), at("y2", whole.y)})
		return path{s}, true
	}
	return polyline(el)
}

func polyline(el *element) (p path, ok bool) {
	v, ok := numbers(el.attrs["points"])
	if len(v) < 4 {
		return nil, ok
	}
	s := subpath{start: point{v[0], v[1]}, closed: el.name == "polygon"}
	for i := 2; i+1 < len(v); i += 2 {
		s.lineTo(point{v[i], v[i+1]})
	}
	return path{s}, ok && len(v)%2 == 0
}

func ellipse(cx, cy, rx, ry float64) path {
	if rx <= 0 || ry <= 0 {
		return nil
	}
	p := &pen{at: point{cx + rx, cy}}
	p.path = path{{start: p.at}}
	p.circleArc(matrix{rx, 0, 0, ry, cx, cy}, 0, 2*math.Pi)
	p.current().closed = true
	return p.path
}

func rectangle(el *element, whole point) path {
	x, _ := length(el.attrs["x"], whole.x)
	y, _ := length(el.attrs["y"], whole.y)
	w, _ := length(el.attrs["width"], whole.x)
	h, _ := length(el.attrs["height"], whole.y)
	if w <= 0 || h <= 0 {
		return nil
	}
	rx, hasX := length(el.attrs["rx"], whole.x)
	ry, hasY := length(el.attrs["ry"], whole.y)
	if !hasX {
		rx = ry
	}
	if !hasY {
		ry = rx
	}
	rx, ry = min(max(rx, 0), w/2), min(max(ry, 0), h/2)
	p := &pen{at: point{x + rx, y}}
	p.path = path{{start: p.at}}
	corner := func(to point, cx, cy, angle float64) {
		p.line(to)
		if rx > 0 && ry > 0 {
			p.circleArc(matrix{rx, 0, 0, ry, cx, cy}, angle, math.Pi/2)
		}
	}
	corner(point{x + w - rx, y}, x+w-rx, y+ry, -math.Pi/2)
	corner(point{x + w, y + h - ry}, x+w-rx, y+h-ry, 0)
	corner(point{x + rx, y + h}, x+rx, y+h-ry, math.Pi/2)
	corner(point{x, y + ry}, x+rx, y+ry, math.Pi)
	p.current().closed = true
	return p.path
}
