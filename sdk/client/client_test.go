package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
)

// service plays an engine in memory: it fails as often as it is told, and
// remembers what it was asked.
type service struct {
	client.Service
	failures int
	code     apierr.Code
	starts   []*pb.StartRequest
	result   *pb.Result
	pages    []*pb.HistoryResponse
}

func (s *service) fails() error {
	if s.failures == 0 {
		return nil
	}
	s.failures--
	return apierr.New(s.code, "start", "not now", "")
}

func (s *service) Start(_ context.Context, req *pb.StartRequest) (*pb.StartResponse, error) {
	s.starts = append(s.starts, req)
	if err := s.fails(); err != nil {
		return nil, err
	}
	return &pb.StartResponse{WorkflowId: req.WorkflowId, RunId: "run-1", Started: true, Result: s.result}, nil
}

func (s *service) Await(context.Context, *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return &pb.AwaitResponse{Result: s.result}, nil
}

func (s *service) History(_ context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	return s.pages[req.After], nil
}

func double(workflow.Context, int) (int, error) { return 0, nil }

func number(n string) *pb.Payload { return &pb.Payload{Encoding: "json", Data: []byte(n)} }

func TestACallIsRepeatedWithItsOwnRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []apierr.Code{apierr.Unavailable, apierr.ResourceExhausted} {
			s := &service{failures: 3, code: code}
			c := client.New(s, client.Options{})
			for range 2 {
				if _, err := client.Start(t.Context(), c, double, 1, client.ID("a")); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.starts) != 5 || s.starts[0].RequestId == "" || s.starts[0].RequestId != s.starts[3].RequestId {
				t.Fatalf("%v: %d calls, under %q and %q", code, len(s.starts), s.starts[0].RequestId, s.starts[3].RequestId)
			}
			if s.starts[4].RequestId == s.starts[0].RequestId {
				t.Errorf("%v: two calls have one request id", code)
			}
		}
	})
}

func TestOtherErrorsAreNotRepeatedAndAContextEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{failures: 1, code: apierr.AlreadyExists}
		_, err := client.Start(t.Context(), client.New(s, client.Options{}), double, 1)
		if !client.IsAlreadyExists(err) || len(s.starts) != 1 {
			t.Errorf("%v after %d calls", err, len(s.starts))
		}
		s = &service{failures: 1 << 30, code: apierr.Unavailable}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = client.Start(ctx, client.New(s, client.Options{}), double, 1)
		if !errors.Is(err, context.DeadlineExceeded) || !client.IsUnavailable(err) {
			t.Errorf("when the context ends the error is %v; want both its causes", err)
		}
		if n := len(s.starts); n < 5 || n > 200 {
			t.Errorf("%d tries in a minute, without backoff or without end", n)
		}
	})
}

var errSoldOut = errors.New("sold out")

func init() { failure.Register("client_test.SoldOut", errSoldOut) }

func TestARunThatFailsGivesItsErrorBackWithItsIdentity(t *testing.T) {
	s := &service{result: &pb.Result{
		RunId: "run-1", Status: pb.Status_STATUS_FAILED, UndoState: pb.UndoState_UNDO_STATE_COMPENSATED,
		Failure: failure.Encode(errSoldOut, nil),
	}}
	c := client.New(s, client.Options{})
	_, err := client.Execute(t.Context(), c, double, 1, client.ID("a"))
	var failed *client.RunError
	if !errors.As(err, &failed) || !errors.Is(err, errSoldOut) || failed.UndoState != pb.UndoState_UNDO_STATE_COMPENSATED {
		t.Fatalf("got %v", err)
	}
	if want := "workflow a (run run-1) failed, compensated: sold out"; err.Error() != want {
		t.Errorf("the error reads %q, want %q", err, want)
	}
	s.result = &pb.Result{Status: pb.Status_STATUS_CANCELLED}
	if _, err := client.Get[int](c, "a", "").Result(t.Context()); !errors.Is(err, client.ErrCanceled) {
		t.Errorf("a cancelled run gives %v", err)
	}
}

func TestResultsAreDecodedOrSaidNotToFit(t *testing.T) {
	s := &service{result: &pb.Result{Status: pb.Status_STATUS_COMPLETED, Result: number("9007199254740993")}}
	c := client.New(s, client.Options{})
	if got, err := client.Get[int64](c, "a", "").Result(t.Context()); err != nil || got != 9007199254740993 {
		t.Errorf("result %d, %v", got, err)
	}
	if _, err := client.Get[string](c, "a", "").Result(t.Context()); err == nil {
		t.Error("a number was decoded into a string")
	}
}

func TestAHistoryIsReadPageByPage(t *testing.T) {
	s := &service{pages: []*pb.HistoryResponse{
		{Events: []*pb.Event{{Id: 1}}, Next: 1}, {Events: []*pb.Event{{Id: 2}}, Next: 2}, {Events: []*pb.Event{{Id: 3}}},
	}}
	var ids []int64
	for e, err := range client.Get[int](client.New(s, client.Options{}), "a", "").History(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Id)
	}
	if len(ids) != 3 || ids[2] != 3 {
		t.Errorf("events %v", ids)
	}
}

func TestFunctionsWithoutANameAreRefusedBeforeAnythingIsSent(t *testing.T) {
	s := &service{}
	c := client.New(s, client.Options{})
	_, err := client.Start(t.Context(), c, func(workflow.Context, int) (int, error) { return 0, nil }, 1)
	if !client.IsInvalidArgument(err) || !strings.Contains(err.Error(), "name") || len(s.starts) != 0 {
		t.Errorf("%v after %d calls", err, len(s.starts))
	}
	if _, err := client.StartNamed[int](t.Context(), c, "Double", 1); err != nil || s.starts[0].Type != "Double" {
		t.Errorf("by name: %v, %v", err, s.starts)
	}
}
