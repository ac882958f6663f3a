package sdktest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// heeds lasts for as long as its context.
func heeds(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func waitsFor(ctx workflow.Context, attempts int) (bool, error) {
	workflow.Logger(ctx).Debug("a detail")
	_, err := workflow.Do(ctx, heeds, 1, workflow.Retry{Attempts: attempts}, workflow.Timeouts{StartToClose: time.Second})
	return errors.Is(err, workflow.ErrTimeout), nil
}

// An activity that heeds its context is as much out of time as one that does not.
func TestAnActivityThatHeedsItsLimitHasTimedOut(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			env := sdktest.New(t)
			worker.Workflow(env.Worker, waitsFor)
			worker.Activity(env.Worker, heeds)
			env.Start()
			timedOut, err := client.Execute(t.Context(), env.Client, waitsFor, attempts)
			if err != nil || !timedOut {
				t.Errorf("%d attempts: timed out %v, %v", attempts, timedOut, err)
			}
		})
	}
}

// What workflow code logs says whose it is, down to the level that the log takes.
func TestLogsOfWorkflowsNameTheirRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		env := sdktest.New(t, sdktest.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		worker.Workflow(env.Worker, waitsFor)
		worker.Activity(env.Worker, heeds)
		env.Start()
		run, err := client.Start(t.Context(), env.Client, waitsFor, 1, client.ID("w-1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "a detail") && strings.Contains(line, "workflow_id=w-1") && strings.Contains(line, "run_id="+run.RunID) && strings.Contains(line, "workflow_type=waitsFor") {
				return
			}
		}
		t.Errorf("no line of the run:\n%s", log.String())
	})
}
