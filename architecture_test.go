package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-dev/berth"

// arrows says which of our packages each package may import. A name that
// ends in /... stands for all below it.
var arrows = map[string]string{
	"":                            "",
	"lease":                       "",
	"lease/machine":               "lease",
	"lease/attempt":               "lease policy",
	"store":                       "lease",
	"store/record":                "lease",
	"store/pebble":                "store lease",
	"store/storetest":             "store lease",
	"broker":                      "lease lease/machine store store/record scope inflight",
	"guard":                       "",
	"scope":                       "guard",
	"guard/guardtest":             "guard",
	"scope/scopetest":             "scope",
	"inflight":                    "guard",
	"inflight/inflighttest":       "inflight",
	"policy":                      "lease",
	"api":                         "api/berth/v1 lease policy",
	"api/berth/v1":                "",
	"api/berth/v1/berthv1connect": "api/berth/v1",
	"server":                      "api/... api lease broker policy scope inflight web",
	"client":                      "api/... api lease lease/attempt policy scope inflight",
	"hold":                        "lease lease/attempt policy guard scope",
	"render":                      "lease hold policy guard scope inflight resource/... internal/proc",
	"internal/proc":               "scope",
	"internal/pools":              "lease",
	"internal/daemon":             "lease broker server store store/... agent client internal/pools policy guard scope inflight",
	"internal/cli":                "lease client hold render internal/run internal/daemon internal/pools policy api scope",
	"cmd/berth":                   "internal/cli",
	"internal/simulate":           "lease lease/machine lease/attempt store store/record broker hold",
	"internal/simulate/cmd":       "internal/simulate",
	"rules":                       "",
}

// outside says why each package of another module is imported, and where it
// may be.
var outside = map[string]string{
	"github.com/tidwall/btree":          "lease/machine: ordered sets of slots and waiters",
	"github.com/cockroachdb/pebble/v2":  "store/pebble: the embedded store",
	"github.com/goccy/go-yaml":          "internal/pools: the pools file, with line and field in errors",
	"github.com/spf13/cobra":            "internal/cli: commands, help and completions",
	"golang.org/x/sys":                  "hold internal/proc store/pebble: clocks, process groups, free space",
	"golang.org/x/term":                 "internal/cli: live lines on a terminal only",
	"connectrpc.com/connect":            "api api/berth/v1/berthv1connect server client: Connect, gRPC and JSON on the same paths",
	"google.golang.org/protobuf":        "api api/berth/v1 server: the messages of the wire, and their JSON",
	"github.com/fyne-io/oksvg":          "render: SVG scenes",
	"github.com/srwiley/rasterx":        "render: the strokes of SVG scenes",
	"github.com/golang/freetype":        "render: the rasterizer under them",
	"golang.org/x/image":                "render: the numbers that both speak in",
	"github.com/cockroachdb/datadriven": "tests only: scenario files",
}

type source struct {
	dir  string
	path string
	file *ast.File
	fset *token.FileSet
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		dir := path.Dir(filepath.ToSlash(p))
		if dir == "." {
			dir = ""
		}
		all = append(all, source{dir, p, f, fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		allowed, listed := arrows[s.dir]
		if !listed {
			t.Errorf("%s: package %s is not in the table of arrows", s.path, s.dir)
			continue
		}
		if s.isTest() {
			continue
		}
		for _, p := range s.imports() {
			if to, ours := strings.CutPrefix(p, module+"/"); ours && !covers(allowed, to) {
				t.Errorf("%s: %s may not import %s", s.path, s.dir, to)
			}
		}
	}
}

func covers(allowed, to string) bool {
	return slices.ContainsFunc(strings.Fields(allowed), func(a string) bool {
		prefix, all := strings.CutSuffix(a, "...")
		return a == to || all && strings.HasPrefix(to, prefix)
	})
}

func TestOutsidePackagesHaveAReason(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, p := range s.imports() {
			if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") || p == module || strings.HasPrefix(p, module+"/") {
				continue
			}
			if !reasoned(p, s.dir) {
				t.Errorf("%s: nothing says why %s imports %s", s.path, s.dir, p)
			}
		}
	}
}

func reasoned(imported, dir string) bool {
	for mod, reason := range outside {
		where, _, _ := strings.Cut(reason, ":")
		if (imported == mod || strings.HasPrefix(imported, mod+"/")) && slices.Contains(strings.Fields(where), dir) {
			return true
		}
	}
	return false
}

func TestPackageComments(t *testing.T) {
	commented, seen := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		seen[s.dir] = true
		if s.file.Doc != nil && len(s.file.Doc.Text()) > 40 {
			commented[s.dir] = true
		}
	}
	for dir := range seen {
		if !commented[dir] {
			t.Errorf("package %q has no comment", dir)
		}
	}
}

func TestHabits(t *testing.T) {
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		s.forbid(t, string(text))
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: has an init function", s.path)
			}
		}
	}
}

func (s source) forbid(t *testing.T, text string) {
	t.Helper()
	if s.dir == "" {
		return // this file names what it forbids
	}
	for _, word := range []string{"//no" + "lint", "TO" + "DO", "FIX" + "ME", "t.Skip("} {
		if strings.Contains(text, word) {
			t.Errorf("%s: contains %s", s.path, word)
		}
	}
	if s.isTest() && strings.Contains(text, "time.Sleep(") && !strings.Contains(text, `"testing/synctest"`) {
		t.Errorf("%s: sleeps outside a bubble", s.path)
	}
}

// numbers finds K13, BR-002 and the like in names of tests and scenario files.
var numbers = regexp.MustCompile(`(?m)(?:func Test|^)(K|BR|I|k|br|i)0*([0-9]+)(?:_|\()`)

func TestNumbersAreExplained(t *testing.T) {
	table, err := os.ReadFile("docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range numbersInUse(t) {
		if !strings.Contains(string(table), "| "+number+" |") {
			t.Errorf("docs/scenarios.md does not say what %s stands for", number)
		}
	}
}

func numbersInUse(t *testing.T) []string {
	t.Helper()
	var used []string
	add := func(text string) {
		for _, m := range numbers.FindAllStringSubmatch(text, -1) {
			kind, n := strings.ToUpper(m[1]), m[2]
			if kind == "BR" {
				n = "-" + strings.Repeat("0", max(0, 3-len(n))) + n
			}
			used = append(used, kind+n)
		}
	}
	for _, s := range sources(t) {
		if text, err := os.ReadFile(s.path); err == nil && s.isTest() {
			add(string(text))
		}
	}
	files, err := filepath.Glob("lease/machine/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenario files", err)
	}
	for _, f := range files {
		add(filepath.Base(f))
	}
	return used
}
