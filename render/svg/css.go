package svg

import (
	"regexp"
	"strings"
)

// A rule is one CSS rule with one simple selector; empty parts match anything.
type rule struct {
	tag, id, class string
	props          map[string]string
}

var (
	commentPattern  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	selectorPattern = regexp.MustCompile(`^(\*|[A-Za-z][\w-]*)?(?:#([\w-]+))?(?:\.([\w-]+))?$`)
)

// parseCSS returns the rules with simple selectors, the later ones last. It
// skips what it cannot read, as CSS demands.
func parseCSS(text string) []rule {
	var rules []rule
	for block := range strings.SplitSeq(commentPattern.ReplaceAllString(text, ""), "}") {
		selectors, body, ok := strings.Cut(block, "{")
		if !ok {
			continue
		}
		props := declarations(body)
		for selector := range strings.SplitSeq(selectors, ",") {
			m := selectorPattern.FindStringSubmatch(strings.TrimSpace(selector))
			if m == nil || m[0] == "" {
				continue
			}
			rules = append(rules, rule{tag: strings.TrimPrefix(m[1], "*"), id: m[2], class: m[3], props: props})
		}
	}
	return rules
}

// declarations reads "name: value; …".
func declarations(text string) map[string]string {
	props := map[string]string{}
	for declaration := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(declaration, ":")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, "!")
		props[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return props
}

func (r rule) matches(el *element) bool {
	if r.tag != "" && r.tag != el.name || r.id != "" && r.id != el.attrs["id"] {
		return false
	}
	if r.class == "" {
		return true
	}
	for class := range strings.FieldsSeq(el.attrs["class"]) {
		if class == r.class {
			return true
		}
	}
	return false
}

// properties returns what looks up the element's own properties: in its style
// attribute, else in the last rule that matches, else in its
// attributes.
func (d *document) properties(el *element) func(name string) (string, bool) {
	own := declarations(el.attrs["style"])
	var matching []rule
	for _, r := range d.rules {
		if r.matches(el) {
			matching = append(matching, r)
		}
	}
	return func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		for i := len(matching) - 1; i >= 0; i-- {
			if v, ok := matching[i].props[name]; ok {
				return v, true
			}
		}
		v, ok := el.attrs[name]
		return strings.TrimSpace(v), ok
	}
}
