package saga_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"

	pb "github.com/engined/engined/proto/enginepb"
)

// Till charges, and then has a workflow of its own done elsewhere.
type Till struct {
	elsewhere *client.Client
	did       []string
}

var till *Till

func soldOut(workflow.Context, int) (string, error) { return "", workflow.Fail("sold out") }

// Pay has its effect before it gets another's final error.
func (x *Till) Pay(ctx context.Context, in int) (string, error) {
	x.did = append(x.did, fmt.Sprint("charge ", in))
	slip, err := client.Execute(ctx, x.elsewhere, soldOut, in)
	if err != nil {
		return "", fmt.Errorf("ask the shop: %w", err)
	}
	return slip, nil
}

func (x *Till) Repay(_ context.Context, u saga.Undo[int, string]) error {
	x.did = append(x.did, fmt.Sprint("refund ", u.Input, ", ", u.Outcome))
	return nil
}

func TestAStepThatFailsByAnothersFinalErrorIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		x := &Till{elsewhere: env.Client}
		pays := func(ctx workflow.Context, in int) (string, error) {
			return saga.Do(ctx, till.Pay, in, till.Repay, workflow.Retry{Attempts: 2})
		}
		worker.Workflow(env.Worker, soldOut)
		worker.Workflow(env.Worker, pays, worker.Name("pays"))
		env.Worker.Activities(x)
		env.Start()
		_, err := client.Execute(t.Context(), env.Client, pays, 7, client.ID("p"), client.Name("pays"))
		d, describeErr := client.Get[string](env.Client, "p", "").Describe(t.Context())
		if describeErr != nil {
			t.Fatal(describeErr)
		}
		if want := []string{"charge 7", "charge 7", "refund 7, unknown"}; !slices.Equal(x.did, want) {
			t.Errorf("done: %v, want %v; the run: %v", x.did, want, err)
		}
		if s := d.Info.UndoState; s != pb.UndoState_UNDO_STATE_COMPENSATED {
			t.Errorf("undo state %v", s)
		}
	})
}
