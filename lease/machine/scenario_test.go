package machine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine says into the scenario files; look at the diff")

// TestScenarios plays every file of testdata. A file is a story: comments,
// one command a line, and under it, indented, what the machine answers (a
// name and a colon) and tells (a star). A test goes by its file's name.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(testName(file), func(t *testing.T) { playFile(t, file) })
	}
}

// testName makes k01_dead_on_arrival.txt the test K01_dead_on_arrival.
func testName(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".txt")
	number, rest, _ := strings.Cut(name, "_")
	if strings.ContainsAny(number, "0123456789") {
		number = strings.ToUpper(number)
	}
	return number + "_" + rest
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# ") {
		t.Errorf("%s: a scenario begins with a comment that tells its story and its rule", file)
	}
	got := playText(t, file, string(text))
	switch {
	case got == string(text):
	case *rewrite:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: %s\nrun with -rewrite to accept what it does now", file, firstDifference(string(text), got))
	}
}

// playText plays the commands and returns the text with what really happened.
func playText(t *testing.T, file, text string) string {
	var out strings.Builder
	var s *scene
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "    "):
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
			continue
		}
		out.WriteString(line + "\n")
		if s == nil {
			s = newScene(t)
		}
		s.out = &out
		if err := s.play(line); err != nil {
			t.Fatalf("%s:%d: %s: %v", file, i+1, line, err)
		}
	}
	return out.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if lineAt(w, i) != lineAt(g, i) {
			return fmt.Sprintf("line %d is\n%s\nbut the machine says\n%s", i+1, lineAt(w, i), lineAt(g, i))
		}
	}
	return ""
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// A scene is a world under the names that a scenario gives things.
type scene struct {
	*world
	out *strings.Builder
	// start is broker time when the scene began.
	start time.Duration
	calls uint64
	// callers and requests are what open calls and names stand for.
	callNames map[uint64]string
	callOf    map[string]uint64
	requests  map[string]*wish
	names     map[lease.LeaseID]string
	sessions  map[string]bool
	starts    uint64
	texts     bool
	store     storage
	saved     snapshot
}

// A wish is a request as a scenario knows it.
type wish struct {
	name   string
	caller lease.Caller
	again  Acquire
	lease  lease.LeaseID
}

func newScene(t testing.TB) *scene {
	s := &scene{
		callNames: map[uint64]string{}, callOf: map[string]uint64{}, requests: map[string]*wish{},
		names: map[lease.LeaseID]string{}, sessions: map[string]bool{},
	}
	s.world = newWorld(t, Config{})
	s.start = s.now
	s.begin(Restart{})
	return s
}

// begin starts a process; fences of start n are above n times 100.
func (s *scene) begin(cmd Restart) said {
	s.starts++
	if cmd.Fence == 0 {
		cmd.Fence = s.starts * 100
	}
	return s.restart(cmd)
}

// play runs one line.
func (s *scene) play(line string) error {
	w, err := split(line)
	if err != nil {
		return err
	}
	verb, ok := verbs[w.verb]
	if !ok {
		return fmt.Errorf("there is no verb %q", w.verb)
	}
	if err := verb(s, w); err != nil {
		return err
	}
	return w.unused()
}

// run runs a command and prints what came of it.
func (s *scene) run(cmd Command) {
	d := s.store.through(s.do(cmd))
	s.learn(d)
	s.print(d, "")
}

// newCall numbers a call and names it for the output.
func (s *scene) newCall(name string) uint64 {
	s.calls++
	s.callNames[s.calls], s.callOf[name] = name, s.calls
	return s.calls
}

// at is a moment of the scene, from 0.
func (s *scene) at(t time.Duration) time.Duration { return t - s.start }

var verbs = map[string]func(*scene, *words) error{
	"config": (*scene).setConfig, "texts": (*scene).showTexts,
	"apply": (*scene).apply, "drain": (*scene).drain, "undrain": (*scene).undrain, "health": (*scene).health,
	"acquire": (*scene).acquire, "again": (*scene).again, "cancel": (*scene).cancel,
	"arrive": (*scene).arrive, "leave": (*scene).leave,
	"renew": (*scene).renew, "release": (*scene).release, "abandon": (*scene).abandon, "progress": (*scene).progress,
	"revoke": (*scene).revoke, "clear": (*scene).clear, "prove": (*scene).prove, "clean": (*scene).clean,
	"advance": (*scene).pass, "delay": (*scene).delay, "tick": (*scene).tick,
	"restart": (*scene).startAgain, "backup": (*scene).backup, "restore": (*scene).restore,
	"commits": (*scene).commits, "crash": (*scene).crash,
	"show": (*scene).show,
}
