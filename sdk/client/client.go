package client

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"google.golang.org/grpc"

	"github.com/engined/engined/internal/dial"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
	"github.com/engined/engined/sdk/codec"
)

// Service is what a client calls: the methods of the service Client in
// proto/engined/v1/service.proto. Its errors are *Error, or the context's.
type Service interface {
	Start(context.Context, *pb.StartRequest) (*pb.StartResponse, error)
	Await(context.Context, *pb.AwaitRequest) (*pb.AwaitResponse, error)
	Cancel(context.Context, *pb.CancelRequest) (*pb.CancelResponse, error)
	Terminate(context.Context, *pb.TerminateRequest) (*pb.TerminateResponse, error)
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
	// Logger is told when a call has been repeated for some seconds without an
	// answer, once a call: slog.Default().
	Logger *slog.Logger
	// Shuffle makes Dial try the addresses in an order drawn at random, so that
	// many clients spread over the engines. Without it their own order counts.
	Shuffle bool
}

// Client calls an engine. Its methods may be called by any goroutine.
type Client struct {
	s Service
	o Options

	// Of a client that has dialed; nil for an engine in this process.
	conn     *grpc.ClientConn
	closed   chan struct{}
	close    sync.Once
	closeErr error
}

// New returns a client that calls s: an engine in this process.
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
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Client{s: s, o: o}
}

// Dial returns a client of the engine at address, "host:port", or of several,
// separated by commas, of which one is used at a time: the first that can be
// reached, and the next when it is lost. The port is 7450 where none is given.
// The traffic is not encrypted.
//
// Nothing is connected before the first call, so an engine need not be there:
// only an address that cannot be one is an error (IsInvalidArgument). Close the
// client when it is no longer needed.
func Dial(address string, o Options) (*Client, error) {
	conn, err := dial.New(address, dial.Options{Shuffle: o.Shuffle})
	if err != nil {
		return nil, err
	}
	c := New(remote{enginerpc.NewClientClient(conn)}, o)
	c.conn, c.closed = conn, make(chan struct{})
	return c, nil
}

// Close closes the connections of a client made by Dial; calls under way fail,
// and so do later ones (IsClosed). It does nothing to a client made by New,
// which ends with its engine. A second Close does nothing.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	c.close.Do(func() {
		close(c.closed)
		c.closeErr = c.conn.Close()
	})
	return c.closeErr
}

// Namespace returns the namespace of the client's calls.
func (c *Client) Namespace() string { return c.o.Namespace }

// List returns a page of runs, newest first. The filter's namespace is the
// client's.
func (c *Client) List(ctx context.Context, filter *pb.ListRequest) (*pb.ListResponse, error) {
	return again(ctx, c, "list", c.s.List, &pb.ListRequest{
		Namespace: c.o.Namespace, Status: filter.GetStatus(), Type: filter.GetType(),
		WorkflowId: filter.GetWorkflowId(), Limit: filter.GetLimit(), Page: filter.GetPage(),
	})
}

// Await waits until a run is settled, its compensation included, and returns how
// it ended, whatever its types: for tools. An empty runID is the newest run of
// the id. See Run.Result for programs.
func (c *Client) Await(ctx context.Context, workflowID, runID string) (*pb.Result, error) {
	ref, err := c.ref("await", workflowID, runID)
	if err != nil {
		return nil, err
	}
	res, err := again(ctx, c, "await", c.s.Await, &pb.AwaitRequest{Run: ref})
	return res.GetResult(), err
}
