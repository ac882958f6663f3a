package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/dial"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// Dial returns a worker that reaches its engine by gRPC, at "host:port" or at
// several of these separated by commas, which are tried in their order. Nothing
// is connected before Start, and no engine need be there then. The connection is
// closed when the worker has stopped. The error is about the address alone.
func Dial(address string, o Options) (*Worker, error) {
	bytes := new(atomic.Int64)
	conn, err := dial.New(address, dial.Options{Heard: bytes})
	if err != nil {
		return nil, fmt.Errorf("dial worker: %w", err)
	}
	r := &remote{address: address, bytes: bytes, conn: conn}
	w := New(r, o)
	w.bytes = bytes
	w.disconnect = r.close
	return w, nil
}

// remote opens streams over a network.
type remote struct {
	address string
	bytes   *atomic.Int64 // from the network

	mu     sync.Mutex
	conn   *grpc.ClientConn
	dead   bool // nothing was heard over the connection
	closed bool
}

func (r *remote) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.conn.Close()
}

// doubt has the next stream opened over another connection. One that is silent
// would take gRPC longer to notice, and streams over it would be silent, too.
func (r *remote) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
}

func (r *remote) connection() (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead || r.closed {
		return r.conn, nil
	}
	conn, err := dial.New(r.address, dial.Options{Heard: r.bytes})
	if err != nil {
		return nil, err
	}
	_ = r.conn.Close() // it has nothing left to tell
	r.conn, r.dead = conn, false
	return conn, nil
}

// freshTry is how long a connection that failed before has to do better, before
// the failure is believed.
const freshTry = 200 * time.Millisecond

// Work opens a stream. It fails soon when no engine can be reached.
func (r *remote) Work(ctx context.Context) (Stream, error) {
	conn, err := r.connection()
	if err != nil {
		return nil, err
	}
	if conn.GetState() == connectivity.TransientFailure {
		// The caller has waited by its own policy; the connection need not rest
		// by another's.
		conn.ResetConnectBackoff()
		fresh, cancel := context.WithTimeout(ctx, freshTry)
		conn.WaitForStateChange(fresh, connectivity.TransientFailure)
		cancel()
	}
	s, err := enginerpc.NewWorkerClient(conn).Work(ctx)
	if err != nil {
		return nil, ofNetwork(ctx, err)
	}
	return remoteStream{r: r, ctx: ctx, grpc: s}, nil
}

type remoteStream struct {
	r    *remote
	ctx  context.Context
	grpc enginerpc.Worker_WorkClient
}

var errEnded = errors.New("the engine has ended the stream")

func (remoteStream) Pings() bool { return true }

// Send may give io.EOF: Recv tells why.
func (s remoteStream) Send(up *pb.WorkerUp) error { return ofNetwork(s.ctx, s.grpc.Send(up)) }

func (s remoteStream) CloseSend() error { return ofNetwork(s.ctx, s.grpc.CloseSend()) }

func (s remoteStream) Recv() (*pb.WorkerDown, error) {
	down, err := s.grpc.Recv()
	if err == io.EOF {
		return nil, errEnded
	}
	if err != nil && context.Cause(s.ctx) == errSilent {
		s.r.doubt()
	}
	return down, ofNetwork(s.ctx, err)
}

func ofNetwork(ctx context.Context, err error) error {
	if err == io.EOF {
		return err
	}
	err = rpcerr.FromStatus(ctx, "work", err)
	var e *apierr.Error
	if errors.As(err, &e) && e.Code == apierr.Closed {
		// Not for good: another engine may stand there soon.
		e.Code = apierr.Unavailable
	}
	return err
}
