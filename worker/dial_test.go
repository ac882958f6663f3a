package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// remoteEnd is an engine's end behind a socket: hellos are handed to the test,
// and serve does what comes after.
type remoteEnd struct {
	enginerpc.UnimplementedWorkerServer
	hellos chan *pb.WorkerUp
	serve  func(stream enginerpc.Worker_WorkServer) error
}

func (e *remoteEnd) Work(stream enginerpc.Worker_WorkServer) error {
	up, err := stream.Recv()
	if err != nil {
		return err
	}
	e.hellos <- up
	return rpcerr.ToStatus(e.serve(stream))
}

// listens runs the engine's end, at an address or at any, until stop.
func (e *remoteEnd) listens(t *testing.T, address string) (at string, stop func()) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	enginerpc.RegisterWorkerServer(s, e)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stop = func() { s.Stop(); <-ended; ended <- nil }
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// come waits for something that must come, however slow the machine is.
func come[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}

func dialed(t *testing.T, address string, log *buffer) *Worker {
	w, err := Dial(address, Options{Build: "b", Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	register(newShop())(w)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.Stop(ctx)
	})
	return w
}

func TestAWorkerServesAnEngineFarAwayToTheEnd(t *testing.T) {
	done, left := make(chan *pb.Done, 1), make(chan struct{})
	e := &remoteEnd{hellos: make(chan *pb.WorkerUp, 10), serve: func(stream enginerpc.Worker_WorkServer) error {
		first := &pb.WorkerDown{Seq: 1, Welcome: &pb.Welcome{}, Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}}
		if err := stream.Send(first); err != nil {
			return err
		}
		for {
			up, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				close(left)
				return nil
			}
			if err != nil {
				return err
			}
			if len(up.Done) > 0 {
				done <- up.Done[0]
			}
			if err := stream.Send(&pb.WorkerDown{Durable: up.Seq}); err != nil {
				return err
			}
		}
	}}
	at, _ := e.listens(t, "127.0.0.1:0")
	var log buffer
	w := dialed(t, "127.0.0.1:1,"+at, &log) // the first address is nobody's
	hello := come(t, "the hello", e.hellos)
	if hello.Seq != 1 || !slices.Contains(hello.Hello.GetActivityTypes(), "shop.Echo") {
		t.Errorf("hello %v", hello)
	}
	if d := come(t, "the answer", done); d.Outcome != pb.Outcome_OUTCOME_COMPLETED {
		t.Errorf("answered %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Errorf("stop: %v\n%s", err, log.String())
	}
	come(t, "the orderly end of the stream", left)
	if err := w.disconnect(); err == nil {
		t.Error("the connection was left open")
	}
}

func TestAWorkerComesBackToAnEngineThatWasRestarted(t *testing.T) {
	e := &remoteEnd{hellos: make(chan *pb.WorkerUp, 100), serve: func(stream enginerpc.Worker_WorkServer) error {
		<-stream.Context().Done()
		return apierr.New(apierr.Closed, "work", "the engine is closed", "")
	}}
	at, stop := e.listens(t, "127.0.0.1:0")
	var log buffer
	dialed(t, at, &log)
	first := come(t, "the hello", e.hellos)
	stop()
	e.listens(t, at)
	if again := come(t, "the hello after the restart", e.hellos); again.Hello.Worker != first.Hello.Worker {
		t.Errorf("the worker came back as %q, it was %q", again.Hello.Worker, first.Hello.Worker)
	}
}

func TestAnEngineThatRefusesTheHelloIsQuotedAndAskedAgain(t *testing.T) {
	refusal := apierr.New(apierr.InvalidArgument, "connect", "the worker speaks protocol 1", "use the same release on both sides")
	e := &remoteEnd{hellos: make(chan *pb.WorkerUp, 1000), serve: func(enginerpc.Worker_WorkServer) error { return refusal }}
	at, _ := e.listens(t, "127.0.0.1:0")
	var log buffer
	dialed(t, at, &log)
	for range 3 {
		come(t, "a hello", e.hellos)
	}
	if s := log.String(); !strings.Contains(s, refusal.Message) || !strings.Contains(s, refusal.Hint) {
		t.Errorf("the log does not quote it:\n%s", s)
	}
}

func TestAfterSilenceAnotherConnectionIsMade(t *testing.T) {
	peers := make(chan string, 10)
	e := &remoteEnd{hellos: make(chan *pb.WorkerUp, 10), serve: func(stream enginerpc.Worker_WorkServer) error {
		p, _ := peer.FromContext(stream.Context())
		peers <- p.Addr.String()
		<-stream.Context().Done()
		return nil
	}}
	at, _ := e.listens(t, "127.0.0.1:0")
	var log buffer
	w, err := Dial(at, Options{Build: "b", Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.disconnect()
	open := func(why error) string {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := w.conn.Work(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.WorkerUp{Hello: &pb.Hello{}}); err != nil {
			t.Fatal(err)
		}
		from := come(t, "the stream", peers)
		cancel(why)
		if _, err := s.Recv(); err != why {
			t.Errorf("the stream ended with %v, want %v", err, why)
		}
		return from
	}
	first, second, third := open(errBroken), open(errSilent), open(errBroken)
	if first != second || second == third {
		t.Errorf("the streams came from %s, %s and, after silence, %s", first, second, third)
	}
}

func TestOnlyAnAddressThatCannotBeOneIsAnError(t *testing.T) {
	if _, err := Dial("http://engine", Options{}); !apierr.Is(err, apierr.InvalidArgument) {
		t.Errorf("dial: %v", err)
	}
	w, err := Dial("nobody.invalid", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := w.disconnect(); err == nil {
		t.Error("the connection of a worker that was never started was left open")
	}
}
