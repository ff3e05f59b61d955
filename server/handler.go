package server

import (
	"context"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"

	"github.com/berth-dev/berth/api"
	"github.com/berth-dev/berth/api/berth/v1/berthv1connect"
	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// maxMessage bounds what is read of a request, in bytes: an apply of some
// hundred thousand slots fits.
const maxMessage = 32 << 20

// A Config says what is served. Only Broker is needed.
type Config struct {
	Broker *broker.Broker
	// Version is told by GetInfo.
	Version string
	// Logger hears of faults; nil is silent.
	Logger *slog.Logger
}

// Handler returns the API over HTTP. It may be mounted at the root of any
// server that itself decides who may reach it.
func Handler(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxMessage),
		connect.WithCodec(strictJSON{"json"}),
		connect.WithCodec(strictJSON{"json; charset=utf-8"}),
		connect.WithInterceptors(coded{}),
		connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, p any) error {
			cfg.Logger.Error("a call panicked", "procedure", spec.Procedure, "panic", p)
			return lease.Errorf(lease.CodeInternal, "the server failed at this call; what was asked may have happened: repeat it with the same id")
		}),
	}
	mux.Handle(berthv1connect.NewLeaseServiceHandler(leases{cfg.Broker}, options...))
	mux.Handle(berthv1connect.NewPoolServiceHandler(pools{cfg.Broker, cfg.Version}, options...))
	mux.Handle(berthv1connect.NewOperateServiceHandler(operator{cfg.Broker}, options...))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := cfg.Broker.Status(r.Context(), true); err != nil {
			write(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		write(w, http.StatusOK, "ready\n")
	})
	return mux
}

func write(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // who asked has gone
}

// coded gives every error its code and status.
type coded struct{}

func (coded) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, r)
		return res, told(err)
	}
}

func (coded) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error { return told(next(ctx, conn)) }
}

func (coded) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// told returns the error as it is told. A broker that has stopped did not take
// the call, and the next one on this store goes on: to a remote caller it is
// away.
func told(err error) error {
	if lease.CodeOf(err) == lease.CodeStopped {
		err = lease.Errorf(lease.CodeUnavailable, "the broker is stopping; ask again with the same id once it runs again")
	}
	return api.Error(err)
}
