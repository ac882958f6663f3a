package rpcerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
)

func TestEveryErrorArrivesAsItWasSent(t *testing.T) {
	for c := apierr.Internal; c <= apierr.Closed; c++ {
		e := apierr.New(c, "start a", "what happened", "what to do")
		e.RunID = "run-1"
		got := rpcerr.FromStatus(t.Context(), "start", rpcerr.ToStatus(fmt.Errorf("wrapped: %w", e)))
		var back *apierr.Error
		if !errors.As(got, &back) || back.Code != c || back.RunID != e.RunID || back.Error() != e.Error() {
			t.Errorf("%v arrived as %#v", e, got)
		}
		if s := status.Convert(rpcerr.ToStatus(e)); s.Message() != e.Error() {
			t.Errorf("who speaks plain gRPC reads %q, want %q", s.Message(), e.Error())
		}
	}
}

func TestWhatTheEngineDidNotSay(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user has left")
	cancel(why)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want error
		code apierr.Code
	}{
		{ctx: t.Context(), err: nil},
		{ctx: gone, err: status.Error(codes.Canceled, "context canceled"), want: why},
		{ctx: t.Context(), err: status.Error(codes.Unavailable, "connection refused"), code: apierr.Unavailable},
		{ctx: t.Context(), err: status.Error(codes.Canceled, "by a proxy"), code: apierr.Unavailable},
		{ctx: t.Context(), err: status.Error(codes.Unimplemented, "no such method"), code: apierr.InvalidArgument},
		{ctx: t.Context(), err: errors.New("no status at all"), code: apierr.Internal},
	} {
		got := rpcerr.FromStatus(c.ctx, "list", c.err)
		switch {
		case c.err == nil || c.want != nil:
			if got != c.want {
				t.Errorf("%v became %v, want %v", c.err, got, c.want)
			}
		case !apierr.Is(got, c.code):
			t.Errorf("%v became %v, want the code %v", c.err, got, c.code)
		}
	}
}

func TestAnUnknownErrorTellsNothingOfTheEnginesInside(t *testing.T) {
	s := status.Convert(rpcerr.ToStatus(errors.New("open /secret/path: denied")))
	if s.Code() != codes.Internal || s.Message() == "" || len(s.Message()) > 0 && s.Message()[0] == 'o' {
		t.Errorf("it tells %v %q", s.Code(), s.Message())
	}
	if s := status.Convert(rpcerr.ToStatus(context.DeadlineExceeded)); s.Code() != codes.DeadlineExceeded {
		t.Errorf("a deadline became %v", s.Code())
	}
}
