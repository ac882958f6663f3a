package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/workflow"
)

// engineEnd plays the engine's end of streams, message by message.
type engineEnd struct {
	mu      sync.Mutex
	streams []*pipe
	// refused is what Work answers, refusedHello what Send does to a hello.
	refused, refusedHello error
	// pings is what streams say of themselves.
	pings bool
}

func (e *engineEnd) refuse(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = err
}

func (e *engineEnd) refuseHello(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusedHello = err
}

// pipe is one stream, both ways in memory.
type pipe struct {
	ctx    context.Context
	up     chan *pb.WorkerUp
	down   chan *pb.WorkerDown
	broken chan struct{}
	once   sync.Once
	// noHello is what Send does to a hello, if it is not nil.
	noHello error
	pings   bool
	// closed says that CloseSend was called. Unless lasting, it ends the stream.
	closed  atomic.Bool
	lasting bool
}

func (p *pipe) Pings() bool { return p.pings }

var errBroken = errors.New("the stream broke")

func (e *engineEnd) Work(ctx context.Context) (Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused != nil {
		return nil, e.refused
	}
	p := &pipe{
		ctx: ctx, up: make(chan *pb.WorkerUp, 1000), down: make(chan *pb.WorkerDown, 1000),
		broken: make(chan struct{}), noHello: e.refusedHello, pings: e.pings,
	}
	e.streams = append(e.streams, p)
	return p, nil
}

func (p *pipe) Send(up *pb.WorkerUp) error {
	if up.Hello != nil && p.noHello != nil {
		return p.noHello
	}
	select {
	case <-p.broken:
		return errBroken
	default:
	}
	select {
	case <-p.broken:
		return errBroken
	case p.up <- up:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// full makes the stream take nothing more: Send blocks.
func (p *pipe) full() {
	for {
		select {
		case p.up <- &pb.WorkerUp{}:
		default:
			return
		}
	}
}

func (p *pipe) Recv() (*pb.WorkerDown, error) {
	select {
	case d := <-p.down:
		return d, nil
	case <-p.broken:
		return nil, errBroken
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	}
}

func (p *pipe) CloseSend() error {
	p.closed.Store(true)
	if !p.lasting {
		p.snap()
	}
	return nil
}

func (p *pipe) snap() { p.once.Do(func() { close(p.broken) }) }

// lab is a worker with the engine's end of its stream.
type lab struct {
	t   *testing.T
	w   *Worker
	eng *engineEnd
}

func newLab(t *testing.T, o Options, register func(*Worker)) *lab {
	return newLabOn(t, &engineEnd{}, o, register)
}

func newLabOn(t *testing.T, eng *engineEnd, o Options, register func(*Worker)) *lab {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Build = "test"
	l := &lab{t: t, eng: eng}
	l.w = New(l.eng, o)
	register(l.w)
	if err := l.w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.w.Stop(ctx)
	})
	synctest.Wait()
	return l
}

// stream is the newest stream.
func (l *lab) stream() *pipe {
	l.eng.mu.Lock()
	defer l.eng.mu.Unlock()
	return l.eng.streams[len(l.eng.streams)-1]
}

// give sends a message down and lets the worker do what it can.
func (l *lab) give(d *pb.WorkerDown) {
	l.stream().down <- d
	synctest.Wait()
}

// reconnects waits until the worker has opened another stream.
func (l *lab) reconnects() {
	old := l.stream()
	for l.stream() == old {
		<-time.After(time.Millisecond) // virtual
	}
	synctest.Wait()
}

// got returns all that came up since the last time, as one message with what
// the last says of numbers and slow runs.
func (l *lab) got() *pb.WorkerUp {
	synctest.Wait()
	all := &pb.WorkerUp{}
	for {
		select {
		case up := <-l.stream().up:
			all.Seq = up.Seq
			if up.Hello != nil {
				all.Hello = up.Hello
			}
			all.Decided = append(all.Decided, up.Decided...)
			all.Done = append(all.Done, up.Done...)
			all.Faults = append(all.Faults, up.Faults...)
			all.Draining = all.Draining || up.Draining
			all.Read, all.Slow = up.Read, up.Slow
		default:
			return all
		}
	}
}

// buffer is a log that is written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// shop counts what its activities do.
type shop struct {
	mu     sync.Mutex
	calls  map[string]int
	gate   chan struct{} // Wait ends when it is closed
	causes []error
}

func newShop() *shop { return &shop{calls: map[string]int{}, gate: make(chan struct{})} }

func (s *shop) called(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// interruptions are the causes of the contexts of Wait that ended.
func (s *shop) interruptions() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.causes)
}

func (s *shop) count(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name]++
}

func (s *shop) Echo(_ context.Context, in string) (string, error) { s.count("echo"); return in, nil }

func (s *shop) Wait(ctx context.Context, in string) (string, error) {
	s.count("wait")
	select {
	case <-s.gate:
		return in, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.causes = append(s.causes, context.Cause(ctx))
		return "", ctx.Err()
	}
}

func (s *shop) Deaf(context.Context, string) (string, error) { <-s.gate; return "", nil }

func (s *shop) Panic(context.Context, string) (string, error) { panic("oh") }

func (s *shop) Fail(context.Context, string) (string, error) { return "", errors.New("no") }

func (s *shop) Refuse(context.Context, string) (string, error) { return "", activity.Fail("never") }

var theShop *shop

func echoes(ctx workflow.Context, in string) (string, error) {
	workflow.Logger(ctx).Info("begins")
	return workflow.Do(ctx, theShop.Echo, in)
}

func blows(workflow.Context, string) (string, error) { panic("kaboom") }

func register(s *shop) func(*Worker) {
	return func(w *Worker) {
		Workflow(w, echoes)
		Workflow(w, blows)
		w.Activities(s)
	}
}

func text(s string) *pb.Payload { return &pb.Payload{Encoding: "json", Data: []byte(`"` + s + `"`)} }

func taskOf(op, typ string) *pb.Task {
	return &pb.Task{
		Delivery: &pb.Delivery{Run: 1, Op: op, Delivery: 1, Incarnation: 9}, Namespace: "default", WorkflowId: "w",
		Type: typ, Queue: "default", Attempt: 1, Input: text("in"), Started: 1, Deadline: int64(time.Minute),
	}
}

func assign(epoch int64, typ string) *pb.Assign {
	return &pb.Assign{Run: 1, Stamp: &pb.Stamp{Incarnation: 9, Epoch: epoch}, History: []*pb.Event{{
		Id: 1, Time: 1, Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
			Namespace: "default", WorkflowId: "w", RunId: "r", ChainId: "r", Type: typ, Queue: "default", Input: text("in"), Semantics: 1,
		}},
	}}}
}
