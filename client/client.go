package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/berth-dev/berth/api"
	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/api/berth/v1/berthv1connect"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/lease/attempt"
)

// maxReply bounds what is read of an answer, in bytes.
const maxReply = 64 << 20

// dialLimit is how long a connection may take to come about.
const dialLimit = 3 * time.Second

// A Config says which broker is asked, and how patiently. Only Server is needed.
type Config struct {
	// Server is the broker's address: "http://127.0.0.1:7717", or "unix:" and the
	// path of its socket.
	Server string
	// Limits bound each call and its repeats.
	Limits attempt.Limits
	// Queued hears where a request stands, each time that the broker says it; it
	// must not wait. Optional.
	Queued func(request lease.Ref, position int)
}

// A Client asks one broker. Its methods may be called from any goroutine and
// wait for the answer as long as their context and the limits. Whoever made it
// calls Close.
type Client struct {
	cfg    Config
	origin time.Time
	http   *http.Transport
	leases berthv1connect.LeaseServiceClient
}

var _ lease.Broker = (*Client)(nil)

// New returns a client of a broker. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialLimit}).DialContext,
		Protocols:             new(http.Protocols),
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: 0, // an acquire is held for as long as its poll
	}
	transport.Protocols.SetHTTP1(true)
	base := cfg.Server
	if path, ok := strings.CutPrefix(cfg.Server, "unix:"); ok {
		base = "http://unix"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "unix", path)
		}
	} else if u, err := url.Parse(base); err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, lease.Errorf(lease.CodeRequestInvalid, "cannot use the server %q: give http://127.0.0.1:7717 or unix:/path", cfg.Server)
	}
	return &Client{
		cfg: cfg, origin: time.Now(), http: transport,
		leases: berthv1connect.NewLeaseServiceClient(&http.Client{Transport: transport}, base, connect.WithReadMaxBytes(maxReply)),
	}, nil
}

// Close closes the connections that lie idle. Nothing is given back by it.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) now() attempt.Instant {
	now := time.Since(c.origin)
	return attempt.Instant{Mono: now, Boot: now}
}

// Acquire implements [lease.Broker].
func (c *Client) Acquire(ctx context.Context, r lease.Request) (lease.Token, error) {
	r, err := r.Checked()
	if err != nil {
		return lease.Token{}, err
	}
	if ctx.Err() != nil {
		return lease.Token{}, context.Cause(ctx)
	}
	a := attempt.NewAcquire(r, c.cfg.Limits)
	s := shell{client: c, step: a.Step, send: map[attempt.Do]send{
		attempt.SendAcquire: func(ctx context.Context) (lease.Token, error) { return c.ask(ctx, r) },
		attempt.SendCancel: func(ctx context.Context) (lease.Token, error) {
			_, err := c.leases.Cancel(ctx, &berthv1.CancelRequest{RequestId: string(r.ID), Unused: true})
			return lease.Token{}, c.failure(err)
		},
	}}
	token, err := s.run(ctx)
	if err != nil {
		return lease.Token{}, err
	}
	// The caller counts from its own call, not from the last of ours.
	token.Elapsed += s.lastSent - s.firstSent
	return token, nil
}

// ask sends one acquire call.
func (c *Client) ask(ctx context.Context, r lease.Request) (lease.Token, error) {
	res, err := c.leases.Acquire(ctx, api.Request(r))
	if err != nil {
		return lease.Token{}, c.failure(err)
	}
	switch m := res.GetOutcome().(type) {
	case *berthv1.AcquireResponse_Token:
		return api.FromToken(m.Token)
	case *berthv1.AcquireResponse_Queued:
		position := int(m.Queued.GetPosition())
		if c.cfg.Queued != nil {
			c.cfg.Queued(r.ID.Ref(), position)
		}
		return lease.Token{}, lease.Errorf(lease.CodeQueued, "request %s waits at position %d", r.ID, position)
	}
	return lease.Token{}, lease.Errorf(lease.CodeReplyInvalid, "cannot use the broker's reply for request %s: it holds neither a token nor a place in the queue", r.ID)
}

// failure returns the error of a call: the broker's own, or that it was not
// reached at all, or one without a code: then it may have been served.
func (c *Client) failure(err error) error {
	if err == nil {
		return nil
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return lease.Errorf(lease.CodeUnavailable, "cannot reach the broker at %s: %w; see that it runs there", c.cfg.Server, dial.Err)
	}
	return api.FromError(err)
}

// Renew implements [lease.Broker]. It is one call: who renews asks again.
func (c *Client) Renew(ctx context.Context, t lease.Token) (lease.Token, error) {
	res, err := c.leases.Renew(ctx, &berthv1.RenewRequest{LeaseId: string(t.LeaseID)})
	if err != nil {
		return lease.Token{}, c.oneCall(ctx, "renew", t, err)
	}
	return api.FromToken(res.GetToken())
}

// oneCall returns the error of a call that is not repeated.
func (c *Client) oneCall(ctx context.Context, what string, t lease.Token, err error) error {
	err = c.failure(err)
	if _, coded := errors.AsType[*lease.Error](err); coded {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return lease.Errorf(lease.CodeOutcomeUnknown, "cannot tell whether lease %s was served (%s): %w; ask again", t.LeaseID, what, err)
}

// Release implements [lease.Broker].
func (c *Client) Release(ctx context.Context, t lease.Token) error {
	g := attempt.NewRelease(t.LeaseID, c.cfg.Limits)
	return c.giveBack(ctx, &g, func(ctx context.Context) error {
		_, err := c.leases.Release(ctx, &berthv1.ReleaseRequest{LeaseId: string(t.LeaseID)})
		return err
	})
}

// Abandon implements [lease.Broker].
func (c *Client) Abandon(ctx context.Context, t lease.Token, reason string) error {
	g := attempt.NewAbandon(t.LeaseID, c.cfg.Limits)
	return c.giveBack(ctx, &g, func(ctx context.Context) error {
		_, err := c.leases.Abandon(ctx, &berthv1.AbandonRequest{LeaseId: string(t.LeaseID), Reason: reason})
		return err
	})
}

func (c *Client) giveBack(ctx context.Context, g *attempt.GiveBack, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := shell{client: c, step: g.Step, send: map[attempt.Do]send{
		attempt.SendGiveBack: func(ctx context.Context) (lease.Token, error) { return lease.Token{}, c.failure(call(ctx)) },
	}}
	_, err := s.run(ctx)
	return err
}

// Cancel implements [lease.Broker]. It is one call, which may be repeated.
func (c *Client) Cancel(ctx context.Context, id lease.RequestID) error {
	_, err := c.leases.Cancel(ctx, &berthv1.CancelRequest{RequestId: string(id)})
	err = c.failure(err)
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[*lease.Error](err); coded {
		return err
	}
	return lease.Errorf(lease.CodeOutcomeUnknown, "cannot tell whether request %s was cancelled: %w; cancel it again", id, err)
}

func jitter() float64 { return rand.Float64() }
