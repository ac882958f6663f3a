package rpc

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
)

// errStopping is what calls get while the server stops. A client's policy
// repeats them, and another server may be there by then.
var errStopping = apierr.New(apierr.Unavailable, "", "the engine is being shut down", "try again: it, or another, may be back soon")

// calls are the unary calls under way.
type calls struct {
	mu      sync.Mutex
	idle    sync.Cond
	running int
	closed  bool
	// waiting ends the calls that only wait.
	waiting context.Context
	end     context.CancelCauseFunc
}

func (c *calls) init() {
	c.idle.L = &c.mu
	// It ends by drain.
	c.waiting, c.end = context.WithCancelCause(context.Background())
}

func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errStopping
	}
	c.running++
	return nil
}

func (c *calls) stopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *calls) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 {
		c.idle.Broadcast()
	}
}

// drain refuses new calls, ends those that wait, and waits for the others until
// ctx ends.
func (c *calls) drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.end(errStopping)
	for c.running > 0 && ctx.Err() == nil {
		c.idle.Wait()
	}
}

// waits says that a call may last for as long as a run.
func waits(req any) bool {
	switch req := req.(type) {
	case *pb.AwaitRequest:
		return true
	case *pb.StartRequest:
		return req.Await
	case *pb.HistoryRequest:
		return req.Wait
	default:
		return false
	}
}

// unary is what all calls go through: counted, refused while stopping, their
// errors turned into statuses, and no panic reaches the peer.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (res any, err error) {
	began := time.Now()
	defer func() { s.observe(info.FullMethod, err, began) }()
	defer s.recovered(info.FullMethod, &err)
	if err := s.calls.begin(); err != nil {
		return nil, rpcerr.ToStatus(err)
	}
	defer s.calls.done()
	if waits(req) {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.calls.waiting, func() { cancel(errStopping) })()
	}
	if err := s.reads.enter(ctx, req); err != nil {
		return nil, rpcerr.ToStatus(err)
	}
	defer s.reads.leave(req)
	res, err = handler(ctx, req)
	if _, ok := status.FromError(err); !ok {
		err = rpcerr.ToStatus(err)
	}
	return res, err
}

func (s *Server) streamed(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	began := time.Now()
	defer func() { s.observe(info.FullMethod, err, began) }()
	defer s.recovered(info.FullMethod, &err)
	err = handler(srv, stream)
	if _, ok := status.FromError(err); !ok {
		err = rpcerr.ToStatus(err)
	}
	return err
}

func (s *Server) observe(method string, err error, began time.Time) {
	if s.o.Observe == nil {
		return
	}
	method = method[strings.LastIndexByte(method, '.')+1:] // "/engined.v1.Client/Start"
	s.o.Observe(method, status.Code(err).String(), time.Since(began))
}

// recovered turns a panic of a handler into an error: the server's fault, told
// in its log.
func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.o.Logger.Error("a call has panicked", "method", method, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
		*err = rpcerr.ToStatus(apierr.New(apierr.Internal, method, "the engine is at fault; its log has the details", ""))
	}
}

// gate bounds the calls that read much: so many at once, so many waiting.
type gate struct {
	slots chan struct{}
	queue chan struct{}
}

func newGate(at, waiting int) gate {
	return gate{slots: make(chan struct{}, at), queue: make(chan struct{}, at+waiting)}
}

// heavy says that a call reads many rows. One that follows a history waits for
// most of its time and reads little: it is not counted.
func heavy(req any) bool {
	switch req := req.(type) {
	case *pb.HistoryRequest:
		return !req.Wait
	case *pb.ListRequest:
		return true
	default:
		return false
	}
}

func (g gate) enter(ctx context.Context, req any) error {
	if !heavy(req) {
		return nil
	}
	select {
	case g.queue <- struct{}{}:
	default:
		return apierr.New(apierr.ResourceExhausted, "read", fmt.Sprintf("%d reads are under way or wait", cap(g.queue)), "try again later")
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-g.queue
		return context.Cause(ctx)
	}
}

func (g gate) leave(req any) {
	if heavy(req) {
		<-g.slots
		<-g.queue
	}
}
