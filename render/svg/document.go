package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Bounds of a document. They keep a small file from becoming a large tree.
const (
	maxElements = 200_000
	maxDepth    = 128
	maxEntity   = 256      // bytes of an entity's text
	maxExpanded = 16 << 20 // bytes that all entities may become
)

const (
	spaceSVG   = "http://www.w3.org/2000/svg"
	spaceXLink = "http://www.w3.org/1999/xlink"
)

// An Error says why a document cannot be drawn, and where.
type Error struct {
	// Line is the line of the document, or 0 where none is to blame.
	Line    int
	Problem string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Problem
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
}

func problem(line int, format string, args ...any) error {
	return &Error{Line: line, Problem: fmt.Sprintf(format, args...)}
}

// An element is one SVG element; those of other namespaces are not kept.
type element struct {
	name     string
	line     int
	attrs    map[string]string
	children []*element
}

// A document is the tree of a file, with its elements by id.
type document struct {
	root  *element
	byID  map[string]*element
	rules []rule
}

// A reader builds a document from the tokens of a file.
type reader struct {
	decoder *xml.Decoder
	doc     *document
	open    []*element // nil where a foreign element is open
	foreign int        // how many open elements are foreign or inside one
	style   strings.Builder
	count   int
}

// read builds the tree of a file.
func read(data []byte) (*document, error) {
	r := &reader{decoder: xml.NewDecoder(bytes.NewReader(data)), doc: &document{byID: map[string]*element{}}}
	r.decoder.CharsetReader = latin
	if err := r.entities(data); err != nil {
		return nil, err
	}
	for {
		token, err := r.decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, r.syntax(err)
		}
		if err := r.take(token); err != nil {
			return nil, err
		}
	}
	if r.doc.root == nil {
		return nil, problem(0, "there is no svg element in it")
	}
	r.doc.rules = parseCSS(r.style.String())
	return r.doc, nil
}

func (r *reader) line() int {
	line, _ := r.decoder.InputPos()
	return line
}

func (r *reader) syntax(err error) error {
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		return problem(syntax.Line, "%s", syntax.Msg)
	}
	return problem(r.line(), "%v", err)
}

var entityPattern = regexp.MustCompile(`<!ENTITY\s+([A-Za-z_][\w.-]*)\s+(?:"([^"]*)"|'([^']*)')\s*>`)

// entities declares the entities of the document's own type definition. It
// refuses a file whose entities could expand beyond all measure.
func (r *reader) entities(data []byte) error {
	longest := 0
	r.decoder.Entity = map[string]string{}
	for _, m := range entityPattern.FindAllSubmatch(data, -1) {
		text := string(m[2]) + string(m[3])
		if len(text) > maxEntity {
			return problem(0, "the entity %s has %d bytes; at most %d are read", m[1], len(text), maxEntity)
		}
		longest = max(longest, len(text))
		r.decoder.Entity[string(m[1])] = text
	}
	if longest*bytes.Count(data, []byte("&")) > maxExpanded {
		return problem(0, "its entities could expand to more than %d bytes", maxExpanded)
	}
	return nil
}

// latin reads the charsets that are not UTF-8 and yet are nothing else in
// practice.
func latin(charset string, input io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "us-ascii", "ascii":
		return input, nil
	case "iso-8859-1", "latin1", "windows-1252":
		data, err := io.ReadAll(input)
		var b strings.Builder
		for _, c := range data {
			b.WriteRune(rune(c))
		}
		return strings.NewReader(b.String()), err
	}
	return nil, fmt.Errorf("it is encoded as %q; save it as UTF-8", charset)
}

func (r *reader) take(token xml.Token) error {
	switch token := token.(type) {
	case xml.StartElement:
		return r.start(token)
	case xml.EndElement:
		r.end()
	case xml.CharData:
		if n := len(r.open); n > 0 && r.open[n-1] != nil && r.open[n-1].name == "style" {
			r.style.Write(token)
		}
	}
	return nil
}

func (r *reader) start(token xml.StartElement) error {
	if r.count++; r.count > maxElements || len(r.open) >= maxDepth {
		return problem(r.line(), "it has more than %d elements or %d levels", maxElements, maxDepth)
	}
	ours := r.foreign == 0 && (token.Name.Space == spaceSVG || token.Name.Space == "")
	if r.doc.root == nil && (!ours || token.Name.Local != "svg") {
		return problem(r.line(), "its first element is %q, not svg", token.Name.Local)
	}
	if !ours {
		r.foreign++
		r.open = append(r.open, nil)
		return nil
	}
	el := &element{name: token.Name.Local, line: r.line(), attrs: attributes(token.Attr)}
	if id := el.attrs["id"]; id != "" && r.doc.byID[id] == nil {
		r.doc.byID[id] = el
	}
	if n := len(r.open); n > 0 {
		parent := r.open[n-1]
		parent.children = append(parent.children, el)
	} else if r.doc.root == nil {
		r.doc.root = el
	}
	r.open = append(r.open, el)
	return nil
}

func (r *reader) end() {
	n := len(r.open) - 1
	if r.open[n] == nil {
		r.foreign--
	}
	r.open = r.open[:n]
}

// attributes keeps SVG's own attributes; xlink:href is called href.
func attributes(list []xml.Attr) map[string]string {
	attrs := make(map[string]string, len(list))
	for _, a := range list {
		switch a.Name.Space {
		case "":
			attrs[a.Name.Local] = a.Value
		case spaceXLink, "xlink":
			if _, ok := attrs[a.Name.Local]; !ok {
				attrs[a.Name.Local] = a.Value
			}
		}
	}
	return attrs
}

// target returns the element that the element's href names, or nil.
func (d *document) target(el *element) *element {
	id, ok := strings.CutPrefix(strings.TrimSpace(el.attrs["href"]), "#")
	if !ok {
		return nil
	}
	return d.byID[id]
}
