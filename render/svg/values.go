package svg

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"
)

// units are the lengths of CSS, in pixels. An em is taken as 16 pixels.
var units = []struct {
	suffix string
	pixels float64
}{
	{"px", 1}, {"pt", 96.0 / 72}, {"pc", 16}, {"mm", 96 / 25.4}, {"cm", 96 / 2.54}, {"in", 96}, {"em", 16}, {"ex", 8},
}

// length reads a length in pixels; whole is what 100% is.
func length(text string, whole float64) (float64, bool) {
	text = strings.TrimSpace(text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		v, ok := number(percent)
		return v * whole / 100, ok
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			v, ok := number(digits)
			return v * u.pixels, ok
		}
	}
	return number(text)
}

// number reads a finite number.
func number(text string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// fraction reads a number or a percentage, and keeps it between 0 and 1.
func fraction(text string) (float64, bool) {
	v, ok := length(text, 1)
	return min(max(v, 0), 1), ok
}

// numbers reads a list of numbers, which may lack separators as in path data,
// up to the first thing that is none.
func numbers(text string) ([]float64, bool) {
	s := scanner{text: text}
	var list []float64
	for {
		s.space()
		if s.done() {
			return list, true
		}
		v, ok := s.number()
		if !ok {
			return list, false
		}
		list = append(list, v)
	}
}

// parseColor reads a CSS color. currentColor is the caller's to resolve.
func parseColor(text string) (color.NRGBA, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if hex, ok := strings.CutPrefix(text, "#"); ok {
		return hexColor(hex)
	}
	if text == "transparent" {
		return color.NRGBA{}, true
	}
	if name, args, ok := strings.Cut(strings.TrimSuffix(text, ")"), "("); ok {
		return functionColor(name, args)
	}
	c, ok := colornames.Map[text]
	return color.NRGBA(c), ok
}

func hexColor(hex string) (color.NRGBA, bool) {
	if len(hex) == 3 || len(hex) == 4 {
		var long strings.Builder
		for _, digit := range hex {
			long.WriteRune(digit)
			long.WriteRune(digit)
		}
		hex = long.String()
	}
	if len(hex) == 6 {
		hex += "ff"
	}
	v, err := strconv.ParseUint(hex, 16, 32)
	return color.NRGBA{uint8(v >> 24), uint8(v >> 16), uint8(v >> 8), uint8(v)}, err == nil && len(hex) == 8
}

// functionColor reads the arguments of rgb(), rgba(), hsl() and hsla().
func functionColor(name, args string) (color.NRGBA, bool) {
	parts := strings.FieldsFunc(args, func(r rune) bool { return strings.ContainsRune(", /\t\n", r) })
	if len(parts) != 3 && len(parts) != 4 {
		return color.NRGBA{}, false
	}
	alpha, ok := 1.0, true
	if len(parts) == 4 {
		alpha, ok = fraction(parts[3])
	}
	var rgb [3]float64
	switch strings.TrimSuffix(name, "a") {
	case "rgb":
		for i := range rgb {
			v, good := length(parts[i], 255)
			rgb[i], ok = v/255, ok && good
		}
	case "hsl":
		hue, good := number(strings.TrimSuffix(parts[0], "deg"))
		saturation, good2 := fraction(parts[1])
		lightness, good3 := fraction(parts[2])
		rgb, ok = hslToRGB(hue, saturation, lightness), ok && good && good2 && good3
	default:
		ok = false
	}
	return color.NRGBA{level(rgb[0]), level(rgb[1]), level(rgb[2]), level(alpha)}, ok
}

func hslToRGB(hue, saturation, lightness float64) [3]float64 {
	channel := func(n float64) float64 {
		k := math.Mod(n+hue/30, 12)
		if k < 0 {
			k += 12
		}
		return lightness - saturation*min(lightness, 1-lightness)*max(-1, min(k-3, 9-k, 1))
	}
	return [3]float64{channel(0), channel(8), channel(4)}
}

func level(v float64) uint8 { return uint8(math.Round(min(max(v, 0), 1) * 255)) }

// reference returns the id in url(#id), and what follows it.
func reference(text string) (id, fallback string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "url(")
	if !ok {
		return "", "", false
	}
	id, fallback, ok = strings.Cut(rest, ")")
	id = strings.TrimPrefix(strings.Trim(id, ` "'`), "#")
	return id, strings.TrimSpace(fallback), ok
}
