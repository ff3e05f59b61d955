package svg

import (
	"context"
	"fmt"
	"image"
)

// DefaultMaxSide is the longest side of a picture, in pixels, where nothing
// else is asked for.
const DefaultMaxSide = 8192

// Options say how large a picture is. The zero value is the document's own
// size.
type Options struct {
	// Longest is the length of the picture's longer side in pixels; 0 is the
	// document's own.
	Longest int
	// MaxSide is the longest side there may be; 0 means 8192. A picture takes
	// four bytes a pixel.
	MaxSide int
}

// A Picture is a drawn document.
type Picture struct {
	Image *image.RGBA
	// LeftOut names what the document has and the picture lacks, sorted.
	LeftOut []string
	// Blank says that nothing was painted.
	Blank bool
}

// Draw draws a document. It keeps data unchanged and may be called from any
// goroutine. The context is looked at before each shape; its cause is then the
// error. Any other error is an [*Error], also where a library panics.
func Draw(ctx context.Context, data []byte, o Options) (picture Picture, err error) {
	defer func() {
		if p := recover(); p != nil {
			picture, err = Picture{}, problem(0, "the drawing library panics: %v", p)
		}
	}()
	doc, err := read(data)
	if err != nil {
		return Picture{}, err
	}
	size, err := sizeOf(doc.root)
	if err != nil {
		return Picture{}, err
	}
	pixels, err := o.pixels(size)
	if err != nil {
		return Picture{}, err
	}
	img := image.NewRGBA(image.Rectangle{Max: pixels})
	d := &drawing{ctx: ctx, doc: doc, canvas: newCanvas(img), leftOut: map[string]bool{}}
	if err := d.root(size, pixels); err != nil {
		return Picture{}, err
	}
	return Picture{Image: img, LeftOut: d.names(), Blank: blank(img)}, nil
}

// sizeOf returns the document's own size in pixels.
func sizeOf(root *element) (point, error) {
	b, ok := viewBox(root)
	if !ok {
		b = box{width: 0, height: 0}
	}
	size := point{b.width, b.height}
	if v, ok := length(root.attrs["width"], b.width); ok && v > 0 {
		size.x = v
	}
	if v, ok := length(root.attrs["height"], b.height); ok && v > 0 {
		size.y = v
	}
	if size.x <= 0 || size.y <= 0 {
		return size, problem(root.line, "it has no size; give its svg element a viewBox, or a width and a height")
	}
	return size, nil
}

// pixels returns the picture's size for a document of the given size.
func (o Options) pixels(size point) (image.Point, error) {
	scale := 1.0
	if o.Longest > 0 {
		scale = float64(o.Longest) / max(size.x, size.y)
	}
	limit := o.MaxSide
	if limit <= 0 {
		limit = DefaultMaxSide
	}
	if longest := max(size.x, size.y) * scale; longest > float64(limit) {
		return image.Point{}, problem(0, "the picture would be %.0f pixels long, at most %d are drawn; ask for a smaller one", longest, limit)
	}
	return image.Pt(round(size.x*scale), round(size.y*scale)), nil
}

func (d *drawing) root(size point, pixels image.Point) error {
	root := d.doc.root
	at := place{
		style:  initialStyle,
		matrix: matrix{a: float64(pixels.X) / size.x, d: float64(pixels.Y) / size.y},
		whole:  size,
	}
	// The size was already read from the root's width and height.
	sized := *root
	sized.attrs = map[string]string{}
	for name, value := range root.attrs {
		if name != "x" && name != "y" && name != "transform" {
			sized.attrs[name] = value
		}
	}
	sized.attrs["width"], sized.attrs["height"] = fmt.Sprint(size.x), fmt.Sprint(size.y)
	return d.element(&sized, at)
}
