package rpc

import (
	"context"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// clientAPI and adminAPI hand calls to the engine as they are. What they have in
// common is in Server.unary.
type clientAPI struct {
	enginerpc.UnimplementedClientServer
	s *Server
}

func (a clientAPI) Start(ctx context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	return a.s.e.Start(ctx, req)
}

func (a clientAPI) Await(ctx context.Context, req *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return a.s.e.Await(ctx, req)
}

func (a clientAPI) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.CancelResponse, error) {
	return a.s.e.Cancel(ctx, req)
}

func (a clientAPI) Terminate(ctx context.Context, req *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	return a.s.e.Terminate(ctx, req)
}

func (a clientAPI) Describe(ctx context.Context, req *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	return a.s.e.Describe(ctx, req)
}

func (a clientAPI) History(ctx context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	return a.s.e.History(ctx, req)
}

func (a clientAPI) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	return a.s.e.List(ctx, req)
}

type adminAPI struct {
	enginerpc.UnimplementedAdminServer
	s *Server
}

func (a adminAPI) GetServerInfo(ctx context.Context, req *pb.ServerInfoRequest) (*pb.ServerInfo, error) {
	info, err := a.s.e.GetServerInfo(ctx, req)
	if err == nil {
		info.Version = a.s.o.Version
	}
	return info, err
}

func (a adminAPI) ListWorkers(ctx context.Context, req *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	return a.s.e.ListWorkers(ctx, req)
}

func (a adminAPI) ListQueues(ctx context.Context, req *pb.ListQueuesRequest) (*pb.ListQueuesResponse, error) {
	return a.s.e.ListQueues(ctx, req)
}
