package engine

import (
	"context"
	"sync"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// LocalStream is a worker's stream without a socket, for a worker in the
// engine's process. Messages are handed over as they are and must not be changed
// afterwards.
type LocalStream struct {
	e   *Engine
	ctx context.Context

	mu     sync.Mutex
	s      *WorkerStream
	opened chan struct{}
}

// Work opens a stream; the first message sent must be the hello.
func (e *Engine) Work(ctx context.Context) *LocalStream {
	return &LocalStream{e: e, ctx: ctx, opened: make(chan struct{})}
}

// Send hands a message to the engine. It never blocks.
func (l *LocalStream) Send(up *pb.WorkerUp) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s != nil {
		return l.s.Receive(up)
	}
	s, err := l.e.Connect(up.Hello)
	if err != nil {
		return err
	}
	l.s = s
	close(l.opened)
	return s.Receive(&pb.WorkerUp{Seq: up.Seq})
}

// Recv returns the next message from the engine.
func (l *LocalStream) Recv() (*pb.WorkerDown, error) {
	select {
	case <-l.opened:
		return l.s.Next(l.ctx)
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// CloseSend ends the stream.
func (l *LocalStream) CloseSend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s == nil {
		return apierr.New(apierr.FailedPrecondition, "work", "the stream was never opened", "")
	}
	l.s.Leave()
	return nil
}
