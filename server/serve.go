package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/scope"
)

const (
	// headerLimit is how long a client may take to send a request's headers,
	// idleLimit how long a connection may lie idle, stopLimit how long a stop
	// waits for calls that were told to end.
	headerLimit = 10 * time.Second
	idleLimit   = 5 * time.Minute
	stopLimit   = 5 * time.Second
	maxHeaders  = 64 << 10
)

// Listen opens a socket at an address: "unix:" and a path, which only the user
// may then use, or a loopback address and a port, such as "127.0.0.1:7717".
// Another address is refused: there is no access control yet.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(ctx, path)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot listen on %q: %v; give a loopback address and a port, such as 127.0.0.1:7717, or unix:/path", address, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot listen on %q: there is no access control yet, so only loopback is served; use 127.0.0.1, or unix:/path", address)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, lease.Errorf(lease.CodeUnavailable, "cannot listen on %q: %w; see what else uses the port", address, err)
	}
	return l, nil
}

// listenUnix takes the place of a socket that nobody listens on any more.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		_ = c.Close() // it has shown what it was opened for
		return nil, lease.Errorf(lease.CodeUnavailable, "cannot listen on unix:%s: somebody does already", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, lease.Errorf(lease.CodeUnavailable, "cannot listen on unix:%s: %w", path, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, lease.Errorf(lease.CodeUnavailable, "cannot listen on unix:%s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(lease.Errorf(lease.CodeUnavailable, "cannot keep others from unix:%s: %w", path, err), l.Close())
	}
	return l, nil
}

// Serve serves the API on l until ctx ends, then tells calls that are open to
// end, waits for them a few seconds, and closes l and every connection. It
// returns nil after that, and why it could not serve otherwise.
func Serve(ctx context.Context, l net.Listener, cfg Config) error {
	calls, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s := &http.Server{
		Handler: Handler(cfg), ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeaders,
		BaseContext: func(net.Listener) context.Context { return calls },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return scope.Run(ctx, scope.Config{Name: "server"}, func(inner context.Context, all *scope.Scope) error {
		stopped := func(ctx context.Context) error {
			<-ctx.Done()
			end(lease.Errorf(lease.CodeStopped, "the server stops"))
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			if s.Shutdown(limited) != nil {
				return s.Close()
			}
			return nil
		}
		if err := all.Go(inner, "stop", stopped); err != nil {
			return err
		}
		err := s.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return lease.Errorf(lease.CodeUnavailable, "the server failed: %w", err)
	})
}
