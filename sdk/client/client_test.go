package client_test

import (
	"context"
	"errors"
	"log/slog"
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
	lasts    time.Duration // a start, before it is answered
	starts   []*pb.StartRequest
	result   *pb.Result
	pages    []*pb.HistoryResponse
	reads    int
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
	<-time.After(s.lasts)
	if err := s.fails(); err != nil {
		return nil, err
	}
	return &pb.StartResponse{WorkflowId: req.WorkflowId, RunId: "run-1", Started: true, Result: s.result}, nil
}

func (s *service) Await(context.Context, *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	return &pb.AwaitResponse{Result: s.result}, nil
}

func (s *service) History(_ context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	s.reads++
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

func TestAClosedEngineOfThisProcessIsNotAskedAgain(t *testing.T) {
	s := &service{failures: 1, code: apierr.Closed}
	c := client.New(s, client.Options{})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Start(t.Context(), c, double, 1); !client.IsClosed(err) || len(s.starts) != 1 {
		t.Errorf("%v after %d calls", err, len(s.starts))
	}
	if _, err := client.Start(t.Context(), c, double, 1); err != nil {
		t.Errorf("Close has closed a client of an engine in this process: %v", err)
	}
}

func TestTheLoggerHearsOnceOfACallThatGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for failures, want := range map[int]int{2: 0, 50: 1} {
			var log strings.Builder
			c := client.New(&service{failures: failures, code: apierr.Unavailable}, client.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if _, err := client.Start(t.Context(), c, double, 1); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "op=start"); n != want {
				t.Errorf("%d failures are told %d times, want %d:\n%s", failures, n, want, log.String())
			}
		}
	})
}

// Each try waits for an hour before its engine goes: the next engine is asked
// soon, however many there have been.
func TestATryThatHasLastedBeginsTheBackoffAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{failures: 10, code: apierr.Unavailable, lasts: time.Hour}
		began := time.Now()
		s.result = &pb.Result{Status: pb.Status_STATUS_COMPLETED}
		if _, err := client.Execute(t.Context(), client.New(s, client.Options{}), double, 1); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began) - 11*time.Hour; waited > 500*time.Millisecond {
			t.Errorf("it waited %v between 11 tries, want less than 50 ms each time", waited)
		}
	})
}

// An engine that answers a wait at once must not be asked in a circle.
func TestFollowIsPatientWithAnEngineThatIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{pages: []*pb.HistoryResponse{{Open: true}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range client.Get[int](client.New(s, client.Options{}), "a", "").Follow(ctx) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if s.reads < 5 || s.reads > 200 {
			t.Errorf("%d questions in a minute", s.reads)
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
}

func TestHowARunEndedIsInTheTreeOfItsError(t *testing.T) {
	for status, want := range map[pb.Status]error{
		pb.Status_STATUS_CANCELLED:  client.ErrCanceled,
		pb.Status_STATUS_TERMINATED: client.ErrTerminated,
		pb.Status_STATUS_TIMED_OUT:  client.ErrTimedOut,
	} {
		s := &service{result: &pb.Result{Status: status}}
		_, err := client.Get[int](client.New(s, client.Options{}), "a", "").Result(t.Context())
		for _, ended := range []error{client.ErrCanceled, client.ErrTerminated, client.ErrTimedOut} {
			if errors.Is(err, ended) != (ended == want) {
				t.Errorf("%v gives %v", status, err)
			}
		}
	}
}

func TestToolsGetAnyResultAsItIs(t *testing.T) {
	s := &service{result: &pb.Result{RunId: "run-1", Status: pb.Status_STATUS_TERMINATED}}
	c := client.New(s, client.Options{})
	if res, err := c.Await(t.Context(), "a", ""); err != nil || res != s.result {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := c.Await(t.Context(), "", ""); !client.IsInvalidArgument(err) {
		t.Errorf("without an id: %v", err)
	}
}

func TestAStartSaysWhatOtherRunsOfItsIDMean(t *testing.T) {
	s := &service{}
	c := client.New(s, client.Options{})
	for i, o := range []struct {
		conflict     client.Conflict
		reuse        client.Reuse
		wantConflict pb.ConflictPolicy
		wantReuse    pb.ReusePolicy
	}{
		{client.Fail, client.AllowReuse, pb.ConflictPolicy_CONFLICT_POLICY_FAIL, pb.ReusePolicy_REUSE_POLICY_ALLOW},
		{client.UseExisting, client.AllowIfNotCompleted, pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING, pb.ReusePolicy_REUSE_POLICY_ALLOW_IF_FAILED},
		{client.Fail, client.RejectReuse, pb.ConflictPolicy_CONFLICT_POLICY_FAIL, pb.ReusePolicy_REUSE_POLICY_REJECT},
	} {
		if _, err := client.Start(t.Context(), c, double, 1, client.OnConflict(o.conflict), client.OnReuse(o.reuse)); err != nil {
			t.Fatal(err)
		}
		if q := s.starts[i]; q.Conflict != o.wantConflict || q.Reuse != o.wantReuse {
			t.Errorf("%v and %v are sent as %v and %v", o.conflict, o.reuse, q.Conflict, q.Reuse)
		}
	}
	for _, bad := range []client.StartOption{client.OnConflict(9), client.OnReuse(-1)} {
		if _, err := client.Start(t.Context(), c, double, 1, bad); !client.IsInvalidArgument(err) || len(s.starts) != 3 {
			t.Errorf("what does not exist is sent: %v", err)
		}
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
