package rpc

import (
	"net"
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

func TestARunThatNobodyCanGoOnWithIsListedAsHeld(t *testing.T) {
	l := newLab(t, Options{})
	l.start("a", "Unknown", nil)
	l.worker(hello("w1"))
	until(t, "the worker is here", func() bool { return len(l.workers()) == 1 })
	l.start("b", "Echo", payload(1))
	list, err := l.client.List(t.Context(), &pb.ListRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Runs {
		want := pb.HoldKind_HOLD_KIND_NONE
		if r.WorkflowId == "a" {
			want = pb.HoldKind_HOLD_KIND_NO_WORKER
		}
		if r.Hold.GetKind() != want {
			t.Errorf("run %s is listed as %v", r.WorkflowId, r.Hold)
		}
	}
}

func TestAHistoryIsFollowedToItsEnd(t *testing.T) {
	l := newLab(t, Options{})
	l.start("a", "Echo", payload(10)) // no worker yet
	got := make(chan []int64, 1)
	failed := make(chan error, 1)
	go func() {
		var ids []int64
		req := &pb.HistoryRequest{Run: ref("a"), Wait: true}
		for {
			page, err := l.client.History(t.Context(), req)
			if err != nil {
				failed <- err
				return
			}
			for _, e := range page.Events {
				ids = append(ids, e.Id)
				req.After = e.Id
			}
			if !page.Open && page.Next == 0 {
				got <- ids
				return
			}
		}
	}()
	p := l.worker(hello("w1"))
	go func() { _ = p.serve() }()
	select {
	case ids := <-got:
		if len(ids) != 4 || ids[0] != 1 || ids[3] != 4 {
			t.Errorf("events %v", ids)
		}
	case err := <-failed:
		t.Error(err)
	}
	_, err := l.client.History(t.Context(), &pb.HistoryRequest{Run: ref("nobody"), Wait: true})
	if !apierr.Is(rpcerr.FromStatus(t.Context(), "history", err), apierr.NotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
}

func TestAServerThatWasStoppedBeforeItBeganLeavesNothing(t *testing.T) {
	l := newLab(t, Options{})
	s := NewServer(l.e, Options{})
	s.Stop(t.Context())
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(lis); err != nil || s.group != nil {
		t.Errorf("serve after stop: %v, group %v", err, s.group)
	}
}
