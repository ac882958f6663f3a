package activity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// play runs a workflow of one step on an engine of its own, under virtual time,
// and prints how it ended.
func play(step func(context.Context, string) (string, error), in string) {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t)
		f := func(ctx workflow.Context, in string) (string, error) {
			return workflow.Do(ctx, step, in, workflow.As("Step"))
		}
		worker.Workflow(env.Worker, f, worker.Name("Example"))
		worker.Activity(env.Worker, step, worker.Name("Step"))
		env.Start()
		out, err := client.Execute(t.Context(), env.Client, f, in, client.ID("example"), client.Name("Example"))
		var ended *client.RunError
		if errors.As(err, &ended) {
			err = ended.Err
		}
		fmt.Println("ended:", out, err)
	})
}

// A final error: there is no second attempt, though the policy allows 20. It also
// says that nothing was done, so a saga does not undo the step.
func ExampleFail() {
	charge := func(_ context.Context, card string) (string, error) {
		fmt.Println("charge", card)
		return "", activity.Fail("card %s has expired", card)
	}
	play(charge, "1234")
	// Output:
	// charge 1234
	// ended:  activity Step (#1) failed for good: card 1234 has expired
}

// An error of somebody else's, marked as final.
func ExampleFinal() {
	errExpired := errors.New("the card has expired")
	charge := func(_ context.Context, card string) (string, error) {
		return "", fmt.Errorf("charge %s: %w", card, activity.Final(errExpired))
	}
	play(charge, "1234")
	// Output:
	// ended:  activity Step (#1) failed for good: charge 1234: the card has expired
}

// The idempotency key is the same for all attempts; the fence grows with each. A
// service that is given the key does nothing twice; one that keeps the highest
// fence can refuse an attempt that was given up and still runs.
func ExampleGetInfo() {
	var first, last activity.Info
	charge := func(ctx context.Context, card string) (string, error) {
		info := activity.GetInfo(ctx)
		if info.Attempt == 1 {
			first = info
		}
		fmt.Println("attempt", info.Attempt, "the same key:", info.Key == first.Key, "a higher fence:", info.Fence > last.Fence)
		last = info
		if info.Attempt < 3 {
			return "", errors.New("no answer")
		}
		return "paid", nil
	}
	play(charge, "1234")
	// Output:
	// attempt 1 the same key: true a higher fence: true
	// attempt 2 the same key: true a higher fence: true
	// attempt 3 the same key: true a higher fence: true
	// ended: paid <nil>
}

// The service has said when it will be there again.
func ExampleRetryAfter() {
	var asked time.Time
	call := func(ctx context.Context, to string) (string, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			asked = time.Now()
			return "", activity.RetryAfter(errors.New("closed for lunch"), 30*time.Minute)
		}
		return fmt.Sprint(to, " answered after ", time.Since(asked).Round(time.Minute)), nil
	}
	play(call, "the bank")
	// Output:
	// ended: the bank answered after 30m0s <nil>
}

// An activity that is tested by itself.
func ExampleNewContext() {
	charge := func(ctx context.Context, card string) (string, error) {
		return "charged " + card + " under " + activity.GetInfo(ctx).Key, nil
	}
	ctx := activity.NewContext(context.Background(), activity.Info{Key: "key-1", Attempt: 1}, nil)
	fmt.Println(charge(ctx, "1234"))
	// Output:
	// charged 1234 under key-1 <nil>
}
