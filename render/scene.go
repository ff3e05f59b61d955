package render

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"

	"github.com/fyne-io/oksvg"
	"github.com/srwiley/rasterx"

	"github.com/berth-dev/berth/lease"
)

// Bounds of what an [SVG] reads and draws where nothing else is said.
const (
	DefaultMaxBytes = 16 << 20
	DefaultMaxSide  = 8192
)

// An SVG renders SVG sources to PNG, in this process. The zero value is ready:
// pictures of the source's own size.
//
// It draws what fyne-io/oksvg draws and refuses what that does not know, such
// as text, images and clip paths, with [lease.CodeSourceUnreadable]. That a
// picture is drawn does not mean that it is right: the library takes no
// gradient from another one, and scales neither strokes nor gradients of user
// space with their shape.
//
// The library was chosen by 540 files of nine of Debian 12's icon packages, at
// 128 pixels, beside librsvg: this renderer drew 478 of them, 254 so that they
// looked the same, and refused 61; one came out empty. The library alone, told
// to pass over what it does not know, drew 412 and 254 the same;
// tdewolff/canvas drew 462 and 171 the same.
type SVG struct {
	// Longest is the length of the picture's longer side in pixels; 0 is the
	// source's own.
	Longest int
	// MaxSide is the longest side there may be; 0 means 8192.
	MaxSide int
	// MaxBytes is the largest source; 0 means 16 MiB.
	MaxBytes int64
}

// Render draws the source. It looks at ctx before each step.
func (s SVG) Render(ctx context.Context, w Work) error {
	data, err := s.read(w.Source)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	picture, err := s.draw(data)
	if err != nil {
		return lease.Errorf(lease.CodeSourceUnreadable, "cannot draw %s: %w; mend the scene, or render it by a program that knows more of SVG", w.Job.SourceKey, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := encode(picture, w.Output); err != nil {
		return lease.Errorf(lease.CodeOutputFailed, "cannot write %s: %w", w.Job.OutputKey, err)
	}
	return nil
}

// draw returns the picture. A panic of the library is a source that it cannot
// draw.
func (s SVG) draw(data []byte) (picture *image.RGBA, err error) {
	defer func() {
		if p := recover(); p != nil {
			picture, err = nil, fmt.Errorf("the drawing library panics: %v", p)
		}
	}()
	icon, err := oksvg.ReadReplacingCurrentColor(bytes.NewReader(drawn(data)), "#000000", oksvg.StrictErrorMode)
	if err != nil {
		return nil, err
	}
	width, height, err := s.size(icon.ViewBox.W, icon.ViewBox.H)
	if err != nil {
		return nil, err
	}
	icon.SetTarget(0, 0, float64(width), float64(height))
	picture = image.NewRGBA(image.Rect(0, 0, width, height))
	icon.Draw(rasterx.NewDasher(width, height, newScanner(picture)), 1)
	return picture, nil
}

// notes are the elements that drawing programs keep their notes in. They draw
// nothing, and are in most of the files that such programs write.
var notes = regexp.MustCompile(`(?s)<(metadata|sodipodi:namedview)\b[^>]*?(/>|>.*?</(metadata|sodipodi:namedview)\s*>)`)

// drawn returns the document without its notes, line for line.
func drawn(data []byte) []byte {
	return notes.ReplaceAllFunc(data, func(note []byte) []byte {
		return bytes.Repeat([]byte("\n"), bytes.Count(note, []byte("\n")))
	})
}

// size returns the picture's size in pixels.
func (s SVG) size(w, h float64) (width, height int, err error) {
	if !(w > 0 && h > 0) || math.IsInf(w+h, 0) {
		return 0, 0, errors.New("it has no size: give it a width and height, or a viewBox")
	}
	if s.Longest > 0 {
		scale := float64(s.Longest) / max(w, h)
		w, h = w*scale, h*scale
	}
	most := s.MaxSide
	if most <= 0 {
		most = DefaultMaxSide
	}
	if max(w, h) > float64(most) {
		return 0, 0, fmt.Errorf("it is larger than %d pixels a side", most)
	}
	return max(1, int(math.Round(w))), max(1, int(math.Round(h))), nil
}

func (s SVG) read(name string) ([]byte, error) {
	limit := s.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, lease.Errorf(lease.CodeSourceMissing, "cannot read the source: %w", err)
	case int64(len(data)) > limit:
		return nil, lease.Errorf(lease.CodeSourceUnreadable, "cannot draw %s: it is larger than %d bytes", name, limit)
	}
	return data, nil
}

func missing(err error) error {
	return lease.Errorf(lease.CodeSourceMissing, "cannot open the source: %w; check the job's sourceKey", err)
}

func encode(picture image.Image, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewWriter(f)
	if err := png.Encode(buffered, picture); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return f.Close()
}
