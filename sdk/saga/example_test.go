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

// Agency books trips. Workflows name its methods by a nil pointer; the worker has
// the real one.
type Agency struct{}

var agency *Agency

func (*Agency) Book(_ context.Context, what string) (string, error) {
	if what == "a suite" {
		return "", activity.Fail("%s is not to be had", what)
	}
	fmt.Println("book", what)
	return "number-of-" + what, nil
}

// Cancel undoes Book.
func (*Agency) Cancel(_ context.Context, u saga.Undo[string, string]) error {
	fmt.Println("cancel", u.Input)
	return nil
}

// Insure is undone by nobody.
func (*Agency) Insure(_ context.Context, who string) error {
	return activity.Fail("nobody insures %s", who)
}

// Keep undoes Book, and cannot.
func (*Agency) Keep(_ context.Context, u saga.Undo[string, string]) error {
	return activity.Fail("%s is not given back", u.Input)
}

// play runs a workflow on an engine of its own, under virtual time, and prints
// how it ended when its undos are over, too.
func play[In, Out any](f func(workflow.Context, In) (Out, error), in In) {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, f, worker.Name("Example"))
		env.Worker.Activities(&Agency{})
		env.Start()
		out, err := client.Execute(t.Context(), env.Client, f, in, client.ID("trip"), client.Name("Example"))
		var ended *client.RunError
		if errors.As(err, &ended) {
			err = ended.Err
		}
		fmt.Println("ended:", out, err)
	})
}

// The workflow fails at its last step: what was done before is undone, newest
// first, by the engine.
func ExampleDo() {
	travel := func(ctx workflow.Context, who string) (string, error) {
		if _, err := saga.Do(ctx, agency.Book, "a flight", agency.Cancel); err != nil {
			return "", err
		}
		if _, err := saga.Do(ctx, agency.Book, "a room", agency.Cancel); err != nil {
			return "", err
		}
		return "a trip", workflow.Exec(ctx, agency.Insure, who)
	}
	play(travel, "Ada")
	// Output:
	// book a flight
	// book a room
	// cancel a room
	// cancel a flight
	// ended:  activity Agency.Insure (#3) failed for good: nobody insures Ada
}

// Steps side by side, each with its undo. One is refused for good, so it has done
// nothing and is not undone; the others are.
func ExampleMap() {
	travel := func(ctx workflow.Context, wishes []string) ([]string, error) {
		return saga.Map(ctx, agency.Book, wishes, agency.Cancel)
	}
	play(travel, []string{"a flight", "a suite", "a car"})
	// Unordered output:
	// book a flight
	// book a car
	// cancel a flight
	// cancel a car
	// ended: [] item 1: activity Agency.Book (1[1]#1) failed for good: a suite is not to be had
}

// From the pivot on the trip stands, whatever comes.
func ExampleCommit() {
	travel := func(ctx workflow.Context, who string) (string, error) {
		if _, err := saga.Do(ctx, agency.Book, "a flight", agency.Cancel); err != nil {
			return "", err
		}
		saga.Commit(ctx)
		return "a trip", workflow.Exec(ctx, agency.Insure, who)
	}
	play(travel, "Ada")
	// Output:
	// book a flight
	// ended:  activity Agency.Insure (#3) failed for good: nobody insures Ada
}

// The first road is given up and undone, and the workflow takes another.
func ExampleCompensate() {
	travel := func(ctx workflow.Context, _ string) (string, error) {
		if _, err := saga.Do(ctx, agency.Book, "a flight", agency.Cancel); err != nil {
			return "", err
		}
		if _, err := saga.Do(ctx, agency.Book, "a suite", agency.Cancel); err == nil {
			return "flight and suite", nil
		}
		if err := saga.Compensate(ctx); err != nil {
			return "", err
		}
		_, err := saga.Do(ctx, agency.Book, "a camp site", agency.Cancel)
		return "a camp site", err
	}
	play(travel, "Ada")
	// Output:
	// book a flight
	// cancel a flight
	// book a camp site
	// ended: a camp site <nil>
}

// Steps that could not be undone are named. Without Compensate the run itself
// would show them, as "compensation failed", until a person has looked.
func ExampleCompensationError() {
	travel := func(ctx workflow.Context, _ string) (string, error) {
		if _, err := saga.Do(ctx, agency.Book, "a flight", agency.Keep); err != nil {
			return "", err
		}
		err := saga.Compensate(ctx)
		var kept *saga.CompensationError
		if errors.As(err, &kept) {
			fmt.Println(kept.Undone, kept.Failed)
		}
		return "", err
	}
	play(travel, "Ada")
	// Output:
	// book a flight
	// 0 [{#1 Agency.Book}]
	// ended:  1 of 1 steps could not be undone: Agency.Book (#1)
}
