package rpc

import (
	"testing"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
)

func TestTerminateIsAnsweredAndRepeatedWithoutHarm(t *testing.T) {
	l := newLab(t, Options{})
	l.start("a", "Unknown", nil) // no worker knows it: only terminate ends it
	req := &pb.TerminateRequest{Run: ref("a"), RequestId: "t1", Reason: "enough"}
	res, err := l.client.Terminate(t.Context(), req)
	if err != nil || res.Already {
		t.Fatalf("terminate: %v, %v", res, err)
	}
	if res, err = l.client.Terminate(t.Context(), req); err != nil || !res.Already {
		t.Errorf("once more: %v, %v", res, err)
	}
	end, err := l.client.Await(t.Context(), &pb.AwaitRequest{Run: ref("a")})
	if err != nil || end.Result.Status != pb.Status_STATUS_TERMINATED {
		t.Errorf("await: %v, %v", end, err)
	}
	req.Run = ref("nobody")
	if _, err = l.client.Terminate(t.Context(), req); !apierr.Is(rpcerr.FromStatus(t.Context(), "terminate", err), apierr.NotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}
