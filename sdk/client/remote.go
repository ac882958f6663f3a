package client

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

const (
	// callLimit bounds one try of a call that an engine answers when it has
	// committed. What is slower than that is taken for lost, and repeated.
	callLimit = 10 * time.Second
	// followLimit is for a page of a history that is followed: the engine answers
	// after 20 s if nothing happens.
	followLimit = 20*time.Second + callLimit
	// noLimit is for a call that lasts as long as a run. A peer that is dead is
	// noticed by the connection's pings.
	noLimit = 0
)

// remote is a Service over gRPC. The deadline of a call goes with it.
type remote struct{ c enginerpc.ClientClient }

func (r remote) Start(ctx context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	limit := callLimit
	if req.Await {
		limit = noLimit
	}
	return bounded(ctx, "start", limit, r.c.Start, req)
}

func (r remote) Await(ctx context.Context, req *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return bounded(ctx, "await", noLimit, r.c.Await, req)
}

func (r remote) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.CancelResponse, error) {
	return bounded(ctx, "cancel", callLimit, r.c.Cancel, req)
}

func (r remote) Terminate(ctx context.Context, req *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	return bounded(ctx, "terminate", callLimit, r.c.Terminate, req)
}

func (r remote) Describe(ctx context.Context, req *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	return bounded(ctx, "describe", callLimit, r.c.Describe, req)
}

func (r remote) History(ctx context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	limit := callLimit
	if req.Wait {
		limit = followLimit
	}
	return bounded(ctx, "history", limit, r.c.History, req)
}

func (r remote) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	return bounded(ctx, "list", callLimit, r.c.List, req)
}

// bounded makes one try of a call. One that reaches the limit, and not the
// caller's deadline, is Unavailable.
func bounded[Q, R any](ctx context.Context, op string, limit time.Duration, call func(context.Context, Q, ...grpc.CallOption) (R, error), req Q) (R, error) {
	if limit != noLimit {
		slow := apierr.New(apierr.Unavailable, op, "no answer within "+limit.String(), "is the engine overloaded, or unreachable?")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, slow)
		defer cancel()
	}
	res, err := call(ctx, req)
	return res, rpcerr.FromStatus(ctx, op, err)
}
