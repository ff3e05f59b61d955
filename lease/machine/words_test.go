package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
)

// words is one line of a scenario: a verb, what it is about, and key=value
// options. Brackets hold what belongs to the word before them.
type words struct {
	verb    string
	about   []string
	options map[string]string
}

func split(line string) (*words, error) {
	w := &words{options: map[string]string{}}
	for _, word := range fields(line, " ") {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case w.verb == "":
			w.verb = word
		case ok && !strings.Contains(key, "("):
			w.options[key] = value
		default:
			w.about = append(w.about, word)
		}
	}
	if w.verb == "" {
		return nil, fmt.Errorf("no verb")
	}
	return w, nil
}

// fields splits at separators outside of brackets.
func fields(s, separators string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth == 0 && strings.ContainsRune(separators, r)
	})
}

// next takes the next word.
func (w *words) next() string {
	if len(w.about) == 0 {
		return ""
	}
	word := w.about[0]
	w.about = w.about[1:]
	return word
}

// flag takes a word that stands alone.
func (w *words) flag(name string) bool {
	i := slices.Index(w.about, name)
	if i >= 0 {
		w.about = slices.Delete(w.about, i, i+1)
	}
	return i >= 0
}

// text takes an option.
func (w *words) text(key string) string {
	v := w.options[key]
	delete(w.options, key)
	return v
}

func (w *words) duration(key string) (time.Duration, error) { return duration(w.text(key)) }

func (w *words) number(key string) (int64, error) { return number(w.text(key)) }

// unused refuses words that no verb took.
func (w *words) unused() error {
	if len(w.about) > 0 || len(w.options) > 0 {
		return fmt.Errorf("not understood: %v %v", w.about, w.options)
	}
	return nil
}

func duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return time.ParseDuration(s)
}

func number(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// bracket splits "name(a, b)" into its name and what the brackets hold.
func bracket(word string) (name string, inside []string) {
	name, rest, ok := strings.Cut(word, "(")
	if !ok {
		return name, nil
	}
	for _, part := range strings.Split(strings.TrimSuffix(rest, ")"), ",") {
		inside = append(inside, strings.TrimSpace(part))
	}
	return name, inside
}

// counted reads "3 slots" or "1 slot", "5 units" or "1 unit".
func counted(s, what string) (int64, bool) {
	n, word, ok := strings.Cut(s, " ")
	if !ok || strings.TrimSuffix(word, "s") != what {
		return 0, false
	}
	v, err := strconv.ParseInt(n, 10, 64)
	return v, err == nil
}

// parseClaims reads claims like g, g(2 slots, model=a), seats(5 units), with a
// plus between them.
func parseClaims(words []string) ([]lease.Claim, error) {
	var claims []lease.Claim
	for _, word := range words {
		if word == "+" {
			continue
		}
		pool, inside := bracket(word)
		c := lease.Claim{Pool: pool}
		for _, in := range inside {
			if n, ok := counted(in, "slot"); ok {
				c.Count = int(n)
			} else if n, ok := counted(in, "unit"); ok {
				c.Units = n
			} else if err := setLabel(&c.Select, in); err != nil {
				return nil, err
			}
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func setLabel(labels *map[string]string, in string) error {
	k, v, ok := strings.Cut(in, "=")
	if !ok {
		return fmt.Errorf("%q is no label", in)
	}
	if *labels == nil {
		*labels = map[string]string{}
	}
	(*labels)[k] = v
	return nil
}

// parsePools reads "g(ttl=30s): a b(model=x) c(20 units); +h: d". The plus
// adds slots to a pool that another source declares.
func parsePools(words []string) ([]lease.PoolSpec, error) {
	var pools []lease.PoolSpec
	for _, word := range words {
		word = strings.TrimSuffix(word, ";")
		if name, ok := strings.CutSuffix(word, ":"); ok {
			p, err := parsePool(name)
			if err != nil {
				return nil, err
			}
			pools = append(pools, p)
			continue
		}
		if len(pools) == 0 {
			return nil, fmt.Errorf("slot %q before any pool", word)
		}
		slots, err := parseSlots(word)
		if err != nil {
			return nil, err
		}
		p := &pools[len(pools)-1]
		p.Slots = append(p.Slots, slots...)
	}
	return pools, nil
}

func parsePool(word string) (lease.PoolSpec, error) {
	if name, ok := strings.CutPrefix(word, "+"); ok {
		return lease.PoolSpec{Name: name}, nil
	}
	name, inside := bracket(word)
	s := &lease.Settings{}
	for _, in := range inside {
		if err := parseSetting(s, in); err != nil {
			return lease.PoolSpec{}, err
		}
	}
	return lease.PoolSpec{Name: name, Settings: s}, nil
}

func parseSetting(s *lease.Settings, in string) (err error) {
	key, value, _ := strings.Cut(in, "=")
	times := map[string]*time.Duration{
		"ttl": &s.TTL, "max_ttl": &s.MaxTTL, "max_hold": &s.MaxHold, "stall_after": &s.StallAfter,
		"after": &s.Handover.After, "max": &s.Handover.Max,
	}
	switch at := times[key]; {
	case at != nil:
		*at, err = duration(value)
		if key == "after" && *at == 0 {
			*at = lease.AtOnce
		}
	case key == "clean":
		s.Clean = []string{"clean"}
	case key == "stall_revokes":
		s.StallRevokes = true
	case key == "proof":
		return parseProofs(s, value)
	default:
		return fmt.Errorf("there is no setting %q", key)
	}
	return err
}

func parseProofs(s *lease.Settings, list string) error {
	for _, name := range strings.Split(list, "+") {
		proof, ok := lease.ParseProof(name)
		if !ok {
			return fmt.Errorf("there is no proof %q", name)
		}
		s.Handover.Proofs |= proof
	}
	return nil
}

// parseSlots reads "a", "a(20 units, model=x)" or "s[01-64]", which is 64.
func parseSlots(word string) ([]lease.SlotSpec, error) {
	name, inside := bracket(word)
	spec := lease.SlotSpec{}
	for _, in := range inside {
		if n, ok := counted(in, "unit"); ok {
			spec.Capacity = n
		} else if err := setLabel(&spec.Labels, in); err != nil {
			return nil, err
		}
	}
	var specs []lease.SlotSpec
	for _, id := range spread(name) {
		spec.ID = id
		specs = append(specs, spec)
	}
	return specs, nil
}

func spread(name string) []string {
	before, rest, ok := strings.Cut(name, "[")
	from, to, dash := strings.Cut(strings.TrimSuffix(rest, "]"), "-")
	if !ok || !dash {
		return []string{name}
	}
	first, _ := strconv.Atoi(from)
	last, _ := strconv.Atoi(to)
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf("%s%0*d", before, len(from), i))
	}
	return names
}
