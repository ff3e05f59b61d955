package pools

import (
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/berth-dev/berth/lease"
)

// longest is how large a file may be: room for some 100,000 slots.
const longest = 16 << 20

// Read reads the pools file at path. Every error has the code pools_invalid.
func Read(path string) ([]lease.PoolSpec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, lease.Errorf(lease.CodePoolsInvalid, "cannot read the pools file: %w", err)
	}
	return Parse(path, text)
}

// Parse reads the text of a pools file; file is its name, for errors. The
// pools come in the file's order, with their defaults filled in. Every error
// has the code pools_invalid and names file, line, column and field, where it
// is about one.
func Parse(file string, text []byte) ([]lease.PoolSpec, error) {
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	var specs []lease.PoolSpec
	given := false
	err = root.fields("pools: {}", field{"pools", func(v value) error {
		given = true
		return v.each("{gpu: {}}", func(name string, v value) error {
			spec, err := pool(name, v)
			specs = append(specs, spec)
			return err
		})
	}})
	if err == nil && !given {
		err = root.bad("the key pools is missing; write pools: {} for no pools")
	}
	if err != nil {
		return nil, err
	}
	return specs, nil
}

// parse returns the file's one document.
func parse(file string, text []byte) (value, error) {
	root := value{file: file}
	if len(text) > longest {
		return root, root.bad("it has %d bytes; give at most %d", len(text), longest)
	}
	// Keys that stand twice are found later, where their path is known.
	f, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return root, syntax(root, err)
	}
	for _, doc := range f.Docs {
		switch {
		case doc.Body == nil:
		case root.node != nil || doc.Body.Type() == ast.DirectiveType:
			root.at = position(doc.Body)
			return root, root.bad("directives and further documents are not supported; write one plain document")
		default:
			root.node = doc.Body
		}
	}
	if root.node == nil {
		return root, root.bad("it is empty; write pools: {} for no pools")
	}
	root.at = position(root.node)
	return root, nil
}

func syntax(v value, err error) error {
	why := err.Error()
	if e, ok := err.(yaml.Error); ok {
		why = e.GetMessage()
		if t := e.GetToken(); t != nil {
			v.at = t.Position
		}
	}
	return v.bad("it is no YAML: %s", why)
}

// A draft is a pool as far as it is read. places are where its settings stand,
// by the names that [lease.Settings.Checked] gives them.
type draft struct {
	lease.Settings
	places map[string]value
}

func pool(name string, v value) (lease.PoolSpec, error) {
	spec := lease.PoolSpec{Name: name}
	if !lease.ValidName(name) {
		return spec, v.bad("the name must match [A-Za-z0-9_.:-]{1,128}")
	}
	d := draft{places: map[string]value{}}
	err := v.fields("{slots: [{id: a}]}, or {} for one with defaults and no slots here",
		d.duration("ttl", "ttl", &d.TTL),
		d.duration("max_ttl", "max_ttl", &d.MaxTTL),
		d.duration("max_hold", "max_hold", &d.MaxHold),
		field{"stall", d.stall},
		field{"handover", d.handover},
		field{"clean", d.clean},
		field{"slots", func(v value) (err error) {
			spec.Slots, err = slots(v)
			return err
		}},
	)
	if err != nil {
		return spec, err
	}
	spec.Settings, err = d.checked(v)
	return spec, err
}

// duration reads a duration above 0 under a key; name is what checks call it.
func (d *draft) duration(key, name string, to *time.Duration) field {
	return field{key, func(v value) (err error) {
		d.places[name] = v
		*to, err = v.duration()
		if err == nil && *to <= 0 {
			err = v.bad("%v is out of range; give a duration above 0, or leave the key out for the default", *to)
		}
		return err
	}}
}

func (d *draft) stall(v value) error {
	err := v.fields("{after: 10m, revoke: true}",
		d.duration("after", "stall.after", &d.StallAfter),
		field{"revoke", func(v value) (err error) {
			d.StallRevokes, err = v.bool()
			return err
		}},
	)
	if err == nil && d.StallAfter == 0 {
		err = v.bad("the key after is missing; say how long a holder may report no progress")
	}
	return err
}

func (d *draft) handover(v value) error {
	d.places["handover"] = v
	return v.fields("{after: 15s}",
		field{"after", d.after},
		field{"proof", d.proof},
		d.duration("max", "handover.max", &d.Handover.Max),
	)
}

func (d *draft) after(v value) error {
	d.places["handover.after"] = v
	after, err := v.duration()
	switch {
	case err != nil:
		return err
	case after < 0:
		return v.bad("%v is out of range; give 0s for no wait, or more", after)
	case after == 0:
		after = lease.AtOnce
	}
	d.Handover.After = after
	return nil
}

func (d *draft) proof(v value) error {
	err := v.items("[tree, boot]", func(v value) error {
		name, err := v.text()
		if err != nil {
			return err
		}
		p, ok := lease.ParseProof(name)
		switch {
		case !ok:
			return v.unknown("proof", name, (lease.ProofTree | lease.ProofBoot | lease.ProofCleaned).Names())
		case d.Handover.Proofs&p != 0:
			return v.bad("proof %s is there twice; drop one", name)
		}
		d.Handover.Proofs |= p
		return nil
	})
	if err == nil && d.Handover.Proofs == 0 {
		err = v.bad("the list is empty; name at least one proof, or give after instead")
	}
	return err
}

func (d *draft) clean(v value) error {
	d.places["clean"] = v
	err := v.items("[reset, --all]", func(v value) error {
		word, err := v.text()
		d.Clean = append(d.Clean, word)
		return err
	})
	if err == nil && len(d.Clean) == 0 {
		err = v.bad("the list is empty; give the command and its arguments, or leave the key out")
	}
	return err
}

// checked returns the settings with defaults. An error of a setting is moved
// to where the setting stands.
func (d *draft) checked(v value) (*lease.Settings, error) {
	s, err := d.Checked()
	if err != nil {
		name, why, _ := strings.Cut(err.Error(), ": ")
		if at, ok := d.places[name]; ok {
			return nil, at.bad("%s", why)
		}
		return nil, v.bad("%v", err)
	}
	if at, ok := d.places["handover.max"]; ok && s.Handover.Proofs == 0 && len(s.Clean) == 0 {
		return nil, at.bad("it counts only where units wait for a proof or a cleaner; leave it out, or give proof")
	}
	return &s, nil
}

func slots(v value) ([]lease.SlotSpec, error) {
	var specs []lease.SlotSpec
	lines := map[string]int{}
	err := v.items("[{id: a}, {id: b}]", func(v value) error {
		spec, err := slot(v)
		if err != nil {
			return err
		}
		if line, ok := lines[spec.ID]; ok {
			return v.bad("slot %s stands in line %d already; drop one, or give it another id", spec.ID, line)
		}
		lines[spec.ID] = v.at.Line
		specs = append(specs, spec)
		return nil
	})
	return specs, err
}

func slot(v value) (spec lease.SlotSpec, err error) {
	err = v.fields("{id: a}",
		field{"id", func(v value) (err error) {
			spec.ID, err = v.text()
			if err == nil && !lease.ValidName(spec.ID) {
				err = v.bad("%q must match [A-Za-z0-9_.:-]{1,128}", clip(spec.ID))
			}
			return err
		}},
		field{"units", func(v value) (err error) {
			spec.Capacity, err = v.integer(1, lease.MaxUnits)
			return err
		}},
		field{"labels", func(v value) (err error) {
			spec.Labels, err = labels(v)
			return err
		}},
	)
	if err == nil && spec.ID == "" {
		err = v.bad("the key id is missing; give each slot an id")
	}
	return spec, err
}

func labels(v value) (map[string]string, error) {
	labels := map[string]string{}
	err := v.each("{model: a}", func(name string, v value) error {
		if !lease.ValidName(name) {
			return v.bad("the name must match [A-Za-z0-9_.:-]{1,128}")
		}
		text, err := v.text()
		if err == nil && len(text) > lease.MaxLabel {
			err = v.bad("the value has %d bytes; give at most %d", len(text), lease.MaxLabel)
		}
		labels[name] = text
		return err
	})
	return labels, err
}
