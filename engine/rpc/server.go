package rpc

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/internal/svc"
	"github.com/engined/engined/proto/enginerpc"
)

// Options of a server. The zero value has the defaults named.
type Options struct {
	// Logger is slog.Default().
	Logger *slog.Logger
	// Version is told to who asks.
	Version string
	// Observe is called after each call, with its method ("Client/Start") and the
	// name of its gRPC code; it must not block. A worker's stream is one call.
	Observe func(method, code string, took time.Duration)
	// Tick is the step in which silence is counted: 250 ms. All times of a
	// worker's stream are multiples of it; tests make them short.
	Tick time.Duration
}

// The times of a worker's stream, in ticks.
const (
	pingTicks   = 4   // 1 s: nothing was sent to the worker
	silentTicks = 12  // 3 s: nothing came from it
	unreadTicks = 120 // 30 s: it has not read what was sent, 2 MiB over a slow link perhaps
)

// lifeBytes in a tick are part of a message, and so a sign of life; what gRPC says
// by itself, for a process whose worker may be at fault, is less.
const lifeBytes = 1 << 10

// The bounds of what peers may ask for.
const (
	// messageBytes is where messages to workers are cut; one item is never cut.
	messageBytes = 1 << 20
	// maxMessage bounds what is received: all decisions of one input travel
	// together.
	maxMessage = 64 << 20
	// readersWaiting histories and lists may wait while others are read, one a
	// processor: more at once read no faster, and all else waits behind them.
	readersWaiting = 2000
	// streamsPerConn bounds the calls under way on one connection; most of them
	// wait for a run's end, which costs little.
	streamsPerConn = 20_000
	maxHeader      = 16 << 10
)

// Server serves one engine. Make it with NewServer.
type Server struct {
	e      *engine.Engine
	o      Options
	grpc   *grpc.Server
	health *health.Server
	group  *svc.Group
	reads  gate
	calls  calls
	meter  meter

	mu    sync.Mutex
	links map[*link]bool
}

// NewServer returns a server of e. Nothing is served before Serve.
func NewServer(e *engine.Engine, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Tick == 0 {
		o.Tick = 250 * time.Millisecond
	}
	s := &Server{
		e: e, o: o, health: health.NewServer(), reads: newGate(runtime.GOMAXPROCS(0), readersWaiting), links: map[*link]bool{},
	}
	s.calls.init()
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(streamsPerConn), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.streamed),
	)
	enginerpc.RegisterWorkerServer(s.grpc, workerAPI{s: s})
	enginerpc.RegisterClientServer(s.grpc, clientAPI{s: s})
	enginerpc.RegisterAdminServer(s.grpc, adminAPI{s: s})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Serve takes connections from lis until Stop, and then returns nil. It may be
// called for several listeners, but not after Stop.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	if s.calls.stopping() {
		s.mu.Unlock()
		return lis.Close() // it was stopped before it began
	}
	if s.group == nil {
		// The watch ends by Stop, after the streams that it watches.
		s.group = svc.New(context.Background())
		s.group.Go("watch of worker streams", s.watch)
	}
	s.mu.Unlock()
	return s.grpc.Serve(metered{lis, &s.meter})
}

// Stop ends serving in order: new calls are refused, calls that only wait are
// sent away to come back, short calls are finished until ctx ends; then the
// workers' streams are ended, which they open again elsewhere or later. A second
// call does nothing.
func (s *Server) Stop(ctx context.Context) {
	s.health.Shutdown()
	s.calls.drain(ctx)
	s.mu.Lock()
	for l := range s.links {
		l.finish(errStopping)
	}
	group := s.group
	s.mu.Unlock()
	s.grpc.Stop()
	if group != nil {
		group.Stop(errStopping)
	}
}
