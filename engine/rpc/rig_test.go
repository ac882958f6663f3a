package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store/memstore"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// lab is an engine on a memory store, served over a socket.
type lab struct {
	t      *testing.T
	e      *engine.Engine
	s      *Server
	addr   string
	conn   *grpc.ClientConn
	client enginerpc.ClientClient
	admin  enginerpc.AdminClient
}

func newLab(t *testing.T, o Options) *lab {
	quiet := slog.New(slog.DiscardHandler)
	e, err := engine.Open(t.Context(), engine.Config{Store: memstore.New(4), Logger: quiet, ReclaimGrace: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = quiet
	l := &lab{t: t, e: e, s: NewServer(e, o)}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = lis.Addr().String()
	served := make(chan error, 1)
	go func() { served <- l.s.Serve(lis) }()
	l.conn, err = grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l.client, l.admin = enginerpc.NewClientClient(l.conn), enginerpc.NewAdminClient(l.conn)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		l.s.Stop(ctx)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = l.conn.Close()
	})
	return l
}

func (l *lab) start(id, typ string, input *pb.Payload) *pb.StartResponse {
	res, err := l.client.Start(l.t.Context(), &pb.StartRequest{
		Namespace: "default", WorkflowId: id, RequestId: "r-" + id, Type: typ, Queue: "default", Input: input,
	})
	if err != nil {
		l.t.Fatalf("start %s: %v", id, err)
	}
	return res
}

func ref(id string) *pb.RunRef { return &pb.RunRef{Namespace: "default", WorkflowId: id} }

// peer is a worker's end of a stream, played by hand. Its functions say what it
// does; nil is what a good worker does.
type peer struct {
	t      *testing.T
	stream enginerpc.Worker_WorkClient
	task   func(*pb.Task)
	fold   func(run int64, stamp *pb.Stamp, in *pb.Event)

	mu     sync.Mutex // of Send, and what is below
	seq    int64
	read   int64
	unread bool // it never says what it has read
}

func hello(worker string) *pb.Hello {
	return &pb.Hello{
		Protocol: engine.Protocol, Namespace: "default", Queue: "default", Worker: worker, Build: "b", Identity: worker,
		WorkflowTypes: []string{"Echo"}, ActivityTypes: []string{"Say"}, Slots: 10,
	}
}

func (l *lab) worker(h *pb.Hello) *peer {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.t.Cleanup(cancel)
	// A connection of its own, as each worker process has.
	conn, err := grpc.NewClient(l.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	stream, err := enginerpc.NewWorkerClient(conn).Work(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	p := &peer{t: l.t, stream: stream}
	p.task, p.fold = p.say, p.echo
	p.send(&pb.WorkerUp{Hello: h})
	return p
}

func (p *peer) send(up *pb.WorkerUp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	up.Seq = p.seq
	p.put(up)
}

// put sends; mu is held.
func (p *peer) put(up *pb.WorkerUp) {
	if !p.unread {
		up.Read = p.read
	}
	// What became of the stream is told by recv.
	if err := p.stream.Send(up); err != nil && !errors.Is(err, io.EOF) {
		p.t.Errorf("send: %v", err)
	}
}

func (p *peer) recv() (*pb.WorkerDown, error) {
	d, err := p.stream.Recv()
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.read = d.Seq
	}
	return d, err
}

// pings sends pings, as a worker's process does whatever its code does.
func (p *peer) pings(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.put(&pb.WorkerUp{})
			p.mu.Unlock()
		case <-p.stream.Context().Done():
			return
		}
	}
}

// serve folds runs of Echo, whose only step is an activity Say with the run's
// input, and runs Say, until the stream ends.
func (p *peer) serve() error {
	assigns := map[int64]*pb.Assign{}
	for {
		d, err := p.recv()
		if err != nil {
			return err
		}
		for _, a := range d.Assign {
			if old := assigns[a.Run]; old != nil && old.More {
				a.History = append(old.History, a.History...)
			}
			if assigns[a.Run] = a; a.More {
				continue
			}
			for _, e := range a.History {
				if e.Cause == 0 && e.Id > a.Processed {
					p.fold(a.Run, a.Stamp, e)
				}
			}
		}
		for _, in := range d.Inputs {
			p.fold(in.Run, in.Stamp, in.Event)
		}
		for _, task := range d.Tasks {
			p.task(task)
		}
	}
}

func answer(task *pb.Task) *pb.Done {
	return &pb.Done{Delivery: task.Delivery, Outcome: pb.Outcome_OUTCOME_COMPLETED, Result: task.Input}
}

func (p *peer) say(task *pb.Task) { p.send(&pb.WorkerUp{Done: []*pb.Done{answer(task)}}) }

func (p *peer) echo(run int64, stamp *pb.Stamp, e *pb.Event) {
	p.send(&pb.WorkerUp{Decided: []*pb.Decided{{Run: run, Stamp: stamp, Through: e.Id, Decisions: decide(e, nil)}}})
}

// decide is the code of Echo; more may change its activity.
func decide(e *pb.Event, more func(*pb.ActivityScheduled)) []*pb.Event {
	var d *pb.Event
	switch b := e.Body.(type) {
	case *pb.Event_WorkflowStarted:
		a := &pb.ActivityScheduled{Op: "#1", Type: "Say", Input: b.WorkflowStarted.Input}
		if more != nil {
			more(a)
		}
		d = &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: a}}
	case *pb.Event_ActivityCompleted:
		d = &pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{Result: b.ActivityCompleted.Result}}}
	case *pb.Event_ActivityFailed:
		d = &pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: b.ActivityFailed.Failure}}}
	default:
		return nil
	}
	d.Cause = e.Id
	return []*pb.Event{d}
}
