package server

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/berth-dev/berth/api"
	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
)

// schema is the version of the API: what is added raises it.
const schema = 1

// pools is the PoolService.
type pools struct {
	broker  *broker.Broker
	version string
}

func (s pools) Apply(ctx context.Context, m *berthv1.ApplyRequest) (*berthv1.ApplyResponse, error) {
	specs, err := api.FromSpecs(m.GetPools())
	if err != nil {
		return nil, err
	}
	diff, err := s.broker.Apply(ctx, lease.SourceAPI, specs, m.GetDryRun())
	if err != nil {
		return nil, err
	}
	return api.Diff(diff), nil
}

func (s pools) GetStatus(ctx context.Context, m *berthv1.GetStatusRequest) (*berthv1.GetStatusResponse, error) {
	status, err := s.broker.Status(ctx, m.GetBrief())
	if err != nil {
		return nil, err
	}
	return api.Status(status), nil
}

func (s pools) Watch(ctx context.Context, m *berthv1.WatchRequest, to *connect.ServerStream[berthv1.WatchResponse]) error {
	if err := to.Send(nil); err != nil { // who watches hears that it does, also before the first event
		return err
	}
	return s.broker.Watch(ctx, m.GetFrom(), func(e broker.Event) error {
		return to.Send(&berthv1.WatchResponse{
			Number: e.Number, Kind: e.Kind, At: durationpb.New(e.At), Request: string(e.Request), Lease: string(e.Lease),
			Fence: uint64(e.Fence), Pool: e.Pool, Slot: e.Slot, Why: e.Why, Reason: e.Reason,
		})
	})
}

func (s pools) GetInfo(context.Context, *berthv1.GetInfoRequest) (*berthv1.GetInfoResponse, error) {
	return &berthv1.GetInfoResponse{Version: s.version, Schema: schema}, nil
}

// operator is the OperateService.
type operator struct{ broker *broker.Broker }

func (s operator) Drain(ctx context.Context, m *berthv1.DrainRequest) (*berthv1.DrainResponse, error) {
	return &berthv1.DrainResponse{}, s.broker.Drain(ctx, m.GetPool(), m.GetSlot())
}

func (s operator) Undrain(ctx context.Context, m *berthv1.UndrainRequest) (*berthv1.UndrainResponse, error) {
	return &berthv1.UndrainResponse{}, s.broker.Undrain(ctx, m.GetPool(), m.GetSlot())
}

func (s operator) Revoke(ctx context.Context, m *berthv1.RevokeRequest) (*berthv1.RevokeResponse, error) {
	return &berthv1.RevokeResponse{}, s.broker.Revoke(ctx, lease.Ref(m.GetLease()), m.GetReason())
}

func (s operator) Clear(ctx context.Context, m *berthv1.ClearRequest) (*berthv1.ClearResponse, error) {
	return &berthv1.ClearResponse{}, s.broker.Clear(ctx, m.GetPool(), m.GetSlot(), lease.Ref(m.GetLease()))
}
