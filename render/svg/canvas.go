package svg

import (
	"image"
	"image/color"
	"math"

	"github.com/golang/freetype/raster"
	"github.com/srwiley/rasterx"
	"golang.org/x/image/math/fixed"
)

// A canvas paints filled outlines on a picture. It is the scanner that
// rasterx's strokes are drawn through.
type canvas struct {
	raster *raster.Rasterizer
	image  *image.RGBA
	// clip is how much of each pixel may be painted; nil is all of it.
	clip    *image.Alpha
	paint   paint
	opacity float64
}

func newCanvas(img *image.RGBA) *canvas {
	size := img.Bounds().Size()
	return &canvas{raster: raster.NewRasterizer(size.X, size.Y), image: img}
}

// far bounds coordinates to what the rasterizer's numbers can hold.
const far = 1 << 20

func fix(p point) fixed.Point26_6 {
	bound := func(v float64) fixed.Int26_6 { return fixed.Int26_6(min(max(v, -far), far) * 64) }
	return fixed.Point26_6{X: bound(p.x), Y: bound(p.y)}
}

// fill adds the path, which is in pixels, to what Draw paints. Every subpath
// is closed.
func (c *canvas) fill(p path) {
	for _, s := range p {
		c.raster.Start(fix(s.start))
		for _, curve := range s.curves {
			if curve.line {
				c.raster.Add1(fix(curve.d))
			} else {
				c.raster.Add3(fix(curve.b), fix(curve.c), fix(curve.d))
			}
		}
		c.raster.Add1(fix(s.start))
	}
}

// stroke adds the outline of the path's stroke to what Draw paints. scale is
// how much larger a pixel is than the style's unit.
func (c *canvas) stroke(p path, s style, scale float64) {
	size := c.image.Bounds().Size()
	dasher := rasterx.NewDasher(size.X, size.Y, c)
	width := fixed.Int26_6(min(s.width*scale, far/8) * 64)
	dashes, offset := scaledDashes(s, scale, p)
	dasher.SetStroke(max(width, 1), fixed.Int26_6(min(s.miter, 1000)*64), s.cap, s.cap, nil, s.join, dashes, offset)
	for _, sub := range p {
		dasher.Start(fix(sub.start))
		for _, curve := range sub.curves {
			if curve.line {
				dasher.Line(fix(curve.d))
			} else {
				dasher.CubeBezier(fix(curve.b), fix(curve.c), fix(curve.d))
			}
		}
		dasher.Stop(sub.closed)
	}
}

// maxDashes bounds what one stroke is cut into: each dash costs time.
const maxDashes = 20_000

// scaledDashes returns the style's dashes and where they begin, in pixels, or
// no dashes where they are too short to be seen or too many.
func scaledDashes(s style, scale float64, p path) (list []float64, offset float64) {
	sum := 0.0
	for _, d := range s.dashes {
		d = min(d*scale, far)
		sum += d
		list = append(list, d)
	}
	if mean := sum / float64(len(list)); !(mean >= 0.25) || p.extent()/mean > maxDashes {
		return nil, 0
	}
	return list, math.Mod(s.dashOffset*scale, sum)
}

// Start, Line, Draw and the rest make the canvas a [rasterx.Scanner].
func (c *canvas) Start(a fixed.Point26_6) { c.raster.Start(a) }

// Line adds a line.
func (c *canvas) Line(b fixed.Point26_6) { c.raster.Add1(b) }

// Draw paints what was added.
func (c *canvas) Draw() {
	c.raster.Rasterize(c)
	c.raster.Clear()
}

// Clear forgets what was added.
func (c *canvas) Clear() { c.raster.Clear() }

// SetWinding chooses between the two fill rules.
func (c *canvas) SetWinding(nonZero bool) { c.raster.UseNonZeroWinding = nonZero }

// GetPathExtent, SetBounds, SetColor and SetClip are rasterx's, and not used.
func (c *canvas) GetPathExtent() fixed.Rectangle26_6 { return fixed.Rectangle26_6{} }

// SetBounds does nothing: the picture has its size.
func (c *canvas) SetBounds(int, int) {}

// SetColor does nothing: see the field paint.
func (c *canvas) SetColor(any) {}

// SetClip does nothing: see the field clip.
func (c *canvas) SetClip(image.Rectangle) {}

// Paint blends spans over the picture; the rasterizer calls it.
func (c *canvas) Paint(spans []raster.Span, _ bool) {
	for _, s := range spans {
		if s.Y < 0 || s.Y >= c.image.Rect.Dy() {
			continue
		}
		x0, x1 := max(s.X0, 0), min(s.X1, c.image.Rect.Dx())
		row := c.image.Pix[s.Y*c.image.Stride:]
		for x := x0; x < x1; x++ {
			coverage := float64(s.Alpha) / 0xffff * c.opacity
			if c.clip != nil {
				coverage *= float64(c.clip.Pix[s.Y*c.clip.Stride+x]) / 255
			}
			blend(row[4*x:4*x+4], c.paint.at(float64(x), float64(s.Y)), coverage)
		}
	}
}

// blend puts a color over a premultiplied pixel.
func blend(pixel []uint8, over color.NRGBA, coverage float64) {
	alpha := float64(over.A) / 255 * coverage
	put := func(i int, v uint8) {
		pixel[i] = uint8(float64(v)*alpha + float64(pixel[i])*(1-alpha) + 0.5)
	}
	put(0, over.R)
	put(1, over.G)
	put(2, over.B)
	put(3, 255)
}
