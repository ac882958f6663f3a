package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// Found by the simulator: one that awaited the run which was there was told that
// it had started it, and so would have started another by asking again.
func TestAStartThatAwaitsARunWhichWasThereSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, err := Open(ctx, Config{Store: memstore.New(1), Clock: clock.Runtime(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		startRawOf(t, ctx, e, "w1", sleeps(time.Hour))
		ask := func(request string, await bool) *pb.StartResponse {
			res, err := e.Start(ctx, &pb.StartRequest{
				Namespace: "default", WorkflowId: "a", RequestId: request, Type: "W", Queue: "default", Await: await,
				Conflict: pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING,
			})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		first := ask("1", false)
		joined := ask("2", true)
		if !first.Started || joined.Started || joined.RunId != first.RunId || joined.Result == nil {
			t.Errorf("the first is told %v, the second %v", first, joined)
		}
		if again := ask("2", true); again.Started || again.RunId != first.RunId || again.Result == nil {
			t.Errorf("repeated when the run has closed, the second is told %v", again)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
