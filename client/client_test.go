package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/client"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
	"github.com/berth-dev/berth/server"
	"github.com/berth-dev/berth/store"
)

// A farm is a broker that is served on a socket of this machine.
type farm struct {
	*broker.Broker
	address string
	stop    func() error // the server, not the broker
}

// serve runs a broker with a pool g of so many slots, and serves it at address.
func serve(t *testing.T, address string, slots ...string) *farm {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	background(t, b.Run)
	spec := lease.PoolSpec{Name: "g", Settings: &lease.Settings{}}
	for _, id := range slots {
		spec.Slots = append(spec.Slots, lease.SlotSpec{ID: id, Labels: map[string]string{"model": "a"}})
	}
	if _, err := b.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{spec}, false); err != nil {
		t.Fatal(err)
	}
	f := &farm{Broker: b}
	f.serve(t, address)
	return f
}

func (f *farm) serve(t *testing.T, address string) {
	t.Helper()
	l, err := server.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	f.address = address
	if !strings.HasPrefix(address, "unix:") {
		f.address = "http://" + l.Addr().String()
	}
	f.stop = background(t, func(ctx context.Context) error {
		return server.Serve(ctx, l, server.Config{Broker: f.Broker, Version: "test"})
	})
}

// background runs f until the test ends, or the function that it returns is called.
func background(t *testing.T, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

func dial(t *testing.T, address string, change ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Server: address}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wish(wait time.Duration) lease.Request {
	return lease.Request{ID: lease.NewRequestID(), Claims: []lease.Claim{{Pool: "g"}}, Wait: wait, Note: "a test"}
}

func wantCode(t *testing.T, err error, code lease.Code) {
	t.Helper()
	if lease.CodeOf(err) != code {
		t.Errorf("the error is %v (%s), want %s", err, lease.CodeOf(err), code)
	}
}

func (f *farm) status(t *testing.T) lease.Status {
	t.Helper()
	s, err := f.Status(context.WithoutCancel(t.Context()), false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLeaseOverASocket(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "berth.sock")} {
		f := serve(t, address, "g-0", "g-1")
		c := dial(t, f.address)
		token, err := c.Acquire(t.Context(), wish(0))
		if err != nil {
			t.Fatal(err)
		}
		s := token.Slots[0]
		if token.TTL != lease.DefaultTTL || token.Left <= 0 || token.Fence == 0 || s.Pool != "g" || s.ID != "g-0" || !s.Whole ||
			s.Units != 1 || s.Labels["model"] != "a" || s.Handover.After != lease.DefaultAfter {
			t.Errorf("the token is %+v", token)
		}
		again, err := c.Renew(t.Context(), token)
		if err != nil || again.LeaseID != token.LeaseID || again.Left != token.TTL {
			t.Errorf("renewed to %+v, %v", again, err)
		}
		if err := c.Release(t.Context(), token); err != nil {
			t.Error(err)
		}
		if err := c.Release(t.Context(), token); err != nil {
			t.Errorf("released again: %v", err)
		}
		_, err = c.Renew(t.Context(), token)
		wantCode(t, err, lease.CodeLeaseReleased)

		token, err = c.Acquire(t.Context(), wish(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Abandon(t.Context(), token, "the host is gone"); err != nil {
			t.Error(err)
		}
		if s := f.status(t); s.Held != 0 || s.Released != 2 || s.Orphaned != 0 || s.Quarantined != 1 {
			t.Errorf("status %+v", s)
		}
	}
}

func TestWaiterIsServedAndHearsItsPlace(t *testing.T) {
	f := serve(t, "127.0.0.1:0", "g-0")
	c := dial(t, f.address)
	first, err := c.Acquire(t.Context(), wish(0))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Acquire(t.Context(), wish(0))
	wantCode(t, err, lease.CodeNoCapacity)

	got := make(chan error, 1)
	go func() {
		second, err := c.Acquire(t.Context(), wish(time.Minute))
		if err == nil && second.Fence <= first.Fence {
			err = errors.New("an older fence")
		}
		got <- err
	}()
	f.awaitQueued(t, 1)
	if err := c.Release(t.Context(), first); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// awaitQueued waits until so many wait.
func (f *farm) awaitQueued(t *testing.T, n int) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); f.status(t).Queued != n; {
		if time.Now().After(limit) {
			t.Fatalf("%d wait, want %d", f.status(t).Queued, n)
		}
	}
}

// TestGivenUpAcquireLeavesNothing: its cancel is answered before it returns.
func TestGivenUpAcquireLeavesNothing(t *testing.T) {
	f := serve(t, "127.0.0.1:0", "g-0")
	c := dial(t, f.address)
	first, err := c.Acquire(t.Context(), wish(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := c.Acquire(ctx, wish(time.Hour))
		got <- err
	}()
	f.awaitQueued(t, 1)
	cancel()
	err = <-got
	wantCode(t, err, lease.CodeCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error %v does not hold the cause", err)
	}
	if s := f.status(t); s.Queued != 0 || s.Held != 1 {
		t.Errorf("%d wait and %d are held, want 0 and 1", s.Queued, s.Held)
	}
	if err := c.Release(t.Context(), first); err != nil {
		t.Error(err)
	}
}

// TestServerRestartsWhileOneWaits: the waiter asks again and keeps its place.
func TestServerRestartsWhileOneWaits(t *testing.T) {
	f := serve(t, "127.0.0.1:0", "g-0")
	c := dial(t, f.address)
	first, err := c.Acquire(t.Context(), wish(0))
	if err != nil {
		t.Fatal(err)
	}
	var second lease.Token
	got := make(chan error, 1)
	go func() {
		second, err = c.Acquire(t.Context(), wish(time.Minute))
		got <- err
	}()
	f.awaitQueued(t, 1)
	queued := time.Now()
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if err := f.Release(t.Context(), first); err != nil {
		t.Error(err)
	}
	away := time.Since(queued)
	f.serve(t, strings.TrimPrefix(f.address, "http://"))
	if err := <-got; err != nil {
		t.Error(err)
	}
	// Whoever holds it counts trust from the call to Acquire: it would end too
	// soon if only the last of its calls were told of.
	if second.Elapsed < away {
		t.Errorf("elapsed %v since the call, in which the server was away for %v", second.Elapsed, away)
	}
	if s := f.status(t); s.Acquired != 2 || s.Held != 1 {
		t.Errorf("acquired %d, held %d; want 2 and 1", s.Acquired, s.Held)
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, address, func(c *client.Config) {
		c.Limits = attempt.Limits{Slack: time.Millisecond, Cancel: time.Millisecond, GiveBack: time.Millisecond}
	})
	// Where the connection is refused before the time is up nothing can stand at
	// the broker, else it might.
	_, err = c.Acquire(t.Context(), wish(0))
	if code := lease.CodeOf(err); code != lease.CodeUnavailable && code != lease.CodeOutcomeUnknown {
		t.Errorf("the acquire ended with %v (%s)", err, code)
	}
	_, err = c.Renew(t.Context(), lease.Token{LeaseID: "x"})
	wantCode(t, err, lease.CodeUnavailable)
	wantCode(t, c.Cancel(t.Context(), "x"), lease.CodeUnavailable)
	wantCode(t, c.Release(t.Context(), lease.Token{LeaseID: "x"}), lease.CodeOutcomeUnknown)
	for _, bad := range []string{"", "127.0.0.1:1", "https://127.0.0.1", "http://", "ftp://x"} {
		_, err := client.New(client.Config{Server: bad})
		wantCode(t, err, lease.CodeRequestInvalid)
	}
}

// TestWrongServer: what answers but is no broker may have done anything.
func TestWrongServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler()}
	background(t, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { s.Close() })
		defer stop()
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	c := dial(t, "http://"+l.Addr().String())
	_, err = c.Renew(t.Context(), lease.Token{LeaseID: "x"})
	wantCode(t, err, lease.CodeOutcomeUnknown)
}

// TestServerThatNeverAnswers: the acquire ends within its limits, and its calls
// with it.
func TestServerThatNeverAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // and with it what waits to be accepted
	c := dial(t, "http://"+l.Addr().String(), func(c *client.Config) {
		c.Limits = attempt.Limits{Cancel: time.Millisecond}
	})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := c.Acquire(ctx, wish(time.Hour))
		got <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the call is under way
		t.Fatal(err)
	}
	cancel()
	err = <-got
	wantCode(t, err, lease.CodeOutcomeUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error %v does not hold the cause", err)
	}
}
