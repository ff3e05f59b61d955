package svg

import (
	"context"
	"image"
	"maps"
	"math"
	"slices"
	"strings"
)

// Bounds of what one document may draw.
const (
	maxShapes = 200_000 // with every use of a definition counted
	maxNested = 16      // uses inside uses, clips inside clips
)

// A drawing walks a document and paints its shapes.
type drawing struct {
	ctx     context.Context
	doc     *document
	canvas  *canvas
	leftOut map[string]bool
	shapes  int
	nested  int
}

// A place is where an element is drawn: its style, the way from its
// coordinates to pixels, and what 100% is.
type place struct {
	style  style
	matrix matrix
	whole  point
	clip   *image.Alpha
}

// notDrawn are the elements that draw something elsewhere or nothing at all.
var notDrawn = map[string]bool{
	"defs": true, "symbol": true, "clipPath": true, "mask": true, "marker": true, "pattern": true, "filter": true,
	"linearGradient": true, "radialGradient": true, "metadata": true, "title": true, "desc": true, "style": true,
	"script": true, "view": true, "cursor": true, "font": true, "color-profile": true, "solidColor": true,
}

func (d *drawing) element(el *element, at place) error {
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	if notDrawn[el.name] {
		return nil
	}
	property := d.doc.properties(el)
	if v, _ := property("display"); v == "none" {
		return nil
	}
	at.style = at.style.inherit(property, at.whole)
	if text, ok := property("transform"); ok && text != "" {
		m, ok := parseTransform(text)
		if !ok {
			d.leftOut["a transform that is none"] = true
		}
		at.matrix = at.matrix.after(m)
	}
	for _, name := range []string{"filter", "mask", "marker-start", "marker-mid", "marker-end"} {
		if _, _, ok := reference(first(property(name))); ok {
			d.leftOut[name] = true
		}
	}
	if err := d.clipped(first(property("clip-path")), &at); err != nil {
		return err
	}
	return d.draw(el, at)
}

func first(v string, _ bool) string { return v }

func (d *drawing) draw(el *element, at place) error {
	switch el.name {
	case "g", "a":
		return d.children(el, at)
	case "switch":
		for _, child := range el.children {
			if child.name != "foreignObject" && !notDrawn[child.name] {
				return d.element(child, at)
			}
		}
		return nil
	case "svg":
		x, _ := length(el.attrs["x"], at.whole.x)
		y, _ := length(el.attrs["y"], at.whole.y)
		at.matrix = at.matrix.after(translation(x, y))
		return d.viewport(el, at)
	case "use":
		return d.use(el, at)
	case "path", "rect", "circle", "ellipse", "line", "polyline", "polygon":
		return d.shape(el, at)
	}
	d.leftOut[el.name] = true
	return nil
}

func (d *drawing) children(el *element, at place) error {
	for _, child := range el.children {
		if err := d.element(child, at); err != nil {
			return err
		}
	}
	return nil
}

// viewport draws the children of a svg or symbol element in the coordinates of
// its viewBox.
func (d *drawing) viewport(el *element, at place) error {
	box, ok := viewBox(el)
	if !ok {
		return d.children(el, at)
	}
	size := at.whole
	if v, ok := length(el.attrs["width"], at.whole.x); ok {
		size.x = v
	}
	if v, ok := length(el.attrs["height"], at.whole.y); ok {
		size.y = v
	}
	at.matrix = at.matrix.after(fit(box, size, el.attrs["preserveAspectRatio"]))
	at.whole = point{box.width, box.height}
	return d.children(el, at)
}

func (d *drawing) use(el *element, at place) error {
	target := d.doc.target(el)
	if target == nil {
		d.leftOut["use of what is not in the document"] = true
		return nil
	}
	if d.nested >= maxNested {
		return problem(el.line, "use: it refers to itself, or more than %d deep", maxNested)
	}
	d.nested++
	defer func() { d.nested-- }()
	x, _ := length(el.attrs["x"], at.whole.x)
	y, _ := length(el.attrs["y"], at.whole.y)
	at.matrix = at.matrix.after(translation(x, y))
	if target.name == "symbol" {
		at.style = at.style.inherit(d.doc.properties(target), at.whole)
		return d.viewport(withSize(target, el), at)
	}
	return d.element(target, at)
}

// withSize returns the symbol with the size that its use gives it.
func withSize(symbol, use *element) *element {
	sized := *symbol
	sized.attrs = maps.Clone(symbol.attrs)
	for _, name := range []string{"width", "height"} {
		if v, ok := use.attrs[name]; ok {
			sized.attrs[name] = v
		}
	}
	return &sized
}

func (d *drawing) shape(el *element, at place) error {
	if d.shapes++; d.shapes > maxShapes {
		return problem(el.line, "it draws more than %d shapes", maxShapes)
	}
	outline, ok := outline(el, at.whole)
	if !ok {
		d.leftOut["the rest of a broken path"] = true
	}
	if at.style.hidden || len(outline) == 0 {
		return nil
	}
	pixels := outline.transformed(at.matrix)
	d.canvas.clip = at.clip
	if p := d.paint(at.style.fill, outline, at); p != nil {
		d.canvas.paint, d.canvas.opacity = p, at.style.opacity*at.style.fillOpacity
		d.canvas.SetWinding(!at.style.evenOdd)
		d.canvas.fill(pixels)
		d.canvas.Draw()
	}
	if scale := at.matrix.scale(); at.style.width*scale > 0 {
		if p := d.paint(at.style.stroke, outline, at); p != nil {
			d.canvas.paint, d.canvas.opacity = p, at.style.opacity*at.style.strokeOpacity
			d.canvas.SetWinding(true)
			d.canvas.stroke(pixels, at.style, scale)
			d.canvas.Draw()
		}
	}
	return nil
}

// paint returns what a fill or stroke paints, or nil for nothing.
func (d *drawing) paint(text string, shape path, at place) paint {
	if text == "none" {
		return nil
	}
	if id, fallback, ok := reference(text); ok {
		return d.server(id, fallback, shape, at)
	}
	if strings.EqualFold(text, "currentColor") {
		return flat(at.style.current)
	}
	c, ok := parseColor(text)
	if !ok {
		return nil
	}
	return flat(c)
}

// server returns the paint that an id names: a gradient, else the fallback.
func (d *drawing) server(id, fallback string, shape path, at place) paint {
	target := d.doc.byID[id]
	if target != nil && strings.HasSuffix(target.name, "Gradient") {
		return d.doc.gradientSource(target, at.whole).paint(shape, at.matrix, at.style.current)
	}
	if target != nil {
		d.leftOut[target.name] = true
	}
	if fallback == "" {
		return nil
	}
	return d.paint(fallback, shape, at)
}

// clipped narrows the place to a clip path.
func (d *drawing) clipped(text string, at *place) error {
	id, _, ok := reference(text)
	if !ok {
		return nil
	}
	target := d.doc.byID[id]
	if target == nil || target.name != "clipPath" || target.attrs["clipPathUnits"] == "objectBoundingBox" {
		d.leftOut["clip-path"] = true
		return nil
	}
	if d.nested >= maxNested {
		return problem(target.line, "clip-path: it refers to itself, or more than %d deep", maxNested)
	}
	d.nested++
	defer func() { d.nested-- }()
	mask := image.NewRGBA(d.canvas.image.Rect)
	inner := *d
	inner.canvas = newCanvas(mask)
	within := *at
	within.style = initialStyle
	if t, ok := parseTransform(target.attrs["transform"]); ok {
		within.matrix = within.matrix.after(t)
	}
	for _, child := range target.children {
		if err := inner.clipShape(child, within); err != nil {
			return err
		}
	}
	d.shapes = inner.shapes
	at.clip = alphaOf(mask)
	return nil
}

// clipShape draws a shape of a clip path: all of it, by its clip rule.
func (d *drawing) clipShape(el *element, at place) error {
	property := d.doc.properties(el)
	as := func(name string) (string, bool) {
		switch name {
		case "fill":
			return "black", true
		case "stroke":
			return "none", true
		case "fill-rule":
			return property("clip-rule")
		case "opacity", "fill-opacity":
			return "1", true
		}
		return property(name)
	}
	if text, ok := property("transform"); ok {
		if t, ok := parseTransform(text); ok {
			at.matrix = at.matrix.after(t)
		}
	}
	at.style = at.style.inherit(as, at.whole)
	if err := d.clipped(first(property("clip-path")), &at); err != nil {
		return err
	}
	if el.name == "use" {
		return d.use(el, at)
	}
	if notDrawn[el.name] || el.name == "text" {
		return nil
	}
	return d.draw(el, at)
}

func alphaOf(img *image.RGBA) *image.Alpha {
	alpha := image.NewAlpha(img.Rect)
	for i := range alpha.Pix {
		alpha.Pix[i] = img.Pix[4*i+3]
	}
	return alpha
}

// A box is a viewBox.
type box struct{ x, y, width, height float64 }

func viewBox(el *element) (box, bool) {
	v, ok := numbers(el.attrs["viewBox"])
	if !ok || len(v) != 4 || v[2] <= 0 || v[3] <= 0 {
		return box{}, false
	}
	return box{v[0], v[1], v[2], v[3]}, true
}

// fit maps the box into a rectangle of the given size at the origin.
func fit(b box, size point, aspect string) matrix {
	sx, sy := size.x/b.width, size.y/b.height
	align, how, _ := strings.Cut(strings.TrimSpace(aspect), " ")
	if align == "none" {
		return matrix{sx, 0, 0, sy, -b.x * sx, -b.y * sy}
	}
	scale := min(sx, sy)
	if how == "slice" {
		scale = max(sx, sy)
	}
	part := func(axis string) float64 {
		switch {
		case strings.Contains(align, axis+"Min"):
			return 0
		case strings.Contains(align, axis+"Max"):
			return 1
		}
		return 0.5
	}
	dx := (size.x - b.width*scale) * part("x")
	dy := (size.y - b.height*scale) * part("Y")
	return matrix{scale, 0, 0, scale, dx - b.x*scale, dy - b.y*scale}
}

func (d *drawing) names() []string { return slices.Sorted(maps.Keys(d.leftOut)) }

func blank(img *image.RGBA) bool {
	for i := 3; i < len(img.Pix); i += 4 {
		if img.Pix[i] != 0 {
			return false
		}
	}
	return true
}

func round(v float64) int { return max(1, int(math.Ceil(v-1e-6))) }
