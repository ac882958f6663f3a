package engine

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

func TestADescriptionIsKeptToASize(t *testing.T) {
	long := &pb.Failure{Message: strings.Repeat("x", 16<<10), Stack: strings.Repeat("y", 16<<10)}
	attempts := make([]*pb.Attempt, 20)
	for i := range attempts {
		attempts[i] = &pb.Attempt{Attempt: int32(i + 1), Failure: long}
	}
	for _, n := range []int{1, 500, 5_000} {
		d := &pb.DescribeResponse{Info: &pb.RunInfo{WorkflowId: "a"}}
		for range n {
			d.Waiting = append(d.Waiting, &pb.Waiting{Kind: "activity", Failure: long, Attempts: append([]*pb.Attempt(nil), attempts...)})
		}
		trim(d)
		if size := proto.Size(d); size > describeBytes+1000 {
			t.Errorf("%d waits: %d bytes", n, size)
		}
		if last := d.Waiting[len(d.Waiting)-1]; (n == 5_000) != (last.Kind == "more") {
			t.Errorf("%d waits: the last says %v", n, last)
		}
		if whole := len(d.Waiting[0].Attempts) == 20; whole != (n == 1) {
			t.Errorf("%d waits: %d attempts are told", n, len(d.Waiting[0].Attempts))
		}
	}
	if len(attempts[19].Failure.Message) != 16<<10 {
		t.Error("the rows of the run were changed")
	}
}
