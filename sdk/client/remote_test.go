package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
	"github.com/engined/engined/sdk/client"
)

// script plays an engine over the network. answer is asked with the number of
// the call, from 0, and its request; the numbers go on over restarts.
type script struct {
	enginerpc.UnimplementedClientServer
	answer func(ctx context.Context, n int, req any) (any, error)

	mu   sync.Mutex
	reqs []any
}

func play[R any](ctx context.Context, s *script, req any) (*R, error) {
	s.mu.Lock()
	n := len(s.reqs)
	s.reqs = append(s.reqs, req)
	s.mu.Unlock()
	res, err := s.answer(ctx, n, req)
	if err != nil {
		return nil, rpcerr.ToStatus(err)
	}
	return res.(*R), nil
}

func (s *script) asked() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reqs)
}

func (s *script) Start(ctx context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	return play[pb.StartResponse](ctx, s, req)
}

func (s *script) Await(ctx context.Context, req *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return play[pb.AwaitResponse](ctx, s, req)
}

func (s *script) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.CancelResponse, error) {
	return play[pb.CancelResponse](ctx, s, req)
}

func (s *script) Terminate(ctx context.Context, req *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	return play[pb.TerminateResponse](ctx, s, req)
}

func (s *script) Describe(ctx context.Context, req *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	return play[pb.DescribeResponse](ctx, s, req)
}

func (s *script) History(ctx context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	return play[pb.HistoryResponse](ctx, s, req)
}

func (s *script) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	return play[pb.ListResponse](ctx, s, req)
}

// host serves on one port; what it serves can go down and come up again.
type host struct {
	t    *testing.T
	at   string
	srv  *grpc.Server
	done chan error
}

func newHost(t *testing.T, s enginerpc.ClientServer) *host {
	t.Helper()
	h := &host{t: t, at: "127.0.0.1:0"}
	h.up(s)
	t.Cleanup(h.down)
	return h
}

func (h *host) up(s enginerpc.ClientServer) {
	h.t.Helper()
	l, err := net.Listen("tcp", h.at)
	if err != nil {
		h.t.Fatal(err)
	}
	h.at = l.Addr().String()
	h.srv, h.done = grpc.NewServer(), make(chan error, 1)
	enginerpc.RegisterClientServer(h.srv, s)
	go func() { h.done <- h.srv.Serve(l) }()
}

// down breaks the connections and ends the calls under way without an answer.
func (h *host) down() {
	h.srv.Stop()
	if err := <-h.done; err != nil {
		h.t.Error(err)
	}
	h.done <- nil // down again at the end of the test
}

func dialed(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// within bounds a test that waits for the network.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func completed(n string) *pb.Result {
	return &pb.Result{RunId: "run-1", Status: pb.Status_STATUS_COMPLETED, Result: number(n)}
}

func TestAnAwaitOutlivesItsEngine(t *testing.T) {
	entered := make(chan bool)
	s := &script{answer: func(ctx context.Context, n int, _ any) (any, error) {
		if n == 0 {
			entered <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &pb.AwaitResponse{Result: completed("42")}, nil
	}}
	h := newHost(t, s)
	go func() {
		<-entered
		h.down()
		h.up(s)
	}()
	got, err := client.Get[int](dialed(t, h.at), "a", "run-1").Result(within(t))
	if got != 42 || err != nil {
		t.Errorf("result %d, %v", got, err)
	}
}

// The engine has carried the start out and dies before its answer is out.
func TestAStartWhoseAnswerIsLostIsRepeatedUnderItsRequestID(t *testing.T) {
	for _, execute := range []bool{false, true} {
		entered := make(chan bool)
		s := &script{answer: func(ctx context.Context, n int, req any) (any, error) {
			if n == 0 {
				entered <- true
				<-ctx.Done()
			}
			return &pb.StartResponse{WorkflowId: "a", RunId: "run-1", Started: true, Result: completed("2")}, ctx.Err()
		}}
		h := newHost(t, s)
		go func() {
			<-entered
			h.down()
			h.up(s)
		}()
		c := dialed(t, h.at)
		if execute {
			if got, err := client.Execute(within(t), c, double, 1, client.ID("a")); got != 2 || err != nil {
				t.Errorf("executed: %d, %v", got, err)
			}
		} else if run, err := client.Start(within(t), c, double, 1, client.ID("a")); err != nil || run.RunID != "run-1" || !run.Started {
			t.Errorf("started %+v, %v", run, err)
		}
		reqs := s.asked()
		a, b := reqs[0].(*pb.StartRequest), reqs[len(reqs)-1].(*pb.StartRequest)
		if len(reqs) != 2 || a.RequestId == "" || a.RequestId != b.RequestId || a.Await != execute {
			t.Errorf("asked %v", reqs)
		}
	}
}

type identified interface{ GetRequestId() string }

func TestEveryMutatingCallKeepsItsRequestID(t *testing.T) {
	refusals := []error{
		apierr.New(apierr.Unavailable, "", "the disk is full", ""), apierr.New(apierr.Closed, "", "the engine is closed", ""),
		apierr.New(apierr.ResourceExhausted, "", "busy", ""), context.DeadlineExceeded, context.Canceled,
	}
	s := &script{}
	s.answer = func(_ context.Context, n int, req any) (any, error) {
		if n < len(refusals) {
			return nil, refusals[n]
		}
		switch req.(type) {
		case *pb.StartRequest:
			return &pb.StartResponse{WorkflowId: "a", RunId: "run-1"}, nil
		case *pb.CancelRequest:
			return &pb.CancelResponse{}, nil
		default:
			return &pb.TerminateResponse{}, nil
		}
	}
	h := newHost(t, s)
	c := dialed(t, h.at)
	run := client.Get[int](c, "a", "run-1")
	for name, call := range map[string]func(context.Context) error{
		"start":     func(ctx context.Context) error { _, err := client.Start(ctx, c, double, 1, client.ID("a")); return err },
		"cancel":    func(ctx context.Context) error { return run.Cancel(ctx, "why") },
		"terminate": func(ctx context.Context) error { return run.Terminate(ctx, "why") },
	} {
		s.reqs = nil
		if err := call(within(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ids := map[string]bool{}
		for _, req := range s.asked() {
			ids[req.(identified).GetRequestId()] = true
		}
		if len(s.reqs) != len(refusals)+1 || len(ids) != 1 || ids[""] {
			t.Errorf("%s: %d calls under the ids %v", name, len(s.reqs), ids)
		}
	}
}

func TestADeadFirstAddressIsPassedOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	s := &script{answer: func(context.Context, int, any) (any, error) { return &pb.ListResponse{Next: "2"}, nil }}
	h := newHost(t, s)
	res, err := dialed(t, dead+","+h.at).List(within(t), &pb.ListRequest{Type: "T"})
	if err != nil || res.Next != "2" || s.reqs[0].(*pb.ListRequest).Namespace != "default" {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := client.Dial("a:b:c", client.Options{}); !client.IsInvalidArgument(err) {
		t.Errorf("a bad address gives %v", err)
	}
}

func TestWhatTheEngineRefusesArrivesWhole(t *testing.T) {
	taken := &client.Error{Code: apierr.AlreadyExists, Op: "start a", Message: "the id is taken", Hint: "wait", RunID: "run-7"}
	s := &script{answer: func(context.Context, int, any) (any, error) { return nil, taken }}
	h := newHost(t, s)
	_, err := client.Start(within(t), dialed(t, h.at), double, 1, client.ID("a"))
	var e *client.Error
	if !client.IsAlreadyExists(err) || !errors.As(err, &e) || e.RunID != "run-7" || e.Hint != "wait" || err.Error() != taken.Error() {
		t.Errorf("got %#v", err)
	}
	if n := len(s.asked()); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestTheCallersContextGoesWithTheCallAndEndsIt(t *testing.T) {
	deadline := make(chan time.Time, 1)
	s := &script{answer: func(ctx context.Context, _ int, _ any) (any, error) {
		d, _ := ctx.Deadline()
		deadline <- d
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h := newHost(t, s)
	run := client.Get[int](dialed(t, h.at), "a", "")

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	ctx, why := context.WithCancelCause(ctx)
	defer cancel()
	left := errors.New("the user has left")
	go func() {
		if d := <-deadline; time.Until(d) < 59*time.Minute || time.Until(d) > 61*time.Minute {
			t.Errorf("the engine was told of the deadline %v", d)
		}
		why(left)
	}()
	if _, err := run.Result(ctx); err != left {
		t.Errorf("a call given up ends with %v, want its cause", err)
	}
	if _, err := run.Result(ctx); err != left || len(s.asked()) != 1 {
		t.Errorf("after its end a context still has calls made: %v", err)
	}
}

func TestAClosedClientEndsItsCalls(t *testing.T) {
	entered := make(chan bool)
	s := &script{answer: func(ctx context.Context, _ int, _ any) (any, error) {
		entered <- true
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h := newHost(t, s)
	c := dialed(t, h.at)
	go func() {
		<-entered
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	run := client.Get[int](c, "a", "")
	if _, err := run.Result(within(t)); !client.IsClosed(err) {
		t.Errorf("a call under way ends with %v", err)
	}
	if err := run.Cancel(within(t), ""); !client.IsClosed(err) || len(s.asked()) != 1 {
		t.Errorf("a later one with %v", err)
	}
}

func TestFollowGoesOnOverARestartWithoutAGapOrARepeat(t *testing.T) {
	entered := make(chan bool, 1)
	s := &script{}
	died := false
	s.answer = func(ctx context.Context, _ int, req any) (any, error) {
		q := req.(*pb.HistoryRequest)
		res := &pb.HistoryResponse{RunId: "run-1", Open: true}
		switch q.After {
		case 0:
			res.Events, res.Next = []*pb.Event{{Id: 1}, {Id: 2}}, 2
		case 2:
			res.Events = []*pb.Event{{Id: 3}} // and the run is open
		case 3:
			s.mu.Lock()
			first := !died
			died = true
			s.mu.Unlock()
			if first {
				entered <- true
				<-ctx.Done()
				return nil, ctx.Err()
			}
			res.Events = []*pb.Event{{Id: 4}, {Id: 5}}
		case 5:
			res.Open = false
		}
		return res, nil
	}
	h := newHost(t, s)
	go func() {
		<-entered
		h.down()
		h.up(s)
	}()
	var ids []int64
	for e, err := range client.Get[int](dialed(t, h.at), "a", "").Follow(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Id)
	}
	if !slices.Equal(ids, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("events %v", ids)
	}
	for n, req := range s.asked() {
		q := req.(*pb.HistoryRequest)
		if want := map[bool]string{true: "run-1"}[n > 0]; q.Run.RunId != want || !q.Wait {
			t.Errorf("call %d asks for the run %q, waiting %v", n, q.Run.RunId, q.Wait)
		}
	}
}
