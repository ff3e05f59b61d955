package server

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/berth-dev/berth/api"
	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// leases is the LeaseService.
type leases struct{ broker *broker.Broker }

func (s leases) Acquire(ctx context.Context, m *berthv1.AcquireRequest) (*berthv1.AcquireResponse, error) {
	r, err := api.FromRequest(m)
	if err != nil {
		return nil, err
	}
	token, queued, err := s.broker.Ask(ctx, lease.Local, r, lease.MaxPoll)
	switch {
	case err == nil:
		return &berthv1.AcquireResponse{Outcome: &berthv1.AcquireResponse_Token{Token: api.Token(token)}}, nil
	case lease.CodeOf(err) == lease.CodeQueued:
		q := &berthv1.Queued{Position: uint32(queued.Position), AskWithin: durationpb.New(queued.AskWithin)}
		return &berthv1.AcquireResponse{Outcome: &berthv1.AcquireResponse_Queued{Queued: q}}, nil
	}
	return nil, err
}

func (s leases) Cancel(ctx context.Context, m *berthv1.CancelRequest) (*berthv1.CancelResponse, error) {
	return &berthv1.CancelResponse{}, s.broker.Drop(ctx, lease.Local, lease.RequestID(m.GetRequestId()), m.GetUnused())
}

func (s leases) Renew(ctx context.Context, m *berthv1.RenewRequest) (*berthv1.RenewResponse, error) {
	token, err := s.broker.Renew(ctx, lease.Token{LeaseID: lease.LeaseID(m.GetLeaseId())})
	if err != nil {
		return nil, err
	}
	return &berthv1.RenewResponse{Token: api.Token(token)}, nil
}

func (s leases) Release(ctx context.Context, m *berthv1.ReleaseRequest) (*berthv1.ReleaseResponse, error) {
	return &berthv1.ReleaseResponse{}, s.broker.Release(ctx, lease.Token{LeaseID: lease.LeaseID(m.GetLeaseId())})
}

func (s leases) Abandon(ctx context.Context, m *berthv1.AbandonRequest) (*berthv1.AbandonResponse, error) {
	return &berthv1.AbandonResponse{}, s.broker.Abandon(ctx, lease.Token{LeaseID: lease.LeaseID(m.GetLeaseId())}, m.GetReason())
}

func (s leases) Progress(ctx context.Context, m *berthv1.ProgressRequest) (*berthv1.ProgressResponse, error) {
	return &berthv1.ProgressResponse{}, s.broker.Progress(ctx, lease.Token{LeaseID: lease.LeaseID(m.GetLeaseId())}, m.GetDoing())
}
