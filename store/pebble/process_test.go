package pebble

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/store"
)

// childVar names the directory that this test binary, started again as a
// second process, works in.
const childVar = "BERTH_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child opens the store in dir, and then commits until it is killed. It prints
// the number of each commit once it is durable.
func child(dir string) int {
	st, err := Open(dir, Config{})
	if err != nil {
		fmt.Println(err)
		if e, ok := errors.AsType[*store.Error](err); ok {
			fmt.Println(e.Code())
		}
		return 1
	}
	ctx := context.Background()
	for seq := uint64(1); ; seq++ {
		if err := st.Commit(ctx, seq, numbered(seq)); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(seq)
	}
}

// numbered sets three keys to seq, and a fourth that is new each time.
func numbered(seq uint64) []store.Change {
	value := binary.BigEndian.AppendUint64(nil, seq)
	var changes []store.Change
	for _, key := range []string{"first", "middle", "last", fmt.Sprint("only", seq)} {
		changes = append(changes, store.Change{Key: []byte(key), Value: value})
	}
	return changes
}

func startChild(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// A second process is refused, hears where and why, and harms nothing.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	st := mustOpen(t, dir, Config{})
	mustCommit(t, st, 1, numbered(1)...)
	cmd, out := startChild(t, dir)
	var lines []string
	for out.Scan() {
		lines = append(lines, out.Text())
	}
	if err := cmd.Wait(); err == nil || len(lines) != 2 {
		t.Fatalf("the second process ended with %v after saying %q", err, lines)
	}
	if !strings.Contains(lines[0], dir) || !strings.Contains(lines[0], "stop the process") {
		t.Errorf("the error is %q, want the directory and what to do", lines[0])
	}
	if lines[1] != string(store.ErrInUse) {
		t.Errorf("the code is %q, want %q", lines[1], store.ErrInUse)
	}
	mustCommit(t, st, 2, numbered(2)...)
	mustClose(t, st)
	mustClose(t, mustOpen(t, dir, Config{}))
}

// A process that was killed loses nothing it has acknowledged, and its lock.
func TestKilledProcessKeepsItsWord(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		sub := filepath.Join(dir, fmt.Sprint(round))
		cmd, out := startChild(t, sub)
		acked := 0
		for acked < 20+7*round && out.Scan() {
			acked = mustAtoi(t, out.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // what it had still said before it died
			acked = mustAtoi(t, out.Text())
		}
		_ = cmd.Wait() // says that it was killed
		st := mustOpen(t, sub, Config{})
		got, seq := mustLoad(t, st)
		if int(seq) < acked {
			t.Errorf("the store is at commit %d, %d was acknowledged", seq, acked)
		}
		for _, c := range numbered(seq) {
			if string(c.Value) != got[string(c.Key)] {
				t.Errorf("at commit %d: %s is %x", seq, c.Key, got[string(c.Key)])
			}
		}
		if len(got) != int(seq)+3 {
			t.Errorf("at commit %d: %d keys, want %d", seq, len(got), seq+3)
		}
		mustClose(t, st)
	}
}

func mustAtoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("the child said %q", s)
	}
	return n
}

// One directory has one lock, whatever it is called.
func TestSecondOpenByAnotherName(t *testing.T) {
	root := t.TempDir()
	real := filepath.Join(root, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, filepath.Join(root, "link", "data"), Config{})
	t.Chdir(real)
	for _, name := range []string{filepath.Join(real, "data"), "data", "./data/../data", "../link/data"} {
		second, err := Open(name, Config{})
		if !errors.Is(err, store.ErrInUse) {
			t.Errorf("Open(%q) returned %v, want %v", name, err, store.ErrInUse)
		}
		if err == nil {
			mustClose(t, second)
		}
	}
	mustClose(t, st)
}

func TestOpenWhereNoDirectoryCanBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(file, "data")} {
		_, err := Open(name, Config{})
		if !errors.Is(err, store.ErrFailed) || !strings.Contains(err.Error(), name) {
			t.Errorf("Open(%q) returned %v, want %v and the name", name, err, store.ErrFailed)
		}
	}
}

func mustOpen(t *testing.T, dir string, cfg Config) *Store {
	t.Helper()
	st, err := Open(dir, cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return st
}

func mustClose(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func mustCommit(t *testing.T, st store.Store, seq uint64, changes ...store.Change) {
	t.Helper()
	if err := st.Commit(t.Context(), seq, changes); err != nil {
		t.Fatalf("Commit(%d): %v", seq, err)
	}
}

func mustLoad(t *testing.T, st store.Store) (map[string]string, uint64) {
	t.Helper()
	got := map[string]string{}
	seq, err := st.Load(t.Context(), func(key, value []byte) error {
		got[string(key)] = string(value)
		return nil
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return got, seq
}
