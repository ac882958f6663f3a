package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// Bank is a service that knows its requests by their keys: it does nothing twice
// under one key, and nothing at all under a key that was sealed.
type Bank struct{ byKey map[string]string }

var bank *Bank

// Charge takes the money, and then the answer is lost.
func (b *Bank) Charge(ctx context.Context, cents int) (string, error) {
	key := activity.GetInfo(ctx).Key // the same for every attempt
	if b.byKey[key] == "sealed" {
		return "", activity.Fail("the charge was given up")
	}
	b.byKey[key] = "charged"
	return "", errors.New("connection reset")
}

// Refund gives the money back if it was taken, and sees to it that it is not taken
// any more if it was not.
func (b *Bank) Refund(_ context.Context, u saga.Undo[int, string]) error {
	was := b.byKey[u.ForwardKey]
	switch {
	case was == "charged":
		b.byKey[u.ForwardKey] = "refunded"
	case was == "" && u.Outcome == saga.Unknown:
		b.byKey[u.ForwardKey] = "sealed" // what is still on its way will be refused
	}
	fmt.Printf("the outcome is %s, the bank says %q: refund %d\n", u.Outcome, was, u.Input)
	return nil
}

// Pay is a workflow of one step. Nobody can say at its end whether the money was
// taken: so the engine has the step undone, and tells the undo.
func Pay(ctx workflow.Context, cents int) (string, error) {
	return saga.Do(ctx, bank.Charge, cents, bank.Refund, workflow.Retry{Attempts: 3})
}

// An undo of a step that may have been done.
func ExampleUndo() {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, Pay)
		env.Worker.Activities(&Bank{byKey: map[string]string{}})
		env.Start()
		_, err := client.Execute(t.Context(), env.Client, Pay, 4200, client.ID("o-1"))
		var ended *client.RunError
		if errors.As(err, &ended) {
			fmt.Println(ended.Status, ended.UndoState, ended.Err)
		}
	})
	// Output:
	// the outcome is unknown, the bank says "charged": refund 4200
	// STATUS_FAILED UNDO_STATE_COMPENSATED activity Bank.Charge (#1) failed after 3 attempts: connection reset
}
