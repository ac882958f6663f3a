package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

type workerAPI struct {
	enginerpc.UnimplementedWorkerServer
	s *Server
}

// link is one worker's stream.
type link struct {
	s      *Server
	stream enginerpc.Worker_WorkServer
	// ended is closed, with why set, when the stream is to end.
	once  sync.Once
	ended chan struct{}
	why   error

	heard atomic.Int64  // messages received
	bytes *atomic.Int64 // from the connection: a large message is heard of long before it is received
	sent  atomic.Int64  // the seq of the last message sent
	read  atomic.Int64  // the newest seq that the worker has read

	ws atomic.Pointer[engine.WorkerStream] // nil before the hello

	// The watch's own.
	heardBefore, bytesBefore, sentBefore int64
	quiet, idle                          int
	marks                                [unreadTicks]int64 // what had been sent, a tick each
	at                                   int
}

// Work serves a stream to its end.
func (a workerAPI) Work(stream enginerpc.Worker_WorkServer) error {
	s := a.s
	l := &link{s: s, stream: stream, ended: make(chan struct{}), bytes: s.meter.of(peerOf(stream.Context()))}
	if err := s.add(l); err != nil {
		return err
	}
	defer s.remove(l)
	// It ends when the handler returns, for that ends the stream's context.
	s.group.Run("receive from a worker", l.receive, l.closed)
	<-l.ended
	return l.why
}

func peerOf(ctx context.Context) string {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

func (s *Server) add(l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls.stopping() {
		return errStopping
	}
	s.links[l] = true
	return nil
}

func (s *Server) remove(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
}

// finish ends the stream, for the first reason given.
func (l *link) finish(why error) {
	l.once.Do(func() {
		l.why = why
		ws := l.ws.Load()
		switch {
		case ws == nil:
		case why == nil || why == errStopping:
			ws.Leave() // the worker has not died
		default:
			ws.Break(why)
		}
		close(l.ended)
	})
}

// closed is how the goroutines of a stream end.
func (l *link) closed(err error) error {
	if errors.Is(err, io.EOF) {
		err = nil // the worker has closed its end
	}
	l.finish(notForGood(err))
	return nil // one stream's end is not the server's
}

// receive takes the hello and then all that comes. The engine's Receive never
// blocks.
func (l *link) receive(context.Context) error {
	up, err := l.stream.Recv()
	if err != nil {
		return err
	}
	l.heard.Add(1)
	ws, err := l.s.e.Connect(up.Hello)
	if err != nil {
		return err
	}
	l.ws.Store(ws)
	select {
	case <-l.ended: // while it connected
		ws.Leave()
		return nil
	default:
	}
	l.s.group.Run("send to a worker", func(context.Context) error { return l.send(ws) }, l.closed)
	if err := ws.Receive(&pb.WorkerUp{Seq: up.Seq}); err != nil {
		return err
	}
	for {
		if up, err = l.stream.Recv(); err != nil {
			return err
		}
		l.heard.Add(1)
		if up.Read > l.read.Load() {
			l.read.Store(up.Read)
		}
		if err := ws.Receive(up); err != nil {
			return err
		}
	}
}

// send sends all that is ready, cut by bytes.
func (l *link) send(ws *engine.WorkerStream) error {
	for {
		down, err := ws.Next(l.stream.Context())
		if err != nil {
			return err
		}
		for _, part := range split(down, messageBytes) {
			part.Seq = l.sent.Load() + 1
			if err := l.stream.Send(part); err != nil {
				return err
			}
			l.sent.Store(part.Seq)
		}
	}
}

// notForGood tells a worker to come back: over a network, another engine may
// stand where this one was closed.
func notForGood(err error) error {
	if apierr.Is(err, apierr.Closed) {
		return errStopping
	}
	return err
}

// watch pings, and ends the streams of workers that are silent or do not read.
func (s *Server) watch(ctx context.Context) error {
	t := time.NewTicker(s.o.Tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		s.tellHealth()
		s.mu.Lock()
		links := make([]*link, 0, len(s.links))
		for l := range s.links {
			links = append(links, l)
		}
		s.mu.Unlock()
		for _, l := range links {
			if why := l.tick(); why != nil {
				l.finish(why)
			}
		}
	}
}

// tellHealth lets gRPC's health service say what the engine says.
func (s *Server) tellHealth() {
	status := healthpb.HealthCheckResponse_SERVING
	if s.e.Ready() != nil {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", status) // does nothing after Stop
}

// tick looks at a stream; the error is why it must end.
func (l *link) tick() error {
	heard, bytes, sent, ws := l.heard.Load(), l.bytes.Load(), l.sent.Load(), l.ws.Load()
	if l.quiet++; heard != l.heardBefore || bytes-l.bytesBefore >= lifeBytes {
		l.heardBefore, l.quiet = heard, 0
	}
	l.bytesBefore = bytes
	if l.idle++; sent != l.sentBefore {
		l.sentBefore, l.idle = sent, 0
	}
	switch {
	case l.quiet >= silentTicks && ws == nil:
		return apierr.New(apierr.InvalidArgument, "work", fmt.Sprintf("no hello within %v", silentTicks*l.s.o.Tick), "")
	case l.quiet >= silentTicks:
		return l.lost("the worker has been silent for %v", silentTicks)
	case l.marks[l.at] > l.read.Load():
		return l.lost("the worker has not read what was sent to it %v ago", unreadTicks)
	}
	l.marks[l.at] = sent
	l.at = (l.at + 1) % len(l.marks)
	if ws != nil && l.idle >= pingTicks {
		l.idle = 0
		ws.Ping()
	}
	return nil
}

func (l *link) lost(format string, ticks int) error {
	return apierr.New(apierr.Unavailable, "work", fmt.Sprintf(format, time.Duration(ticks)*l.s.o.Tick), "connect again")
}
