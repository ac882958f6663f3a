package saga_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"

	pb "github.com/engined/engined/proto/enginepb"
)

// Purse notes what it does.
type Purse struct{ did []string }

var purse *Purse

func (b *Purse) Take(context.Context, int) (string, error) {
	b.did = append(b.did, "take")
	return "taken", nil
}

func (b *Purse) Give(context.Context, saga.Undo[int, string]) error {
	b.did = append(b.did, "give")
	return nil
}

// refused is the end of a run that undoes what it did.
func refused(ctx workflow.Context) (string, error) {
	if err := workflow.Sleep(ctx, time.Hour); err != nil {
		return "", err
	}
	if err := saga.Compensate(ctx); err != nil {
		return "", err
	}
	return "", workflow.Fail("refused")
}

// A build whose code has an undo that the history does not know would undo
// nothing and believe that it had.
func TestABuildThatAddsAnUndoHoldsTheRunsThatWentPastIt(t *testing.T) {
	before := func(ctx workflow.Context, in int) (string, error) {
		if _, err := workflow.Do(ctx, purse.Take, in); err != nil {
			return "", err
		}
		return refused(ctx)
	}
	after := func(ctx workflow.Context, in int) (string, error) {
		if _, err := saga.Do(ctx, purse.Take, in, purse.Give); err != nil {
			return "", err
		}
		return refused(ctx)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &Purse{}
		env := sdktest.New(t, sdktest.Options{Worker: worker.Options{Build: "before"}})
		worker.Workflow(env.Worker, before, worker.Name("V"))
		env.Worker.Activities(b)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, before, 7, client.ID("v"), client.Name("V"))
		if err != nil {
			t.Fatal(err)
		}
		env.Pass(time.Minute)
		if err := env.Worker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := env.NewWorker(worker.Options{Build: "after"})
		worker.Workflow(w, after, worker.Name("V"))
		w.Activities(b)
		if err := w.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		env.Pass(2 * time.Hour)
		d, err := run.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := d.String()
		if d.Info.Status != pb.Status_STATUS_RUNNING || !strings.Contains(text, "code: ActivityScheduled Purse.Take with undo Purse.Give") {
			t.Errorf("the run is not held for its undo: %s", text)
		}
		if !slices.Equal(b.did, []string{"take"}) {
			t.Errorf("done: %v", b.did)
		}
	})
}
