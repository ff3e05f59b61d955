package simulate

import (
	"io"
	"strings"
)

// Shrink leaves out the decisions that a breach does not need, and returns
// the smallest history found that breaks the same rule, with its breach. It
// runs the history many times, at most tries.
func Shrink(cfg Config, b *Breach, tries int) (Config, *Breach) {
	cfg.Ops, cfg.Until, cfg.Steps = b.Ops, b.Until, 1<<40
	cfg.Trace = nil
	s := shrinker{cfg: cfg, breach: b, tries: tries, drop: map[int]bool{}}
	for n := range cfg.Drop {
		s.drop[n] = true
	}
	for size := max(1, b.Ops/2); ; size = max(1, size/2) {
		left := s.round(size)
		if s.tries <= 0 || size == 1 && !left {
			break
		}
	}
	cfg.Drop, cfg.Ops = s.drop, s.breach.Ops
	return cfg, s.breach
}

type shrinker struct {
	cfg    Config
	breach *Breach
	drop   map[int]bool
	tries  int
}

// round tries to leave out each run of decisions of that size, the last
// first, and reports whether any could be.
func (s *shrinker) round(size int) bool {
	var kept []int
	for n := range s.breach.Ops {
		if !s.drop[n] {
			kept = append(kept, n)
		}
	}
	any := false
	for end := len(kept); end > 0 && s.tries > 0; end -= size {
		if s.without(kept[max(0, end-size):end]) {
			any = true
		}
	}
	return any
}

func (s *shrinker) without(ops []int) bool {
	s.tries--
	drop := map[int]bool{}
	for n := range s.drop {
		drop[n] = true
	}
	for _, n := range ops {
		drop[n] = true
	}
	cfg := s.cfg
	cfg.Drop = drop
	got := Run(cfg).Breach
	if got == nil || got.Rule != s.breach.Rule {
		return false
	}
	s.drop, s.breach = drop, got
	if got.Ops < s.cfg.Ops {
		s.cfg.Ops = got.Ops
	}
	s.cfg.Until = min(s.cfg.Until, got.Until)
	return true
}

// Tell writes the last lines of a history, up to its breach.
func Tell(out io.Writer, cfg Config, lines int) {
	t := tail{max: lines}
	cfg.Trace = &t
	Run(cfg)
	io.WriteString(out, strings.Join(t.lines, ""))
}

// A tail keeps the last lines written to it.
type tail struct {
	lines []string
	max   int
}

func (t *tail) Write(line []byte) (int, error) {
	t.lines = append(t.lines, string(line))
	if len(t.lines) > 2*t.max {
		t.lines = append(t.lines[:0], t.lines[len(t.lines)-t.max:]...)
	}
	return len(line), nil
}
