// Command rules shows that the tests named after a rule hold it.
//
// Each patch in this folder removes one rule from a copy of the tracked files.
// The test that its header names must pass without the patch and fail with it;
// a patch that no longer applies, or does not build, is a failure too. It does
// not show that a rule is right, nor that all of it is tested.
//
//	go run ./rules [K01 ...]
//
// A header is two lines before the diff:
//
//	Rule: what the patch takes away
//	Test: ./package TestName/Subtest
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

// A rule is one patch and the test that must notice it.
type rule struct {
	name, says, pkg, test string
	diff                  []byte
}

func run(only []string) error {
	rules, err := read("rules", only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rules-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTracked(dir); err != nil {
		return err
	}
	failed := 0
	for _, r := range rules {
		why := r.check(dir)
		if why != "" {
			failed++
			fmt.Printf("%-24s FAIL  %s\n", r.name, why)
			continue
		}
		fmt.Printf("%-24s ok    without it %s fails: %s\n", r.name, r.test, r.says)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rules are not held by their tests", failed, len(rules))
	}
	return nil
}

// read returns the rules of a folder whose names begin with one of only, or
// all of them.
func read(dir string, only []string) ([]rule, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no patches in %s; run from the top of the repository (%v)", dir, err)
	}
	var rules []rule
	for _, file := range files {
		r := rule{name: strings.TrimSuffix(filepath.Base(file), ".patch")}
		if len(only) > 0 && !slices.ContainsFunc(only, func(p string) bool { return strings.HasPrefix(r.name, p) }) {
			continue
		}
		if err := r.parse(file); err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (r *rule) parse(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Rule":
			r.says = value
		case "Test":
			r.pkg, r.test, _ = strings.Cut(value, " ")
		}
	}
	if r.says == "" || r.pkg == "" || r.test == "" {
		return fmt.Errorf("%s: the header needs a line Rule: and a line Test: ./package TestName", file)
	}
	r.diff = text
	return nil
}

// copyTracked copies the tracked files as they are now.
func copyTracked(dir string) error {
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("cannot list the tracked files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if err := copyFile(name, filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// check says why the rule is not held by its test, or "".
func (r rule) check(dir string) string {
	if out, ok := r.runTest(dir, "whole-"); !ok {
		return "its test fails without the patch: " + last(out)
	}
	if out, err := r.apply(dir); err != nil {
		return "the patch does not apply; write it anew: " + last(out)
	}
	os.Remove(r.binary(dir, "less-"))
	out, ok := r.runTest(dir, "less-")
	if undo, err := r.apply(dir, "--reverse"); err != nil {
		return "the patch cannot be taken back: " + last(undo)
	}
	switch {
	case ok:
		return r.test + " does not notice that this is gone: " + r.says
	case !bytes.Contains(out, []byte("--- FAIL")):
		return "with the patch it does not come to a test: " + last(out)
	}
	return ""
}

func (r rule) apply(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(r.diff)
	return cmd.CombinedOutput()
}

// binary is where the tests of the rule's package are built.
func (r rule) binary(dir, kind string) string {
	return filepath.Join(dir, kind+strings.ReplaceAll(strings.TrimPrefix(r.pkg, "./"), "/", "-")+".test")
}

// runTest builds the tests of the rule's package, unless that is done, runs
// its test and reports whether that ran and passed.
func (r rule) runTest(dir, kind string) ([]byte, bool) {
	binary := r.binary(dir, kind)
	if _, err := os.Stat(binary); err != nil {
		build := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, r.pkg)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			return out, false
		}
	}
	test := exec.Command(binary, "-test.v", "-test.run", pattern(r.test))
	test.Dir = filepath.Join(dir, r.pkg)
	out, err := test.CombinedOutput()
	return out, err == nil && bytes.Contains(out, []byte("--- PASS"))
}

// pattern makes TestName/Sub the pattern of exactly that test and of the
// subtests that begin so.
func pattern(test string) string {
	name, sub, ok := strings.Cut(test, "/")
	if !ok {
		return "^" + name
	}
	return "^" + name + "$/^" + sub
}

// last is the last line that says something.
func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" && line != "FAIL" && !strings.HasPrefix(line, "FAIL\t") {
			return line
		}
	}
	return "no output"
}
