package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

// A story is a workflow with what happens to it, told in testdata/stories.
func TestStories(t *testing.T) {
	for name, tell := range map[string]func(*engine){
		"one-activity":           storyOneActivity,
		"coroutines-and-map":     storyCoroutines,
		"select-with-timer":      storySelect,
		"cancel-and-clean-up":    storyCancel,
		"wait-for-cancel":        storyWaitForCancel,
		"saga-commit-compensate": storySaga,
		"late-and-unknown-facts": storyLate,
	} {
		t.Run(name, func(t *testing.T) {
			e := storyOf(t, name)
			e.fold()
			tell(e)
			if e.err != nil {
				t.Fatal(e.err)
			}
			text := ""
			for _, ev := range e.log {
				switch {
				case history.IsInput(ev):
					text += "> "
				default:
					text += "    "
				}
				text += sourceless(ev) + "\n"
			}
			golden(t, "stories/"+name, text)
			replayed(t, e)
		})
	}
}

// sourceless is the line of an event without its place in this file.
func sourceless(ev *pb.Event) string {
	if s := history.Source(ev); s != "" {
		return strings.TrimSuffix(history.Line(ev), " at "+s)
	}
	return history.Line(ev)
}

func storyOf(t *testing.T, name string) *engine {
	order := Order{ID: "o1", Items: []string{"tea", "cup"}}
	switch name {
	case "one-activity":
		return newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
			return workflow.Do(ctx, shop.Charge, o, workflow.Retry{Attempts: 3}, workflow.Queue("pay"))
		}, order)
	case "coroutines-and-map":
		return newEngine(t, coroutines, order)
	case "select-with-timer":
		return newEngine(t, selects, order)
	case "cancel-and-clean-up":
		return newEngine(t, cleansUp, order)
	case "wait-for-cancel":
		return newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
			return workflow.Do(ctx, shop.Charge, o, workflow.WaitForCancel())
		}, order)
	case "saga-commit-compensate":
		return newEngine(t, sagas, order)
	default:
		return newEngine(t, dropsSteps, order)
	}
}

func storyOneActivity(e *engine) { e.completed("#1", "p1") }

func coroutines(ctx workflow.Context, o Order) ([]string, error) {
	var mailed, shipped bool
	workflow.Go(ctx, func(ctx workflow.Context) {
		workflow.Go(ctx, func(ctx workflow.Context) {
			_, err := workflow.Do(ctx, shop.Ship, o.ID)
			shipped = err == nil
		})
		mailed = workflow.Exec(ctx, shop.Mail, o.ID) == nil
	})
	slips, err := workflow.Map(ctx, shop.Reserve, o.Items)
	if err != nil {
		return nil, err
	}
	if err := workflow.Await(ctx, func() bool { return mailed && shipped }); err != nil {
		return nil, err
	}
	return slips, nil
}

func storyCoroutines(e *engine) {
	e.completed("1[1]#1", "cup reserved")
	e.completed("1.1#1", "shipped")
	e.completed("1[0]#1", "tea reserved")
	e.take(&pb.ActivityCompleted{Op: "1#1"})
}

func selects(ctx workflow.Context, o Order) (string, error) {
	charge := workflow.Async(ctx, shop.Charge, o)
	got := ""
	err := workflow.Select(ctx,
		workflow.On(charge, func(id string, err error) { got = fmt.Sprint("charged ", id, err) }),
		workflow.After(time.Minute, func() { got = "slow" }),
	)
	if err != nil || got != "slow" {
		return got, err
	}
	err = workflow.Select(ctx,
		workflow.On(charge, func(id string, err error) { got = fmt.Sprint("charged ", id, err) }),
		workflow.After(time.Hour, nil),
	)
	return got, err
}

func storySelect(e *engine) {
	e.fired("#2")
	e.completed("#1", "p1")
}

func cleansUp(ctx workflow.Context, o Order) (string, error) {
	workflow.Go(ctx, func(ctx workflow.Context) { _ = workflow.Sleep(ctx, time.Hour) })
	_, err := workflow.Do(ctx, shop.Charge, o)
	if !errors.Is(err, workflow.ErrCanceled) {
		return "", err
	}
	if _, again := workflow.Do(ctx, shop.Charge, o); !errors.Is(again, workflow.ErrCanceled) {
		return "", errors.New("a cancelled context started an activity")
	}
	if err := workflow.Exec(workflow.Detached(ctx), shop.Mail, "sorry"); err != nil {
		return "", err
	}
	return "", fmt.Errorf("gave up: %w", err)
}

func storyCancel(e *engine) {
	e.canceled("the customer called")
	e.take(&pb.ActivityCancelled{Op: "#1", Cause: "the customer called"})
	e.take(&pb.ActivityCompleted{Op: "#3"})
}

func storyWaitForCancel(e *engine) {
	e.canceled("changed my mind")
	e.completed("#1", "done all the same")
}

func sagas(ctx workflow.Context, o Order) (string, error) {
	if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
		return "", err
	}
	saga.Commit(ctx)
	if _, err := saga.Map(ctx, shop.Reserve, o.Items, shop.Release, saga.UndoWith(workflow.Queue("stock"))); err != nil {
		if err := saga.Compensate(ctx); err != nil {
			return "", err
		}
		saga.Commit(ctx) // nothing is left that it could cover
	}
	return workflow.Do(ctx, shop.Ship, o.ID)
}

func storySaga(e *engine) {
	e.completed("#1", "p1")
	e.completed("1[0]#1", "s1")
	e.failed("1[1]#1", errDeclined)
	e.take(&pb.UndoCompleted{Op: "1[0]#1", Outcome: pb.EntryOutcome_ENTRY_OUTCOME_DONE})
	e.take(&pb.CompensationEnded{Op: "#3", Undone: 1})
	e.completed("#5", "shipped")
}

func dropsSteps(ctx workflow.Context, o Order) (string, error) {
	scoped, cancel := workflow.WithCancel(ctx)
	charge := workflow.Async(scoped, shop.Charge, o)
	if err := workflow.Sleep(ctx, time.Second); err != nil {
		return "", err
	}
	timer := workflow.NewTimer(scoped, time.Hour) // begun and ended in one fold: never asked for
	cancel()
	_, timerErr := timer.Get(ctx)
	_, chargeErr := charge.Get(ctx)
	if !errors.Is(timerErr, workflow.ErrCanceled) || !errors.Is(chargeErr, workflow.ErrCanceled) {
		return "", fmt.Errorf("not cancelled: %v, %v", timerErr, chargeErr)
	}
	return "slept", workflow.Sleep(ctx, time.Second)
}

func storyLate(e *engine) {
	e.fired("#2")
	e.completed("#1", "too late")
	e.take(&pb.LateAnswer{Op: "#1", Delivery: 1, Outcome: pb.Outcome_OUTCOME_COMPLETED})
	e.take(&pb.SignalReceived{Name: "nobody listens"})
	e.fired("#4")
}
