package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// mute is a connection on which nothing is answered for a time.
type mute struct {
	enginerpc.ClientClient
	until time.Time
	calls int
}

func hang[R any](ctx context.Context, m *mute, res *R) (*R, error) {
	m.calls++
	select {
	case <-time.After(time.Until(m.until)):
		return res, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (m *mute) Start(ctx context.Context, req *pb.StartRequest, _ ...grpc.CallOption) (*pb.StartResponse, error) {
	return hang(ctx, m, &pb.StartResponse{Result: &pb.Result{Status: pb.Status_STATUS_COMPLETED}})
}

func (m *mute) Await(ctx context.Context, _ *pb.AwaitRequest, _ ...grpc.CallOption) (*pb.AwaitResponse, error) {
	return hang(ctx, m, &pb.AwaitResponse{Result: &pb.Result{Status: pb.Status_STATUS_COMPLETED}})
}

func (m *mute) Describe(ctx context.Context, _ *pb.DescribeRequest, _ ...grpc.CallOption) (*pb.DescribeResponse, error) {
	return hang(ctx, m, &pb.DescribeResponse{})
}

func (m *mute) History(ctx context.Context, _ *pb.HistoryRequest, _ ...grpc.CallOption) (*pb.HistoryResponse, error) {
	return hang(ctx, m, &pb.HistoryResponse{})
}

func TestAShortCallWithoutAnAnswerIsMadeAgainAndALongOneWaits(t *testing.T) {
	drain := func(r *Run[int], follow bool) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, err := range r.c.events(ctx, "a", "", follow) {
				return err
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		call        func(*Run[int]) func(context.Context) error
		least, most int
	}{
		"describe": {func(r *Run[int]) func(context.Context) error {
			return func(ctx context.Context) error { _, err := r.Describe(ctx); return err }
		}, 6, 7},
		"start": {func(r *Run[int]) func(context.Context) error {
			return func(ctx context.Context) error { _, err := StartNamed[int](ctx, r.c, "T", 1); return err }
		}, 6, 7},
		"execute": {func(r *Run[int]) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := again(ctx, r.c, "start", r.c.s.Start, &pb.StartRequest{Await: true})
				return err
			}
		}, 1, 1},
		"result": {func(r *Run[int]) func(context.Context) error {
			return func(ctx context.Context) error { _, err := r.Result(ctx); return err }
		}, 1, 1},
		"history": {func(r *Run[int]) func(context.Context) error { return drain(r, false) }, 6, 7},
		"follow":  {func(r *Run[int]) func(context.Context) error { return drain(r, true) }, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mute{until: time.Now().Add(65 * time.Second)}
				r := Get[int](New(remote{m}, Options{}), "a", "")
				if err := c.call(r)(t.Context()); err != nil || m.calls < c.least || m.calls > c.most {
					t.Errorf("%v after %d calls, want %d to %d", err, m.calls, c.least, c.most)
				}
			})
		})
	}
}

func TestACallersDeadlineIsShorterThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m := &mute{until: began.Add(time.Hour)}
		_, err := Get[int](New(remote{m}, Options{}), "a", "").Describe(ctx)
		if err != context.DeadlineExceeded || time.Since(began) != 3*time.Second || m.calls != 1 {
			t.Errorf("%v after %v and %d calls", err, time.Since(began), m.calls)
		}
	})
}

// What gRPC says of its own accord is told from what the engine says.
func TestATryThatReachesItsLimitIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{until: time.Now().Add(time.Hour)}
		_, err := remote{m}.Describe(t.Context(), &pb.DescribeRequest{})
		if !apierr.Is(err, apierr.Unavailable) || status.Code(err) == codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}
