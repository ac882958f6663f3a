package sdktest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

func fine(_ workflow.Context, n int) (int, error) { return n, nil }

var noMap map[int]int // never made

func crashes(_ workflow.Context, n int) (int, error) {
	noMap[n] = n
	return n, nil
}

func dozes(_ workflow.Context, n int) (int, error) {
	<-time.After(time.Hour) // it should have been workflow.Sleep
	return n, nil
}

// What beginners do ends the test at once, and says what it was.
func TestARunThatIsHeldIsNotAwaitedForEver(t *testing.T) {
	for name, c := range map[string]struct {
		code  func(workflow.Context, int) (int, error)
		setUp func(*sdktest.Env)
		says  []string
	}{
		"a panic":                {crashes, func(e *sdktest.Env) { worker.Workflow(e.Worker, crashes); e.Start() }, []string{"stuck", "nil map", "held_test.go"}},
		"code that blocks":       {dozes, func(e *sdktest.Env) { worker.Workflow(e.Worker, dozes); e.Start() }, []string{"stuck", "did not give control back"}},
		"a type nobody knows":    {fine, func(e *sdktest.Env) { worker.Workflow(e.Worker, crashes); e.Start() }, []string{"no worker", "fine"}},
		"a worker never started": {fine, func(e *sdktest.Env) { worker.Workflow(e.Worker, fine) }, []string{"was Env.Start called"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := sdktest.New(t)
				c.setUp(env)
				began := time.Now()
				_, err := client.Execute(t.Context(), env.Client, c.code, 1)
				var held *sdktest.HeldError
				if !errors.As(err, &held) || held.RunID == "" || held.Hold.GetKind() == pb.HoldKind_HOLD_KIND_NONE {
					t.Fatalf("got %v", err)
				}
				for _, part := range c.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error does not say %q: %v", part, err)
					}
				}
				if d := time.Since(began); d > 3*time.Minute {
					t.Errorf("it took %v of virtual time", d)
				}
				if err := client.Get[int](env.Client, held.WorkflowID, held.RunID).Terminate(t.Context(), ""); err != nil {
					t.Error(err)
				}
				env.Pass(2 * time.Hour) // what blocks comes back: a bubble ends only then
			})
		})
	}
}

// A run that only takes its time is waited for, and one that is held may still be
// freed by a build that fits.
func TestARunThatIsNotHeldIsAwaitedForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := sdktest.New(t)
		sleeps := func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, 90*24*time.Hour) }
		worker.Workflow(env.Worker, sleeps, worker.Name("sleeps"))
		env.Start()
		if n, err := client.Execute(t.Context(), env.Client, sleeps, 7, client.Name("sleeps")); err != nil || n != 7 {
			t.Errorf("%d, %v", n, err)
		}
	})
}
