// Package rpcerr carries the errors of the engine's interface over gRPC.
//
// It owns the one mapping between internal/apierr and gRPC's statuses, for both
// ends: an error arrives with its code, its words, its hint and the run in the
// way, as it was sent. It must not know which calls there are.
package rpcerr

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// ToStatus turns an error of the engine into a gRPC status error. A context's
// error keeps its meaning; one of no known kind becomes Internal without a word
// of its own, since it may tell what is nobody's business.
func ToStatus(err error) error {
	var e *apierr.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the deadline of the call has passed")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the call was given up")
	default:
		return status.Error(codes.Internal, "the engine is at fault; its log has the details")
	}
	s := status.New(codeOf(e.Code), e.Error())
	withDetail, err := s.WithDetails(&pb.ErrorDetail{
		Code: int32(e.Code), Op: e.Op, Message: e.Message, Hint: e.Hint, RunId: e.RunID,
	})
	if err != nil {
		return s.Err() // it is too large for its details: the words are there
	}
	return withDetail.Err()
}

// FromStatus turns what a gRPC call failed with into an *apierr.Error, or into
// the context's error if that is what ended it. op names the call where the
// status does not.
func FromStatus(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	for _, d := range s.Details() {
		if d, ok := d.(*pb.ErrorDetail); ok {
			e := apierr.New(apierr.Code(d.Code), d.Op, d.Message, d.Hint)
			e.RunID = d.RunId
			return e
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	hint := ""
	code := apierr.Internal
	switch s.Code() {
	case codes.Unavailable, codes.Aborted:
		code, hint = apierr.Unavailable, "is the engine running at this address?"
	case codes.DeadlineExceeded, codes.Canceled:
		// Not this side's context: the server's, or a proxy's.
		code = apierr.Unavailable
	case codes.ResourceExhausted:
		code, hint = apierr.ResourceExhausted, "a message may be too large, or the engine busy"
	case codes.InvalidArgument, codes.OutOfRange:
		code = apierr.InvalidArgument
	case codes.Unimplemented:
		code, hint = apierr.InvalidArgument, "what listens at this address does not know the call: use the same release on both sides"
	case codes.NotFound:
		code = apierr.NotFound
	}
	e := apierr.New(code, op, s.Message(), hint)
	e.Err = err
	return e
}

func codeOf(c apierr.Code) codes.Code {
	switch c {
	case apierr.InvalidArgument:
		return codes.InvalidArgument
	case apierr.NotFound:
		return codes.NotFound
	case apierr.AlreadyExists:
		return codes.AlreadyExists
	case apierr.FailedPrecondition:
		return codes.FailedPrecondition
	case apierr.ResourceExhausted:
		return codes.ResourceExhausted
	case apierr.Unavailable, apierr.Closed:
		// Another engine may stand where this one was closed.
		return codes.Unavailable
	default:
		return codes.Internal
	}
}
