package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/api/berth/v1/berthv1connect"
	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/server"
	"github.com/berth-dev/berth/store"
)

// open serves a broker over HTTP, both versions, until the test ends.
func open(t *testing.T) (*broker.Broker, *httptest.Server) {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	s := httptest.NewUnstartedServer(server.Handler(server.Config{Broker: b, Version: "1.2.3"}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b, s
}

// post sends JSON as curl would, and returns the status and the answer.
func post(t *testing.T, s *httptest.Server, procedure, body string) (int, map[string]any) {
	t.Helper()
	res, err := http.Post(s.URL+"/berth.v1."+procedure, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s answered %q: %v", procedure, text, err)
	}
	return res.StatusCode, answer
}

const onePool = `{"pools": [{"name": "gpu", "settings": {"ttl": "20s", "handover": {"after": "5s"}}, "slots": [{"id": "gpu-0", "labels": {"model": "a"}}]}]}`

func TestJSONByPost(t *testing.T) {
	_, s := open(t)
	if status, a := post(t, s, "PoolService/Apply", onePool); status != http.StatusOK || len(a["added"].([]any)) != 2 {
		t.Fatalf("applied: %d %v", status, a)
	}
	status, a := post(t, s, "LeaseService/Acquire", `{"requestId": "0123456789abcdef", "claims": [{"pool": "gpu", "select": {"model": "a"}}]}`)
	token, _ := a["token"].(map[string]any)
	if status != http.StatusOK || token["ttl"] != "20s" || token["requestId"] != "0123456789abcdef" {
		t.Fatalf("acquired: %d %v", status, a)
	}
	slot := token["slots"].([]any)[0].(map[string]any)
	if slot["slotId"] != "gpu-0" || slot["units"] != "1" || slot["whole"] != true || slot["handover"].(map[string]any)["after"] != "5s" {
		t.Errorf("the slot is %v", slot)
	}
	if _, isText := token["fence"].(string); !isText {
		t.Errorf("the fence is %v, want 64 bits as text", token["fence"])
	}
	id := token["leaseId"].(string)
	if status, a := post(t, s, "LeaseService/Progress", `{"leaseId": "`+id+`", "doing": "frame 3"}`); status != http.StatusOK {
		t.Errorf("progress: %d %v", status, a)
	}
	_, a = post(t, s, "PoolService/GetStatus", `{}`)
	shown, _ := json.Marshal(a)
	if a["held"] != "1" || !strings.Contains(string(shown), "frame 3") || strings.Contains(string(shown), id) || strings.Contains(string(shown), "0123456789abcdef") {
		t.Errorf("the status is %s", shown)
	}
	if status, a := post(t, s, "LeaseService/Release", `{"leaseId": "`+id+`"}`); status != http.StatusOK {
		t.Errorf("released: %d %v", status, a)
	}
	if _, a := post(t, s, "PoolService/GetInfo", `{}`); a["version"] != "1.2.3" || a["schema"] != 1.0 {
		t.Errorf("the info is %v", a)
	}
}

func TestCancelSaysWhetherTheTokenIsUnused(t *testing.T) {
	b, s := open(t)
	post(t, s, "PoolService/Apply", onePool)
	for id, quarantined := range map[string]int{`"a", "unused": true`: 0, `"b"`: 1} {
		name, _, _ := strings.Cut(id, ",")
		if status, a := post(t, s, "LeaseService/Acquire", `{"requestId": `+name+`, "wait": "60s", "claims": [{"pool": "gpu"}]}`); status != http.StatusOK {
			t.Fatalf("acquired: %d %v", status, a)
		}
		if status, a := post(t, s, "LeaseService/Cancel", `{"requestId": `+id+`}`); status != http.StatusOK {
			t.Fatalf("cancelled: %d %v", status, a)
		}
		if now, err := b.Status(t.Context(), true); err != nil || now.Held != 0 || now.Quarantined != quarantined {
			t.Errorf("after the cancel of %s: %+v, %v", id, now, err)
		}
		if err := b.Clear(t.Context(), "gpu", "gpu-0", leaseOn(t, b)); quarantined > 0 && err != nil {
			t.Error(err)
		}
	}
}

// leaseOn returns the ref of the lease on the one slot, if there is one.
func leaseOn(t *testing.T, b *broker.Broker) lease.Ref {
	t.Helper()
	now, err := b.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range now.Pools[0].Slots[0].Leases {
		return l.Ref
	}
	return ""
}

// TestStoppedBrokerIsAway: the call was not taken, and is asked again once a
// broker runs on that store.
func TestStoppedBrokerIsAway(t *testing.T) {
	b, err := broker.Open(t.Context(), broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server.Handler(server.Config{Broker: b}))
	defer s.Close()
	status, a := post(t, s, "LeaseService/Release", `{"leaseId": "x"}`)
	if status != http.StatusServiceUnavailable || detail(a) != string(lease.CodeUnavailable) {
		t.Errorf("answered %d %v", status, a)
	}
	res, err := http.Get(s.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz answered %d", res.StatusCode)
	}
}

// TestSenselessCalls: each field missing, huge, negative or of a wrong type is
// refused with a code, and nothing changes.
func TestSenselessCalls(t *testing.T) {
	b, s := open(t)
	post(t, s, "PoolService/Apply", onePool)
	before, err := b.Status(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ procedure, body, code string }{
		{"LeaseService/Acquire", `{}`, "name_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a b", "claims": [{"pool": "gpu"}]}`, "name_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a"}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{}]}`, "name_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu", "count": 4294967295}]}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu", "units": "-1"}]}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu", "units": "9223372036854775807"}]}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "ttl": "-1s"}`, "ttl_out_of_range"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "ttl": "0.1s"}`, "ttl_out_of_range"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "wait": "315576000000s"}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "wait": "-315576000000s"}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "maxHold": "1ns"}`, ""},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "priority": 2147483647}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "holder": {"process": {"pid": -1}}}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": "a", "claims": [{"pool": "gpu"}], "note": "` + strings.Repeat("x", 257) + `"}`, "request_invalid"},
		{"LeaseService/Acquire", `{"requestId": 7}`, ""},
		{"LeaseService/Acquire", `{"requestId": "b", "claims": [{"pool": "none"}]}`, "pool_unknown"},
		{"LeaseService/Acquire", `{"requestId": "c", "claims": [{"pool": "gpu", "count": 2}]}`, "unsatisfiable"},
		{"LeaseService/Acquire", `[]`, ""},
		{"LeaseService/Acquire", `{"noSuchField": 1}`, ""},
		{"LeaseService/Renew", `{}`, "lease_missing"},
		{"LeaseService/Renew", `{"leaseId": "nobody's"}`, "lease_unknown"},
		{"LeaseService/Release", `{}`, "lease_missing"},
		{"LeaseService/Release", `{"leaseId": "nobody's"}`, "lease_unknown"},
		{"LeaseService/Abandon", `{}`, "lease_missing"},
		{"LeaseService/Progress", `{}`, "lease_missing"},
		{"LeaseService/Cancel", `{}`, "name_invalid"},
		{"PoolService/Apply", `{"pools": [{"name": "gpu", "settings": {"ttl": "-1s"}}]}`, "pools_invalid"},
		{"PoolService/Apply", `{"pools": [{"name": "gpu", "settings": {"ttl": "315576000000s"}}]}`, "pools_invalid"},
		{"PoolService/Apply", `{"pools": [{"name": "gpu", "settings": {"handover": {"proofs": ["hope"]}}}]}`, "pools_invalid"},
		{"PoolService/Apply", `{"pools": [{"name": "gpu", "slots": [{"id": "a", "units": "-1"}]}]}`, "pools_invalid"},
		{"PoolService/Apply", `{"pools": [{}]}`, "name_invalid"},
		{"OperateService/Drain", `{}`, "pool_unknown"},
		{"OperateService/Drain", `{"pool": "gpu", "slot": "none"}`, "slot_unknown"},
		{"OperateService/Undrain", `{"pool": "none"}`, "pool_unknown"},
		{"OperateService/Revoke", `{}`, "lease_unknown"},
		{"OperateService/Clear", `{"pool": "gpu", "slot": "gpu-0", "lease": "none"}`, "not_quarantined"},
	} {
		status, a := post(t, s, c.procedure, c.body)
		if status < 400 || status >= 500 {
			t.Errorf("%s %s: status %d, %v", c.procedure, c.body, status, a)
		}
		if got := detail(a); got != c.code {
			t.Errorf("%s %s: code %q, want %q (%v)", c.procedure, c.body, got, c.code, a)
		}
	}
	after, err := b.Status(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if after.Acquired != before.Acquired || after.Slots != before.Slots || after.Queued != 0 {
		t.Errorf("the state went from %+v to %+v", before, after)
	}
}

// detail returns the code in the details of an error, empty where the message
// itself could not be read.
func detail(answer map[string]any) string {
	details, _ := answer["details"].([]any)
	for _, d := range details {
		debug, _ := d.(map[string]any)["debug"].(map[string]any)
		if code, ok := debug["code"].(string); ok {
			return code
		}
	}
	return ""
}

func TestGRPCAndWatch(t *testing.T) {
	b, s := open(t)
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}} {
		pools := berthv1connect.NewPoolServiceClient(&http.Client{Transport: h2}, s.URL, options...)
		number := firstEvent(t, b)
		events, err := pools.Watch(t.Context(), &berthv1.WatchRequest{From: number})
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := b.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{{Name: name, Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "s"}}}}, false); err != nil {
			t.Fatal(name, err)
		}
		if !events.Receive() || events.Msg().GetNumber() < number {
			t.Errorf("%s: watched %v, %v", name, events.Msg(), events.Err())
		}
		if err := events.Close(); err != nil {
			t.Error(name, err)
		}
		gone, err := pools.Watch(t.Context(), &berthv1.WatchRequest{From: 1})
		if err == nil {
			gone.Receive()
			err = gone.Err()
		}
		if connect.CodeOf(err) != connect.CodeOutOfRange {
			t.Errorf("%s: a number that is gone gave %v", name, err)
		}
	}
}

// firstEvent returns the number of the next event.
func firstEvent(t *testing.T, b *broker.Broker) (number uint64) {
	t.Helper()
	enough := errors.New("enough")
	err := b.Watch(t.Context(), 1<<63, func(broker.Event) error { return enough })
	_, after, ok := strings.Cut(err.Error(), "the next one is ")
	if !ok {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(after), &number); err != nil {
		t.Fatal(err)
	}
	return number
}

func TestHealth(t *testing.T) {
	_, s := open(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		res, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s answered %d", path, res.StatusCode)
		}
	}
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for _, bad := range []string{"", "7717", ":7717", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:80"} {
		if l, err := server.Listen(t.Context(), bad); lease.CodeOf(err) != lease.CodeRequestInvalid {
			t.Errorf("listen on %q gave %v, %v", bad, l, err)
		}
	}
}

func TestUnixSocketIsTheUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.sock")
	l, err := server.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	if second, err := server.Listen(t.Context(), "unix:"+path); lease.CodeOf(err) != lease.CodeUnavailable {
		t.Errorf("a second one gave %v, %v", second, err)
	}
	l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false) // as a killed process leaves it
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = server.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatalf("one that nobody listens on was not taken over: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(t.Context(), "unix:"+path); lease.CodeOf(err) != lease.CodeUnavailable {
		t.Errorf("a file in its place gave %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a file" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
