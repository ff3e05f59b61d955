package render

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// fields are what a template may name.
var fields = []string{"source", "sourcedir", "output", "outputdir", "job", "slot", "slots", "pool", "fence"}

// A template is text with fields in braces; a doubled brace stands for itself.
type template []part

// A part is literal text, or a field.
type part struct {
	text  string
	field bool
}

// parseTemplate refuses a field that does not exist, by its name.
func parseTemplate(text string) (template, error) {
	var t template
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			return append(t, part{text: rest}), nil
		}
		t = append(t, part{text: rest[:i]})
		if strings.HasPrefix(rest[i+1:], rest[i:i+1]) {
			t = append(t, part{text: rest[i : i+1]})
			rest = rest[i+2:]
			continue
		}
		name, after, ok := strings.Cut(rest[i+1:], "}")
		if rest[i] == '}' || !ok {
			return nil, fmt.Errorf("%q: a brace without its partner; write {{ or }} for one that stands for itself", text)
		}
		if !slices.Contains(fields, name) {
			return nil, fmt.Errorf("%q: unknown field {%s}; there are {%s}", text, name, strings.Join(fields, "} {"))
		}
		t = append(t, part{name, true})
		rest = after
	}
	return t, nil
}

// fill returns the text for a work.
func (t template) fill(w Work) (string, error) {
	var b strings.Builder
	for _, p := range t {
		text := p.text
		if p.field {
			var err error
			if text, err = w.field(p.text); err != nil {
				return "", err
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// field returns the value of a template's field.
func (w Work) field(name string) (string, error) {
	switch name {
	case "source":
		return w.Source, nil
	case "sourcedir":
		return filepath.Dir(w.Source), nil
	case "output":
		return w.Output, nil
	case "outputdir":
		return filepath.Dir(w.Output), nil
	case "job":
		return w.Job.JobID, nil
	case "slots":
		return names(w.Slots), nil
	case "fence":
		if !w.Whole() {
			return "", lease.Errorf(lease.CodeRequestInvalid, "cannot fill {fence}: %s is shared, and fences are not to be compared there", names(w.Slots))
		}
		return strconv.FormatUint(uint64(w.Fence), 10), nil
	}
	if len(w.Slots) != 1 {
		return "", lease.Errorf(lease.CodeRequestInvalid, "cannot fill {%s}: the lease holds %d slots; use {slots}", name, len(w.Slots))
	}
	if name == "pool" {
		return w.Slots[0].Pool, nil
	}
	return w.Slots[0].ID, nil
}

// environment returns what a command sees of its lease: BERTH_SLOT,
// BERTH_POOL, BERTH_SLOTS, BERTH_FENCE (of whole slots only), the labels as
// BERTH_LABEL_NAME, and CUDA_VISIBLE_DEVICES where labels name a device.
func (w Work) environment() []string {
	env := []string{"BERTH_SLOTS=" + names(w.Slots), "BERTH_JOB=" + w.Job.JobID}
	if w.Whole() {
		env = append(env, fmt.Sprintf("BERTH_FENCE=%d", w.Fence))
	}
	var devices []string
	for _, s := range w.Slots {
		if device := s.Labels["device"]; device != "" {
			devices = append(devices, device)
		}
	}
	if len(devices) > 0 {
		env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(devices, ","))
	}
	if len(w.Slots) != 1 {
		return env
	}
	env = append(env, "BERTH_SLOT="+w.Slots[0].ID, "BERTH_POOL="+w.Slots[0].Pool)
	for name, value := range w.Slots[0].Labels {
		env = append(env, "BERTH_LABEL_"+variable(name)+"="+value)
	}
	return env
}

// variable returns the name in the letters that environments allow.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}
