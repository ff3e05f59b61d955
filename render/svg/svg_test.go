package svg_test

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/render/svg"
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 100">`

// draw draws the inside of an svg element of 100 by 100 pixels.
func draw(t *testing.T, inside string) svg.Picture {
	t.Helper()
	p, err := svg.Draw(t.Context(), []byte(head+inside+`</svg>`), svg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hex(c color.RGBA) string { return fmt.Sprintf("%02x%02x%02x%02x", c.R, c.G, c.B, c.A) }

const (
	red  = "ff0000ff"
	blue = "0000ffff"
	none = "00000000"
)

func TestShapesAndPaints(t *testing.T) {
	type spots map[[2]int]string
	for name, c := range map[string]struct {
		inside string
		want   spots
	}{
		"a rectangle":          {`<rect x="10" y="10" width="50%" height="20" fill="red"/>`, spots{{11, 11}: red, {58, 28}: red, {61, 11}: none, {11, 31}: none}},
		"a round corner":       {`<rect width="40" height="40" rx="20" fill="red"/>`, spots{{1, 1}: none, {20, 20}: red}},
		"a circle":             {`<circle cx="50" cy="50" r="20" fill="#f00"/>`, spots{{50, 50}: red, {68, 50}: red, {66, 66}: none}},
		"an ellipse":           {`<ellipse cx="50" cy="50" rx="40" ry="10" fill="rgb(255,0,0)"/>`, spots{{12, 50}: red, {50, 35}: none}},
		"a polygon":            {`<polygon points="0,0 100,0 0,100" fill="red"/>`, spots{{10, 10}: red, {90, 90}: none}},
		"a line has no inside": {`<line x1="0" y1="50" x2="100" y2="50" stroke="red" stroke-width="10"/>`, spots{{50, 47}: red, {50, 40}: none}},
		"relative path data":   {`<path d="m10 10h20v20h-20z m50 0l20 0 0 20-20 0z" fill="red"/>`, spots{{20, 20}: red, {40, 20}: none, {70, 20}: red}},
		"tight arc flags":      {`<path d="M50 10a40 40 0 0140 40H50z" fill="red"/>`, spots{{70, 30}: red, {88, 12}: none, {30, 70}: none}},
		"a quarter by curves":  {`<path d="M0 0Q100 0 100 100T100 100L0 100z" fill="red"/>`, spots{{10, 90}: red, {95, 5}: none}},
		"even-odd":             {`<path fill-rule="evenodd" fill="red" d="M0 0H100V100H0zM20 20H80V80H20z"/>`, spots{{10, 10}: red, {50, 50}: none}},
		"non-zero":             {`<path fill="red" d="M0 0H100V100H0zM20 20H80V80H20z"/>`, spots{{10, 10}: red, {50, 50}: red}},
		"a scaled stroke":      {`<g transform="scale(10)"><path d="M0 5H10" stroke="red" stroke-width="2"/></g>`, spots{{50, 42}: red, {50, 58}: red, {50, 38}: none}},
		"dashes":               {`<path d="M0 50H100" stroke="red" stroke-width="10" stroke-dasharray="20"/>`, spots{{10, 50}: red, {30, 50}: none, {50, 50}: red}},
		"transforms in order":  {`<rect transform="translate(50,0) rotate(90)" width="20" height="20" fill="red"/>`, spots{{40, 10}: red, {60, 10}: none}},
		"currentColor":         {`<g color="red"><rect width="9" height="9" fill="currentColor"/></g>`, spots{{5, 5}: red}},
		"a class":              {`<style>.a, .b{color:#f00} rect.c{fill:blue}</style><g class="x b"><rect width="9" height="9" style="fill:currentColor"/></g><rect class="c" x="20" width="9" height="9" fill="red"/>`, spots{{5, 5}: red, {25, 5}: blue}},
		"style over attribute": {`<rect width="9" height="9" fill="blue" style="fill : red !important"/>`, spots{{5, 5}: red}},
		"opacity":              {`<g opacity=".5"><rect width="9" height="9" fill="red" fill-opacity="50%"/></g>`, spots{{5, 5}: "40000040"}},
		"nothing hidden":       {`<rect width="99" height="99" fill="red" display="none"/><rect width="99" height="99" fill="red" visibility="hidden"/>`, spots{{5, 5}: none}},
		"a clip path":          {`<clipPath id="c"><rect width="50" height="100"/></clipPath><g clip-path="url(#c)"><rect width="100" height="100" fill="red"/></g>`, spots{{10, 10}: red, {60, 10}: none}},
		"use before its definition": {`<use href="#r" x="50"/><defs><rect id="r" width="20" height="20" fill="red"/></defs>`,
			spots{{60, 10}: red, {10, 10}: none}},
		"a symbol with a viewBox": {`<symbol id="s" viewBox="0 0 10 10"><rect width="5" height="10" fill="red"/></symbol><use xlink:href="#s" width="100" height="100"/>`,
			spots{{40, 50}: red, {60, 50}: none}},
		"a nested svg": {`<svg x="50" y="50" width="50" height="50" viewBox="0 0 10 10"><rect width="10" height="10" fill="red"/></svg>`,
			spots{{60, 60}: red, {40, 40}: none}},
		"a fallback":      {`<rect width="9" height="9" fill="url(#none) red"/>`, spots{{5, 5}: red}},
		"hsl and alpha":   {`<rect width="9" height="9" fill="hsl(0, 100%, 50%)"/><rect x="20" width="9" height="9" fill="#0000ff80"/>`, spots{{5, 5}: red, {25, 5}: "00008080"}},
		"foreign content": {`<x:box xmlns:x="urn:x"><rect width="99" height="99" fill="red"/></x:box>`, spots{{5, 5}: none}},
	} {
		t.Run(name, func(t *testing.T) {
			p := draw(t, c.inside)
			for at, want := range c.want {
				if got := hex(p.Image.RGBAAt(at[0], at[1])); got != want {
					t.Errorf("pixel %v is %s, want %s", at, got, want)
				}
			}
			if len(p.LeftOut) > 0 {
				t.Errorf("left out %q", p.LeftOut)
			}
		})
	}
}

// near reports whether a channel is within a few levels of what it should be.
func near(got, want uint8) bool { return max(got, want)-min(got, want) <= 4 }

func TestGradients(t *testing.T) {
	const stops = `<stop offset="0" stop-color="#000"/><stop offset="100%" style="stop-color:#fff"/>`
	for name, c := range map[string]struct {
		inside string
		want   map[[2]int]uint8 // the red of each pixel
	}{
		"along a shape": {`<linearGradient id="g">` + stops + `</linearGradient><rect width="100" height="100" fill="url(#g)"/>`,
			map[[2]int]uint8{{0, 50}: 1, {50, 50}: 129, {99, 50}: 254}},
		"in user space, under a transform": {`<linearGradient id="g" gradientUnits="userSpaceOnUse" x1="0" x2="10">` + stops + `</linearGradient><g transform="scale(10)"><rect width="10" height="10" fill="url(#g)"/></g>`,
			map[[2]int]uint8{{0, 50}: 1, {50, 50}: 129}},
		"stops and place inherited, defined later": {`<rect width="100" height="100" fill="url(#g)"/><linearGradient id="g" xlink:href="#h" gradientTransform="rotate(90 .5 .5)"/><linearGradient id="h">` + stops + `</linearGradient>`,
			map[[2]int]uint8{{50, 0}: 1, {50, 99}: 254}},
		"radial": {`<radialGradient id="g" gradientUnits="userSpaceOnUse" cx="50" cy="50" r="50">` + stops + `</radialGradient><rect width="100" height="100" fill="url(#g)"/>`,
			map[[2]int]uint8{{50, 50}: 4, {75, 50}: 130, {2, 2}: 255}},
		"radial with a focus": {`<radialGradient id="g" fx="0.25" gradientUnits="objectBoundingBox">` + stops + `</radialGradient><rect width="100" height="100" fill="url(#g)"/>`,
			map[[2]int]uint8{{25, 50}: 4, {62, 50}: 128, {12, 50}: 128}},
		"reflected": {`<linearGradient id="g" spreadMethod="reflect" x2="50%">` + stops + `</linearGradient><rect width="100" height="100" fill="url(#g)"/>`,
			map[[2]int]uint8{{50, 50}: 254, {75, 50}: 126, {99, 50}: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := draw(t, c.inside)
			for at, want := range c.want {
				if got := p.Image.RGBAAt(at[0], at[1]); !near(got.R, want) || got.A != 255 {
					t.Errorf("pixel %v is %s, want a red of %d", at, hex(got), want)
				}
			}
		})
	}
}

func TestEntitiesAndCharsets(t *testing.T) {
	for name, text := range map[string]string{
		"an entity":  `<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY paint "#ff0000"><!ENTITY ns 'http://www.w3.org/2000/svg'>]><svg xmlns="&ns;" viewBox="0 0 9 9"><rect width="9" height="9" fill="&paint;"/></svg>`,
		"ISO 8859-1": `<?xml version="1.0" encoding="ISO-8859-1"?><svg viewBox="0 0 9 9"><title>` + "\xe9" + `</title><rect width="9" height="9" fill="red"/></svg>`,
	} {
		p, err := svg.Draw(t.Context(), []byte(text), svg.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := hex(p.Image.RGBAAt(5, 5)); got != red {
			t.Errorf("%s: the pixel is %s", name, got)
		}
	}
}

func TestWhatIsLeftOutIsNamed(t *testing.T) {
	p := draw(t, `<filter id="f"/><mask id="m"/><pattern id="p"/><text x="5" y="5">words</text><image href="x.png"/>
		<g filter="url(#f)" mask="url(#m)"><path d="M0 0H10V" fill="url(#p)"/></g><use href="#gone"/>`)
	want := []string{"filter", "image", "mask", "pattern", "text", "the rest of a broken path", "use of what is not in the document"}
	if !slices.Equal(p.LeftOut, want) {
		t.Errorf("left out %q, want %q", p.LeftOut, want)
	}
	if !p.Blank {
		t.Error("the picture is said not to be blank")
	}
}

func TestSizes(t *testing.T) {
	const box = `<svg viewBox="0 0 40 20">`
	for _, c := range []struct {
		open          string
		options       svg.Options
		width, height int
	}{
		{box, svg.Options{}, 40, 20},
		{box, svg.Options{Longest: 100}, 100, 50},
		{`<svg width="1in" height="50%" viewBox="0 0 40 20">`, svg.Options{}, 96, 10},
		{`<svg width="10.2" height="10">`, svg.Options{}, 11, 10},
		{box, svg.Options{Longest: 8192}, 8192, 4096},
	} {
		p, err := svg.Draw(t.Context(), []byte(c.open+`</svg>`), c.options)
		if err != nil {
			t.Errorf("%s: %v", c.open, err)
		} else if size := p.Image.Rect.Size(); size.X != c.width || size.Y != c.height {
			t.Errorf("%s: %v, want %d x %d", c.open, size, c.width, c.height)
		}
	}
}

func TestUnreadableDocumentsSayWhere(t *testing.T) {
	deep := strings.Repeat("<g>", 200) + strings.Repeat("</g>", 200)
	bomb := `<!DOCTYPE svg [<!ENTITY a "` + strings.Repeat("x", 250) + `">]>` + head + "<desc>" + strings.Repeat("&a;", 70_000) + "</desc></svg>"
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"empty":            {"", 0, "no svg element"},
		"not XML":          {"\x89PNG\r\n\x1a\n", 3, "UTF-8"},
		"cut":              {head + "\n<g>\n<rect", 3, "unexpected EOF"},
		"another root":     {"<html>\n</html>", 1, `"html"`},
		"no size":          {"\n<svg></svg>", 2, "no size"},
		"unknown entity":   {head + "\n&what;</svg>", 2, "&what;"},
		"unknown charset":  {`<?xml version="1.0" encoding="EBCDIC"?>` + head + `</svg>`, 1, "save it as UTF-8"},
		"too deep":         {head + deep + "</svg>", 1, "levels"},
		"an entity bomb":   {bomb, 0, "expand"},
		"too large":        {`<svg width="9000" height="1"></svg>`, 0, "ask for a smaller one"},
		"an endless size":  {`<svg width="1e300" height="1"></svg>`, 0, "smaller"},
		"use of itself":    {head + "\n" + `<g id="a"><use href="#a"/></g></svg>`, 2, "refers to itself"},
		"clip by itself":   {head + "\n" + `<clipPath id="c"><rect clip-path="url(#c)" width="9" height="9"/></clipPath><rect clip-path="url(#c)"/></svg>`, 2, "refers to itself"},
		"a billion shapes": {head + "\n" + billion() + "</svg>", 2, "shapes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := svg.Draw(t.Context(), []byte(c.text), svg.Options{})
			var e *svg.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want an *svg.Error", err)
			}
			if e.Line != c.line || !strings.Contains(e.Error(), c.says) {
				t.Errorf("error %q at line %d, want %q at line %d", e, e.Line, c.says, c.line)
			}
		})
	}
}

// billion returns definitions of which each draws the one before it ten times.
func billion() string {
	var b strings.Builder
	b.WriteString(`<defs><path id="u0"/>`)
	for i := range 9 {
		fmt.Fprintf(&b, `<g id="u%d">%s</g>`, i+1, strings.Repeat(fmt.Sprintf(`<use href="#u%d"/>`, i), 10))
	}
	b.WriteString(`</defs><use href="#u9"/>`)
	return b.String()
}

func TestCostlyStrokesAreBounded(t *testing.T) {
	p := draw(t, `<path d="M0 50H1e9" stroke="red" stroke-width="10" stroke-dasharray="1e-9"/>
		<path d="M-1e30 1e30L1e30-1e30" stroke="blue" stroke-width="1e30"/>`)
	if p.Blank {
		t.Error("nothing is drawn")
	}
}

func TestTheContextEndsADrawing(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := svg.Draw(ctx, []byte(head+`</svg>`), svg.Options{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's cause", err)
	}
}

func FuzzDraw(f *testing.F) {
	seeds, err := filepath.Glob("../testdata/*.svg")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(head + `<path d="M1 2a3 4 5 0160-7" stroke="red" stroke-dasharray="1 2"/></svg>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := svg.Draw(t.Context(), data, svg.Options{Longest: 32}); err != nil {
			var e *svg.Error
			if !errors.As(err, &e) {
				t.Errorf("error %v is no *svg.Error", err)
			}
			if strings.Contains(err.Error(), "panics") {
				t.Error(err)
			}
		}
	})
}
