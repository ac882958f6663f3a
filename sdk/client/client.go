package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/retry"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
)

// Service is what a client calls: the methods of the service Client in
// proto/engined/v1/service.proto. Its errors are *Error, or the context's.
type Service interface {
	Start(context.Context, *pb.StartRequest) (*pb.StartResponse, error)
	Await(context.Context, *pb.AwaitRequest) (*pb.AwaitResponse, error)
	Cancel(context.Context, *pb.CancelRequest) (*pb.CancelResponse, error)
	Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error)
	History(context.Context, *pb.HistoryRequest) (*pb.HistoryResponse, error)
	List(context.Context, *pb.ListRequest) (*pb.ListResponse, error)
}

// Options of a client. The zero value has the defaults named.
type Options struct {
	// Namespace is "default".
	Namespace string
	// Identity names the caller in histories: host name and process id.
	Identity string
	// Codec is codec.Default.
	Codec codec.Codec
}

// Client calls one engine. Its methods may be called by any goroutine.
type Client struct {
	s Service
	o Options
}

// New returns a client that calls s.
func New(s Service, o Options) *Client {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		o.Identity = fmt.Sprintf("%s (process %d)", host, os.Getpid())
	}
	if o.Codec == nil {
		o.Codec = codec.Default
	}
	return &Client{s: s, o: o}
}

// Namespace returns the namespace of the client's calls.
func (c *Client) Namespace() string { return c.o.Namespace }

// List returns a page of runs, newest first. The filter's namespace is the
// client's.
func (c *Client) List(ctx context.Context, filter *pb.ListRequest) (*pb.ListResponse, error) {
	req := &pb.ListRequest{
		Namespace: c.o.Namespace, Status: filter.GetStatus(), Type: filter.GetType(),
		WorkflowId: filter.GetWorkflowId(), Limit: filter.GetLimit(), Page: filter.GetPage(),
	}
	return again(ctx, func() (*pb.ListResponse, error) { return c.s.List(ctx, req) })
}

// policy spaces the tries of one call; the context ends them.
var policy = retry.Policy{Attempts: -1, Base: 50 * time.Millisecond, Cap: 5 * time.Second}

// again makes a call until it is answered: an engine that is not available is
// asked again, with the same request, until the context ends. The last error is
// then kept as the context's cause of failure.
func again[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for try := 0; ; try++ {
		v, err := call()
		if !apierr.Is(err, apierr.Unavailable) && !apierr.Is(err, apierr.ResourceExhausted) {
			return v, err
		}
		t := time.NewTimer(policy.Delay(try, rand.Uint64()))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return v, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}
