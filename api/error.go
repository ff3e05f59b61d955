package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// Error returns err as the wire tells it: with the status of its code and the
// code in a detail. It is nil for nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	var status connect.Code
	// The names of statuses are Connect's own.
	if status.UnmarshalText([]byte(policy.Of(err).Status)) != nil {
		status = connect.CodeInternal
	}
	told := connect.NewError(status, errors.New(err.Error()))
	detail, failed := connect.NewErrorDetail(&berthv1.ErrorDetail{Code: string(codeOf(err))})
	if failed == nil {
		told.AddDetail(detail)
	}
	return told
}

// codeOf returns the code of err; a context that ended has that of what became
// of the call.
func codeOf(err error) lease.Code {
	code := lease.CodeOf(err)
	if code == lease.CodeInternal && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return lease.CodeCancelled
	}
	return code
}

// FromError returns a failed call's error as the broker meant it: with the code
// in its detail. An error without one is not the broker's answer, so it is
// returned as it is, without a code: the call may have been served.
func FromError(err error) error {
	told, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	for _, d := range told.Details() {
		message, failed := d.Value()
		if failed != nil {
			continue
		}
		if detail, ok := message.(*berthv1.ErrorDetail); ok && detail.Code != "" {
			return lease.Errorf(lease.Code(detail.Code), "%s", told.Message())
		}
	}
	return err
}
