package sdktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"

	pb "github.com/engined/engined/proto/enginepb"
)

func TestARunThatUsesAnothersContextIsHeldAndTheOtherCompletes(t *testing.T) {
	var global workflow.Context
	shares := func(ctx workflow.Context, first bool) (string, error) {
		if first {
			global = ctx
		}
		return "slept", workflow.Sleep(global, time.Hour)
	}
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, shares, worker.Name("shares"))
		env.Start()
		owner, err := client.Start(t.Context(), env.Client, shares, true, client.ID("owner"), client.Name("shares"))
		if err != nil {
			t.Fatal(err)
		}
		env.Pass(time.Second)
		user, err := client.Start(t.Context(), env.Client, shares, false, client.ID("user"), client.Name("shares"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := owner.Result(t.Context()); got != "slept" || err != nil {
			t.Errorf("the run whose context it is: %q, %v", got, err)
		}
		d, err := user.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Info.Status != pb.Status_STATUS_RUNNING || d.Info.Hold == nil {
			t.Errorf("the run that used it is not held: %v", d.Info)
		}
	})
}
