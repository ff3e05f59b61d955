package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// A data folder that a newer berth wrote, in whatever respect, is refused by
// every start: with its code's exit, saying which folder or record it is and
// what to do next. Nothing in it is changed: without what was newer it goes on
// where it was.
func TestNewerDataFolder(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string) (mend func())
		look  func(t *testing.T, dir string) map[string]string
		says  string
	}{
		"records in another layout": {setRaw("c", "\x02 and more"), content, `data".*layout 2.*use that version`},
		"a record of another kind":  {setRaw("d\x08x", "\x01"), content, "kind 8.*start that version, or restore a backup"},
		"a record with more fields": {setRaw("d\x04render\x00render-0", "\x02\x00"), content, `slot "render/render-0".*version 2.*start that version`},
		"another database format":   {moveMarker, files, "999.*use that version"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "data")
			jobs := oneJob(t, root)
			args := []string{"render", jobs, "--sources", root, "--out", filepath.Join(root, "out"), "--data", dir}
			if code, out, said := tool(t, args...); code != 0 || !strings.Contains(out, "leases: 1 acquired = 1 released") {
				t.Fatalf("the first run ended with %d: %s%s", code, out, said)
			}
			mend := c.spoil(t, dir)
			before := c.look(t, dir)
			for range 2 {
				code, out, said := tool(t, args...)
				if code != int(policy.ExitBerth) || out != "" {
					t.Errorf("exit code %d, want %d, and on stdout %q", code, policy.ExitBerth, out)
				}
				wantSaid(t, said, lease.CodeStoreNewer, c.says)
			}
			if !maps.Equal(c.look(t, dir), before) {
				t.Error("the folder has changed")
			}
			mend()
			if code, out, said := tool(t, args...); code != 0 || !strings.Contains(out, "leases: 2 acquired = 2 released") {
				t.Errorf("afterwards it ended with %d: %s%s", code, out, said)
			}
		})
	}
}

// setRaw returns what sets a key of the database under the store, and sets it
// back.
func setRaw(key, value string) func(*testing.T, string) func() {
	return func(t *testing.T, dir string) func() {
		old, had := content(t, dir)[key]
		write(t, dir, func(db *pebble.DB) error { return db.Set([]byte(key), []byte(value), pebble.Sync) })
		return func() {
			write(t, dir, func(db *pebble.DB) error {
				if had {
					return db.Set([]byte(key), []byte(old), pebble.Sync)
				}
				return db.Delete([]byte(key), pebble.Sync)
			})
		}
	}
}

// moveMarker has the folder say that a newer database wrote it.
func moveMarker(t *testing.T, dir string) func() {
	move := func(to string) (was string) {
		marker, was, err := atomicfs.LocateMarker(vfs.Default, dir, "format-version")
		if err == nil {
			err = errors.Join(marker.Move(to), marker.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	was := move("999")
	return func() { move(was) }
}

// raw opens the database under the store.
func raw(t *testing.T, dir string) *pebble.DB {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A quiet logger keeps what the database tells of itself out of the output.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func write(t *testing.T, dir string, change func(*pebble.DB) error) {
	t.Helper()
	db := raw(t, dir)
	if err := errors.Join(change(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// files returns what is in every file of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		data, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		all[e.Name()], err = string(data), errors.Join(err, readErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// content returns every pair of the database under the store.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	db := raw(t, dir)
	all := map[string]string{}
	pairs, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := pairs.First(); ok; ok = pairs.Next() {
		all[string(pairs.Key())] = string(pairs.Value())
	}
	if err := errors.Join(pairs.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// oneJob writes a jobs file with one small scene.
func oneJob(t *testing.T, dir string) string {
	t.Helper()
	jobs := filepath.Join(dir, "one.jsonl")
	for name, text := range map[string]string{
		jobs:                          `{"jobId": "one", "sourceKey": "one.svg", "outputKey": "one.png"}`,
		filepath.Join(dir, "one.svg"): `<svg xmlns="http://www.w3.org/2000/svg" width="4" height="2" viewBox="0 0 4 2"><rect width="3" height="1"/></svg>`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return jobs
}

// tool runs a command of the tool and returns its exit code and what it wrote.
func tool(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), Streams{In: strings.NewReader(""), Out: &o, Err: &e}, args)
	return code, o.String(), e.String()
}

// wantSaid demands of a failure's one line that it begins with the code and
// matches the pattern.
func wantSaid(t *testing.T, said string, code lease.Code, pattern string) {
	t.Helper()
	if !regexp.MustCompile(`^berth: ` + string(code) + `: [^\n]*` + pattern + `[^\n]*\n$`).MatchString(said) {
		t.Errorf("it says %q, want %s and %q", said, code, pattern)
	}
}
