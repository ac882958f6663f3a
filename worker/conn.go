package worker

import (
	"context"

	pb "github.com/engined/engined/proto/enginepb"
)

// Conn is how a worker reaches an engine: in the same process, or over the
// network.
type Conn interface {
	// Work opens a stream. It lives until its context ends, it breaks, or
	// CloseSend was called and the engine has ended it.
	Work(ctx context.Context) (Stream, error)
}

// Stream is one worker stream. Send and CloseSend are called by one goroutine at
// a time, Recv by another; both return when the context of Work ends. A Send that
// returns io.EOF leaves it to Recv to tell why the stream has ended. Messages are
// not changed once they are handed over, by either side.
type Stream interface {
	Send(*pb.WorkerUp) error
	Recv() (*pb.WorkerDown, error)
	// CloseSend says that nothing more is sent.
	CloseSend() error
}

// A stream over a network has this method as well, and answers true: there a
// stream may die without breaking. Both ends ping each second then, and an end
// that hears nothing for three seconds gives the stream up. A stream within one
// process has nothing between its ends that could keep silent.
type pinged interface{ Pings() bool }

func pings(s Stream) bool {
	p, ok := s.(pinged)
	return ok && p.Pings()
}

// Protocol is the version of the stream that this package speaks.
const Protocol = 1
