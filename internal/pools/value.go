package pools

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/berth-dev/berth/lease"
)

// A value is a node of the file, with where it stands and the path to it.
type value struct {
	file string
	path string
	at   *token.Position
	node ast.Node
}

// A field is a key that a mapping may have, and what reads its value.
type field struct {
	name string
	read func(value) error
}

// bad returns an error about the value: what is wrong, then what to write.
func (v value) bad(format string, args ...any) error {
	where := v.file
	if v.at != nil {
		where += fmt.Sprintf(":%d:%d", v.at.Line, v.at.Column)
	}
	if v.path != "" {
		where += ": " + v.path
	}
	return lease.Errorf(lease.CodePoolsInvalid, "cannot use the pools file: %s: %s", where, fmt.Sprintf(format, args...))
}

// wrong returns an error about a value of the wrong type.
func (v value) wrong(give string) error {
	what := "this"
	switch v.node.(type) {
	case *ast.NullNode:
		what = "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		what = "a mapping"
	case *ast.SequenceNode:
		what = "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return v.bad("anchors, aliases and tags are not supported; write the value out")
	default:
		if text, ok := scalar(v.node); ok {
			what = strconv.Quote(clip(text))
		}
	}
	return v.bad("%s is given; give %s", what, give)
}

// unknown returns an error about a name that is none of known.
func (v value) unknown(what, name string, known []string) error {
	if near := nearest(name, known); near != "" {
		return v.bad("there is no %s %q; did you mean %s?", what, clip(name), near)
	}
	return v.bad("there is no %s %q; give %s", what, clip(name), strings.Join(known, ", "))
}

// each calls read for every pair of a mapping; like shows one in errors.
func (v value) each(like string, read func(name string, v value) error) error {
	var pairs []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = append(pairs, n)
	default:
		return v.wrong("a mapping, as in " + like)
	}
	lines := map[string]int{}
	for _, pair := range pairs {
		at := pair.Key.GetToken().Position
		name, ok := scalar(pair.Key)
		if !ok {
			return value{v.file, v.path, at, pair.Key}.bad("a key must be a plain word")
		}
		item := value{v.file, join(v.path, name), at, pair.Value}
		if line, ok := lines[name]; ok {
			return item.bad("it stands in line %d already; drop one", line)
		}
		lines[name] = at.Line
		if err := read(name, item); err != nil {
			return err
		}
	}
	return nil
}

// fields reads a mapping that has only these keys.
func (v value) fields(like string, fields ...field) error {
	return v.each(like, func(name string, item value) error {
		var known []string
		for _, f := range fields {
			if f.name == name {
				return f.read(item)
			}
			known = append(known, f.name)
		}
		return item.unknown("key", name, known)
	})
}

// items calls read for every item of a list; like shows one in errors.
func (v value) items(like string, read func(value) error) error {
	n, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return v.wrong("a list, as in " + like)
	}
	for i, item := range n.Values {
		if err := read(value{v.file, v.path + "[" + strconv.Itoa(i) + "]", position(item), item}); err != nil {
			return err
		}
	}
	return nil
}

// position is where a node begins: for a mapping without braces at its first
// key.
func position(node ast.Node) *token.Position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	return node.GetToken().Position
}

// text reads a scalar as it is written, quotes aside: an id of digits is text.
func (v value) text() (string, error) {
	text, ok := scalar(v.node)
	if !ok {
		return "", v.wrong(`a text; "" is the empty one`)
	}
	return text, nil
}

func (v value) duration() (time.Duration, error) {
	text, ok := scalar(v.node)
	d, err := time.ParseDuration(text)
	if !ok || err != nil {
		return 0, v.wrong("a number with a unit, such as 30s, 15m or 1h30m")
	}
	return d, nil
}

func (v value) bool() (bool, error) {
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		return false, v.wrong("true or false")
	}
	return n.Value, nil
}

// integer reads a number in plain decimal.
func (v value) integer(least, most int64) (int64, error) {
	text, ok := scalar(v.node)
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || n < least || n > most || strconv.FormatInt(n, 10) != text {
		return 0, v.wrong(fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n, nil
}

// scalar returns the text of a scalar other than null.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func join(path, name string) string {
	if !lease.ValidName(name) {
		name = strconv.Quote(clip(name))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}
