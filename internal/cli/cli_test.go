package cli

import (
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary poses as the tool, also to itself: the demo's stand-ins are
// the program that runs it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": func() { os.Exit(Main()) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"summary": checkSummary,
			"picture": checkPicture,
		},
	})
}

// checkSummary demands of a summary in JSON that every slot came back, and of
// its numbers that they are as given: summary FILE [name=number …].
func checkSummary(ts *testscript.TestScript, neg bool, args []string) {
	var got map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &got))
	n := func(name string) float64 {
		v, ok := got[name].(float64)
		if !ok {
			ts.Fatalf("the summary has no number %s", name)
		}
		return v
	}
	if n("acquired") != n("released")+n("orphaned")+n("revoked")+n("held") {
		ts.Fatalf("leases are not accounted for: %v", got)
	}
	for _, none := range []string{"held", "queued", "quarantined", "stuck"} {
		if n(none) != 0 {
			ts.Fatalf("%s is %v", none, got[none])
		}
	}
	if n("free") != n("slots") || n("slots") == 0 {
		ts.Fatalf("%v of %v slots are free", got["free"], got["slots"])
	}
	for _, want := range args[1:] {
		checkNumber(ts, got, want)
	}
}

func checkNumber(ts *testscript.TestScript, got map[string]any, want string) {
	var name string
	var number float64
	for i := range want {
		if want[i] == '=' {
			name = want[:i]
			ts.Check(json.Unmarshal([]byte(want[i+1:]), &number))
		}
	}
	v, ok := got[name]
	if !ok {
		failures, _ := got["failures"].(map[string]any)
		v = failures[name]
	}
	if v != number {
		ts.Fatalf("%s is %v, not %v", name, v, number)
	}
}

// checkPicture demands a whole PNG of the size: picture FILE WIDTHxHEIGHT.
func checkPicture(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	img, err := png.Decode(f)
	ts.Check(err)
	if got := img.Bounds().Size().String(); got != args[1] {
		ts.Fatalf("%s is %s, not %s", filepath.Base(args[0]), got, args[1])
	}
}

func TestInterruptGivesEverythingBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := t.TempDir()
	var said writer
	said.on = func(text string) { cancel() } // at the first word
	code := Run(ctx, Streams{In: os.Stdin, Out: &said, Err: &said}, []string{"demo", "--out", out})
	if code != 123 {
		t.Errorf("exit code %d", code)
	}
	left, err := filepath.Glob(filepath.Join(out, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}

// A writer calls on with what is written to it.
type writer struct{ on func(string) }

func (w *writer) Write(b []byte) (int, error) {
	w.on(string(b))
	return len(b), nil
}
