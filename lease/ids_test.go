package lease_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-dev/berth/lease"
)

const (
	secretRequest = "5f1d7c2e9a80b3640f1e2d3c4b5a6978"
	secretLease   = "00112233445566778899aabbccddeeff"
)

// Ids are capabilities: however a value that holds one is printed or logged,
// its ref is seen and the id is not.
func TestIDsPrintAsRefs(t *testing.T) {
	request := wish()
	request.ID = secretRequest
	token := lease.Token{RequestID: secretRequest, LeaseID: secretLease, Fence: 7}
	entry := lease.Entry{ID: secretRequest, Request: &request, Lease: &lease.Lease{ID: secretLease}}
	for _, v := range []any{
		lease.RequestID(secretRequest), lease.LeaseID(secretLease), request, &request, token, &token,
		*entry.Lease, entry.Lease, []lease.LeaseID{secretLease}, struct{ Of any }{lease.LeaseID(secretLease)},
	} {
		printsSafely(t, v, "%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%40v", "%-40s")
		logsSafely(t, v)
	}
	printsSafely(t, entry, "%v", "%+v", "%#v")
	printsSafely(t, map[lease.RequestID]int{secretRequest: 1}, "%v", "%+v", "%#v")
	logsSafely(t, entry)
	keepsSecret(t, "an error", lease.Errorf(lease.CodeLeaseLost, "lease %s of %v", token.LeaseID, token).Error())
}

func printsSafely(t *testing.T, v any, verbs ...string) {
	t.Helper()
	for _, verb := range verbs {
		keepsSecret(t, verb, fmt.Sprintf(verb, v))
	}
}

func logsSafely(t *testing.T, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	keepsSecret(t, "JSON", string(text))
	keepsSecret(t, "slog text", logged(slog.NewTextHandler, v))
	keepsSecret(t, "slog JSON", logged(slog.NewJSONHandler, v))
}

func logged[H slog.Handler](handler func(io.Writer, *slog.HandlerOptions) H, v any) string {
	var b bytes.Buffer
	slog.New(handler(&b, nil)).Info("x", "value", v)
	return b.String()
}

func keepsSecret(t *testing.T, how, text string) {
	t.Helper()
	plain := strings.ToLower(text)
	for _, id := range []string{secretRequest, secretLease} {
		if strings.Contains(plain, id) || strings.Contains(plain, fmt.Sprintf("%x", id)) {
			t.Errorf("%s shows an id: %s", how, text)
		}
	}
}

func TestRefs(t *testing.T) {
	if r := lease.RequestID(secretRequest).Ref(); r != "8137dfefe16f" {
		t.Errorf("the ref is %s", r)
	}
	if r := lease.RequestID(secretLease).Ref(); r != lease.LeaseID(secretLease).Ref() {
		t.Errorf("one id has the refs %s and %s", r, lease.LeaseID(secretLease).Ref())
	}
	if r := lease.LeaseID("").Ref(); r != "" {
		t.Errorf("no id has the ref %q", r)
	}
	if got := fmt.Sprintf("%v|%14v|%q|%s", lease.LeaseID(secretLease), lease.RequestID(secretRequest), lease.RequestID(secretRequest), lease.LeaseID("")); got !=
		string(lease.LeaseID(secretLease).Ref())+`|  8137dfefe16f|"8137dfefe16f"|` {
		t.Errorf("refs print as %s", got)
	}
}

func TestNewIDsAreRandomAndValid(t *testing.T) {
	form := regexp.MustCompile("^[0-9a-f]{32}$")
	seen := map[string]bool{}
	for range 1000 {
		for _, id := range []string{string(lease.NewRequestID()), string(lease.NewLeaseID())} {
			if !form.MatchString(id) || !lease.ValidName(id) || seen[id] {
				t.Fatalf("id %q, seen before: %v", id, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestValidNameIsThePattern(t *testing.T) {
	pattern := regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
	names := []string{"", "a", strings.Repeat("a", 128), strings.Repeat("a", 129), "a b", "ü", "a\n", "\x00"}
	for c := range 256 {
		names = append(names, string([]byte{byte(c)}), "x"+string([]byte{byte(c)})+"y")
	}
	for _, n := range names {
		// A name of the pattern does not end with a newline either.
		if got, want := lease.ValidName(n), pattern.MatchString(n) && !strings.HasSuffix(n, "\n"); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", n, got, want)
		}
	}
}
