package workflow_test

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

// Store holds what the activities need. Workflows name its methods by a nil
// pointer; the worker has the real one.
type Store struct{ prices map[string]int }

var store *Store

func (*Store) Charge(_ context.Context, order string) (string, error) {
	return "payment-of-" + order, nil
}

func (*Store) Mail(_ context.Context, text string) error {
	fmt.Println("mail:", text)
	return nil
}

func (s *Store) Price(_ context.Context, item string) (int, error) {
	price, ok := s.prices[item]
	if !ok {
		return 0, activity.Fail("nobody sells %s", item)
	}
	return price, nil
}

// Connect fails twice.
func (*Store) Connect(ctx context.Context, to string) (string, error) {
	if activity.GetInfo(ctx).Attempt < 3 {
		return "", errors.New("no answer")
	}
	return "connected to " + to, nil
}

// Ring never succeeds.
func (*Store) Ring(context.Context, string) (string, error) { return "", errors.New("no answer") }

// Negotiate takes an hour, if it is let.
func (*Store) Negotiate(ctx context.Context, item string) (int, error) {
	select {
	case <-time.After(time.Hour):
		return 42, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// play runs a workflow on an engine of its own, under virtual time, and prints
// how it ended.
func play[In, Out any](f func(workflow.Context, In) (Out, error), in In) {
	during(f, in, func(context.Context, *client.Run[Out]) {})
}

// during is play with something that happens while the run is under way.
func during[In, Out any](f func(workflow.Context, In) (Out, error), in In, then func(context.Context, *client.Run[Out])) {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t)
		worker.Workflow(env.Worker, f, worker.Name("Example"))
		env.Worker.Activities(&Store{prices: map[string]int{"tea": 4, "cups": 12}})
		env.Start()
		run, err := client.Start(t.Context(), env.Client, f, in, client.Name("Example"))
		if err != nil {
			fmt.Println(err)
			return
		}
		synctest.Wait()
		then(t.Context(), run)
		out, err := run.Result(t.Context())
		var ended *client.RunError
		if errors.As(err, &ended) {
			err = ended.Err
		}
		fmt.Println("ended:", out, err)
	})
}

// A step with a result. The engine keeps it: a worker that takes the run over
// gets the payment from the history.
func ExampleDo() {
	sell := func(ctx workflow.Context, order string) (string, error) {
		payment, err := workflow.Do(ctx, store.Charge, order)
		if err != nil {
			return "", err
		}
		return "paid by " + payment, nil
	}
	play(sell, "order-1")
	// Output:
	// ended: paid by payment-of-order-1 <nil>
}

// A step without a result.
func ExampleExec() {
	remind := func(ctx workflow.Context, name string) (string, error) {
		return "reminded", workflow.Exec(ctx, store.Mail, "your tea is ready, "+name)
	}
	play(remind, "Ada")
	// Output:
	// mail: your tea is ready, Ada
	// ended: reminded <nil>
}

// Two steps at once: each future is asked when its result is needed.
func ExampleAsync() {
	sum := func(ctx workflow.Context, _ string) (int, error) {
		tea := workflow.Async(ctx, store.Price, "tea")
		cups := workflow.Async(ctx, store.Price, "cups")
		a, err := tea.Get(ctx)
		if err != nil {
			return 0, err
		}
		b, err := cups.Get(ctx)
		return a + b, err
	}
	play(sum, "")
	// Output:
	// ended: 16 <nil>
}

// A step for each item, all at once. The results stand as the items do; where a
// step failed there is a zero, and the error names the first of these.
func ExampleMap() {
	list := func(ctx workflow.Context, items []string) ([]int, error) {
		prices, err := workflow.Map(ctx, store.Price, items)
		if err != nil {
			fmt.Println(prices, err)
			return workflow.Map(ctx, store.Price, []string{"tea", "cups"})
		}
		return prices, nil
	}
	play(list, []string{"tea", "gold", "cups"})
	// Output:
	// [4 0 12] item 1: activity Store.Price (1[1]#1) failed for good: nobody sells gold
	// ended: [4 12] <nil>
}

// Coroutines: each is ordinary code that may wait, and only one runs at a time,
// so they may share variables.
func ExampleGo() {
	cheapest := func(ctx workflow.Context, items []string) (string, error) {
		best, lowest, open := "", 0, len(items)
		for _, item := range items {
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer func() { open-- }()
				price, err := workflow.Do(ctx, store.Price, item)
				if err == nil && (best == "" || price < lowest) {
					best, lowest = item, price
				}
			})
		}
		err := workflow.Await(ctx, func() bool { return open == 0 })
		return best, err
	}
	play(cheapest, []string{"cups", "gold", "tea"})
	// Output:
	// ended: tea <nil>
}

// Whichever comes first: an answer, or the end of patience.
func ExampleSelect() {
	buy := func(ctx workflow.Context, item string) (price int, err error) {
		scope, cancel := workflow.WithCancel(ctx)
		offer := workflow.Async(scope, store.Negotiate, item, workflow.Timeouts{StartToClose: 2 * time.Hour})
		err = workflow.Select(ctx,
			workflow.On(offer, func(p int, e error) { price, err = p, e }),
			workflow.After(10*time.Minute, func() {
				cancel() // the activity is asked to end
				price = 50
			}),
		)
		return price, err
	}
	play(buy, "tea")
	// Output:
	// ended: 50 <nil>
}

// A sleep is a row in the database. It ends at its time, whatever was restarted
// meanwhile.
func ExampleSleep() {
	nap := func(ctx workflow.Context, d time.Duration) (string, error) {
		began := workflow.Now(ctx)
		if err := workflow.Sleep(ctx, d); err != nil {
			return "", err
		}
		return fmt.Sprint("slept for ", workflow.Now(ctx).Sub(began).Round(time.Hour)), nil
	}
	play(nap, 30*24*time.Hour)
	// Output:
	// ended: slept for 720h0m0s <nil>
}

// Connect fails twice and is tried again, since its policy allows it. With fewer
// attempts the last error is the step's.
func ExampleRetry() {
	call := func(ctx workflow.Context, to string) (string, error) {
		_, err := workflow.Do(ctx, store.Connect, to, workflow.Retry{Attempts: 2})
		fmt.Println(err)
		return workflow.Do(ctx, store.Connect, to, workflow.Retry{Attempts: 5, Base: 100 * time.Millisecond, Cap: time.Second})
	}
	play(call, "the bank")
	// Output:
	// activity Store.Connect (#1) failed after 2 attempts: no answer
	// ended: connected to the bank <nil>
}

// Limits on one attempt, and on all of them together. Without a limit on their
// number the attempts end with the time.
func ExampleTimeouts() {
	call := func(ctx workflow.Context, to string) (string, error) {
		answer, err := workflow.Do(ctx, store.Ring, to,
			workflow.Timeouts{StartToClose: 5 * time.Second, ScheduleToClose: 10 * time.Minute},
			workflow.Retry{Attempts: workflow.Endless})
		var step *workflow.ActivityError
		if errors.As(err, &step) && errors.Is(err, workflow.ErrTimeout) {
			fmt.Println(step.Outcome, "-", step.Err)
			return "nobody is there", nil
		}
		return answer, err
	}
	play(call, "the bank")
	// Output:
	// timed out - the schedule-to-close limit passed, after the error: no answer
	// ended: nobody is there <nil>
}

// How a step ended, for code that has to decide what to do about it.
func ExampleActivityError() {
	ask := func(ctx workflow.Context, item string) (int, error) {
		_, err := workflow.Do(ctx, store.Price, item)
		var step *workflow.ActivityError
		if errors.As(err, &step) {
			fmt.Println(step.Activity, step.Outcome == workflow.OutcomeFailedFinal, step.Attempts, step.Err)
		}
		return 0, nil
	}
	play(ask, "gold")
	// Output:
	// Store.Price true 1 nobody sells gold
	// ended: 0 <nil>
}

// Cleaning up after a cancel: the context is at its end, so what is still to be
// done goes by one that no cancel reaches.
func ExampleDetached() {
	wait := func(ctx workflow.Context, name string) (string, error) {
		err := workflow.Sleep(ctx, 24*time.Hour)
		if errors.Is(err, workflow.ErrCanceled) {
			if err := workflow.Exec(workflow.Detached(ctx), store.Mail, "we have stopped, "+name); err != nil {
				return "", err
			}
		}
		return "", err
	}
	during(wait, "Ada", func(ctx context.Context, run *client.Run[string]) {
		if err := run.Cancel(ctx, "Ada has changed her mind"); err != nil {
			fmt.Println(err)
		}
	})
	// Output:
	// mail: we have stopped, Ada
	// ended:  cancelled: Ada has changed her mind
}

// A final error of the workflow's own: the run fails with it.
func ExampleFail() {
	sell := func(ctx workflow.Context, item string) (int, error) {
		price, err := workflow.Do(ctx, store.Price, item)
		if err != nil {
			return 0, err
		}
		if price > 10 {
			return 0, workflow.Fail("%s cost %d, which is too much", item, price)
		}
		return price, nil
	}
	play(sell, "cups")
	// Output:
	// ended: 0 cups cost 12, which is too much
}
