package render

import (
	"image"
	"image/color"

	"github.com/golang/freetype/raster"
	"github.com/srwiley/rasterx"
	"golang.org/x/image/math/fixed"
)

// A scanner fills the paths of an SVG through freetype's rasterizer, which
// looks only at the lines that a path covers and knows both fill rules.
// rasterx's own passes over the whole picture for each path: minutes for a
// scene of ten thousand, and it fills all of them nonzero.
type scanner struct {
	raster  *raster.Rasterizer
	picture *image.RGBA
	painter *raster.RGBAPainter
	// paint, where it is set, gives each pixel its color.
	paint  rasterx.ColorFunc
	clip   image.Rectangle
	extent fixed.Rectangle26_6
}

func newScanner(picture *image.RGBA) *scanner {
	size := picture.Bounds().Size()
	s := &scanner{raster: raster.NewRasterizer(size.X, size.Y), picture: picture, painter: raster.NewRGBAPainter(picture)}
	s.Clear()
	return s
}

// Start begins a path.
func (s *scanner) Start(a fixed.Point26_6) {
	s.extend(a)
	s.raster.Start(a)
}

// Line adds a line.
func (s *scanner) Line(b fixed.Point26_6) {
	s.extend(b)
	s.raster.Add1(b)
}

func (s *scanner) extend(p fixed.Point26_6) {
	s.extent.Min.X, s.extent.Min.Y = min(s.extent.Min.X, p.X), min(s.extent.Min.Y, p.Y)
	s.extent.Max.X, s.extent.Max.Y = max(s.extent.Max.X, p.X), max(s.extent.Max.Y, p.Y)
}

// GetPathExtent returns what the path covers, by which gradients are laid.
func (s *scanner) GetPathExtent() fixed.Rectangle26_6 { return s.extent }

// Draw paints the path.
func (s *scanner) Draw() { s.raster.Rasterize(raster.PainterFunc(s.spans)) }

// Clear forgets the path.
func (s *scanner) Clear() {
	const far = 1<<31 - 1
	s.extent = fixed.Rectangle26_6{Min: fixed.Point26_6{X: far, Y: far}, Max: fixed.Point26_6{X: -far, Y: -far}}
	s.raster.Clear()
}

// SetBounds does nothing: the picture has its size.
func (s *scanner) SetBounds(int, int) {}

// SetWinding chooses between the two fill rules.
func (s *scanner) SetWinding(nonZero bool) { s.raster.UseNonZeroWinding = nonZero }

// SetClip bounds what is painted; an empty rectangle does not.
func (s *scanner) SetClip(r image.Rectangle) { s.clip = r }

// SetColor takes a color, or one for each pixel.
func (s *scanner) SetColor(c any) {
	s.paint = nil
	switch c := c.(type) {
	case color.Color:
		s.painter.SetColor(c)
	case rasterx.ColorFunc:
		s.paint = c
	}
}

// spans paints lines of pixels.
func (s *scanner) spans(spans []raster.Span, done bool) {
	if s.clip.Empty() && s.paint == nil {
		s.painter.Paint(spans, done)
		return
	}
	for _, span := range spans {
		s.span(span)
	}
}

func (s *scanner) span(span raster.Span) {
	line := image.Rect(span.X0, span.Y, span.X1, span.Y+1).Intersect(s.picture.Bounds())
	if !s.clip.Empty() {
		line = line.Intersect(s.clip)
	}
	span.X0, span.X1 = line.Min.X, line.Max.X
	if line.Empty() {
		return
	}
	if s.paint == nil {
		s.painter.Paint([]raster.Span{span}, false)
		return
	}
	for x := line.Min.X; x < line.Max.X; x++ {
		s.painter.SetColor(s.paint(x, span.Y))
		s.painter.Paint([]raster.Span{{Y: span.Y, X0: x, X1: x + 1, Alpha: span.Alpha}}, false)
	}
}
