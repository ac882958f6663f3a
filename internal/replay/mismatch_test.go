package replay_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

type code = func(workflow.Context, Order) (string, error)

// placeOrder is the code that the histories of this file were recorded with.
func placeOrder(ctx workflow.Context, o Order) (string, error) {
	if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
		return "", err
	}
	mail := workflow.ExecAsync(ctx, shop.Mail, o.ID)
	if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
		return "", err
	}
	if _, err := mail.Get(ctx); err != nil {
		return "", err
	}
	saga.Commit(ctx)
	return workflow.Do(ctx, shop.Ship, o.ID)
}

func recorded(t *testing.T, fn code) *engine {
	t.Helper()
	e := newEngine(t, fn, Order{ID: "o1"})
	e.fold()
	e.completed("#1", "p1")
	e.take(&pb.ActivityCompleted{Op: "#2"})
	e.fired("#3")
	e.completed("#5", "shipped")
	if !e.closed {
		t.Fatal(lines(e.log))
	}
	return e
}

// The ways in which code changes under a history, each with what people read.
var changes = map[string]code{
	"timer-before-the-charge": func(ctx workflow.Context, o Order) (string, error) {
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
		return placeOrder(ctx, o)
	},
	"step-gone": func(ctx workflow.Context, o Order) (string, error) {
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
			return "", err
		}
		return "", workflow.Await(ctx, func() bool { return false })
	},
	"step-added": func(ctx workflow.Context, o Order) (string, error) {
		workflow.ExecAsync(ctx, shop.Mail, "hello")
		return placeOrder(ctx, o)
	},
	"other-activity": func(ctx workflow.Context, o Order) (string, error) {
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
			return "", err
		}
		mail := workflow.Async(ctx, shop.Ship, o.ID)
		timer := workflow.NewTimer(ctx, 24*time.Hour)
		if _, err := timer.Get(ctx); err != nil {
			return "", err
		}
		return mail.Get(ctx)
	},
	"commit-gone": func(ctx workflow.Context, o Order) (string, error) {
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
			return "", err
		}
		mail := workflow.ExecAsync(ctx, shop.Mail, o.ID)
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
		if _, err := mail.Get(ctx); err != nil {
			return "", err
		}
		return workflow.Do(ctx, shop.Ship, o.ID)
	},
	"fails-at-the-end": func(ctx workflow.Context, o Order) (string, error) {
		if _, err := placeOrder(ctx, o); err != nil {
			return "", err
		}
		return "", errors.New("no")
	},
	"goes-on-at-the-end": func(ctx workflow.Context, o Order) (string, error) {
		out, err := placeOrder(ctx, o)
		if err != nil {
			return "", err
		}
		for range 12 {
			workflow.ExecAsync(ctx, shop.Mail, out)
		}
		return out, workflow.Sleep(ctx, time.Minute+30*time.Second)
	},
	"returns-early": func(ctx workflow.Context, o Order) (string, error) {
		return saga.Do(ctx, shop.Charge, o, shop.Refund)
	},
	"undo-gone": func(ctx workflow.Context, o Order) (string, error) {
		return workflow.Do(ctx, shop.Charge, o)
	},
	"other-undo": func(ctx workflow.Context, o Order) (string, error) {
		return saga.Do(ctx, shop.Charge, o, shop.Refund, saga.UndoWith(workflow.As("Bank.Void")))
	},
	"undo-added": func(ctx workflow.Context, o Order) (string, error) {
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund); err != nil {
			return "", err
		}
		mail := workflow.ExecAsync(ctx, shop.Mail, o.ID)
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
		if _, err := mail.Get(ctx); err != nil {
			return "", err
		}
		saga.Commit(ctx)
		return saga.Do(ctx, shop.Ship, o.ID, shop.Release)
	},
}

func TestAMismatchIsADiffThatPeopleUnderstand(t *testing.T) {
	e := recorded(t, placeOrder)
	for name, fn := range changes {
		t.Run(name, func(t *testing.T) {
			err := load(t, e, fn, replay.Config{})
			var m *replay.Mismatch
			if !errors.As(err, &m) {
				t.Fatalf("no mismatch: %v", err)
			}
			if replay.FaultKind(err) != pb.FaultKind_FAULT_KIND_MISMATCH || m.Workflow != "PlaceOrder" {
				t.Errorf("fault kind %v of %q", replay.FaultKind(err), m.Workflow)
			}
			for _, d := range m.Differences[:min(10, len(m.Differences))] {
				for _, ev := range []*pb.Event{d.Recorded, d.Asked} {
					if ev != nil && !history.Closes(ev) && !strings.Contains(err.Error(), history.Source(ev)) {
						t.Errorf("the text does not name %s", history.Source(ev))
					}
				}
			}
			golden(t, "mismatches/"+name, err.Error()+"\n")
		})
	}
}

func load(t *testing.T, e *engine, fn code, cfg replay.Config) error {
	t.Helper()
	r := replay.New(cfg, workflow.Bind(fn, nil))
	defer closeClean(t, r)
	_, _, err := r.Load(e.log, e.processed, e.folded)
	if err != nil && r.Err() != err {
		t.Errorf("Err is %v after Load said %v", r.Err(), err)
	}
	return err
}

func TestPayloadsPoliciesAndDurationsAreNoPartOfIdentity(t *testing.T) {
	e := recorded(t, placeOrder)
	changed := func(ctx workflow.Context, o Order) (string, error) {
		o.ID = "other"
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund, workflow.Retry{Attempts: 1}, workflow.Queue("q")); err != nil {
			return "", err
		}
		mail := workflow.ExecAsync(ctx, shop.Mail, "other")
		if err := workflow.Sleep(ctx, -1); err != nil {
			return "", err
		}
		if _, err := mail.Get(ctx); err != nil {
			return "", err
		}
		saga.Commit(ctx)
		_, err := workflow.Do(ctx, shop.Ship, "other")
		return "another result", err
	}
	if err := load(t, e, changed, replay.Config{}); err != nil {
		t.Error(err)
	}
}

// covers has a commit and a compensation, each of which covers what was armed
// before it by other coroutines, in the order in which these run.
func covers(turns ...string) code {
	return func(ctx workflow.Context, o Order) (string, error) {
		next := 0
		my := func(ctx workflow.Context, turn string) {
			_ = workflow.Await(ctx, func() bool { return turns[next] == turn })
			next++
		}
		for _, turn := range []string{"a", "b"} {
			workflow.Go(ctx, func(ctx workflow.Context) {
				my(ctx, turn)
				saga.Async(ctx, shop.Charge, o, shop.Refund)
			})
		}
		my(ctx, "commit")
		saga.Commit(ctx)
		workflow.Go(ctx, func(ctx workflow.Context) { my(ctx, "undo"); _ = saga.Compensate(ctx) })
		return "", workflow.Await(ctx, func() bool { return false })
	}
}

func TestWhatACommitOrACompensationCoversIsPartOfIt(t *testing.T) {
	for name, c := range map[string]struct{ recorded, now code }{
		"commit-covers-less":     {covers("a", "b", "commit", ""), covers("b", "commit", "a", "")},
		"commit-covers-more":     {covers("a", "commit", "b", ""), covers("a", "b", "commit", "")},
		"compensates-other-step": {covers("a", "commit", "b", "undo", ""), covers("b", "commit", "a", "undo", "")},
	} {
		e := newEngine(t, c.recorded, Order{})
		e.fold()
		err := load(t, e, c.now, replay.Config{})
		var m *replay.Mismatch
		if !errors.As(err, &m) {
			t.Fatalf("%s: no mismatch: %v", name, err)
		}
		golden(t, "mismatches/"+name, err.Error()+"\n")
	}
	// Their order says no more than that of the decisions.
	e := newEngine(t, covers("a", "b", "commit", ""), Order{})
	e.fold()
	if err := load(t, e, covers("b", "a", "commit", ""), replay.Config{}); err != nil {
		t.Error(err)
	}
}

func TestARenamedUndoDoesNotMismatch(t *testing.T) {
	e := recorded(t, placeOrder)
	e.log[1].GetActivityScheduled().Undo.Type = "Shop.GiveBack"
	alias := func(recorded, now string) bool { return recorded == "Shop.GiveBack" && now == "Shop.Refund" }
	if err := load(t, e, placeOrder, replay.Config{SameActivity: alias}); err != nil {
		t.Errorf("with the alias: %v", err)
	}
	// No undo is nobody's old name.
	e.log[1].GetActivityScheduled().Undo = nil
	all := func(string, string) bool { return true }
	var m *replay.Mismatch
	if err := load(t, e, placeOrder, replay.Config{SameActivity: all}); !errors.As(err, &m) {
		t.Errorf("without an undo: %v", err)
	}
}

func TestARenamedActivityDoesNotMismatch(t *testing.T) {
	e := recorded(t, placeOrder)
	renamed := func(ctx workflow.Context, o Order) (string, error) {
		if _, err := saga.Do(ctx, shop.Charge, o, shop.Refund, workflow.As("Shop.ChargeCard")); err != nil {
			return "", err
		}
		mail := workflow.ExecAsync(ctx, shop.Mail, o.ID)
		if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
		if _, err := mail.Get(ctx); err != nil {
			return "", err
		}
		saga.Commit(ctx)
		return workflow.Do(ctx, shop.Ship, o.ID)
	}
	alias := func(recorded, now string) bool { return recorded == "Shop.Charge" && now == "Shop.ChargeCard" }
	if err := load(t, e, renamed, replay.Config{SameActivity: alias}); err != nil {
		t.Errorf("with the alias: %v", err)
	}
	var m *replay.Mismatch
	if err := load(t, e, renamed, replay.Config{}); !errors.As(err, &m) {
		t.Errorf("without it: %v", err)
	}
}

// Order counts within a coroutine only: the siblings may be started the other
// way round.
func TestDecisionsOfACauseAreComparedByIdentity(t *testing.T) {
	inOrder := func(first, second int) code {
		return func(ctx workflow.Context, o Order) (string, error) {
			// The paths are the same, the order in which they decide is not.
			turn := 0
			for n := range 2 {
				workflow.Go(ctx, func(ctx workflow.Context) {
					my := []int{first, second}[n]
					_ = workflow.Await(ctx, func() bool { return turn == my })
					turn++
					_, _ = workflow.Do(ctx, shop.Ship, o.ID)
				})
			}
			return "", workflow.Sleep(ctx, time.Hour)
		}
	}
	e := newEngine(t, inOrder(0, 1), Order{})
	want(t, e.fold(), "TimerStarted #1", "ActivityScheduled 1#1 Shop.Ship", "ActivityScheduled 2#1 Shop.Ship")
	other := newEngine(t, inOrder(1, 0), Order{})
	want(t, other.fold(), "TimerStarted #1", "ActivityScheduled 2#1 Shop.Ship", "ActivityScheduled 1#1 Shop.Ship")
	if err := load(t, e, inOrder(1, 0), replay.Config{}); err != nil {
		t.Error(err)
	}
}

func TestNowRandAndOthersUseNoNumber(t *testing.T) {
	e := recorded(t, placeOrder)
	looks := func(ctx workflow.Context, o Order) (string, error) {
		workflow.Now(ctx)
		workflow.Rand(ctx).Int()
		workflow.NewID(ctx)
		workflow.Logger(ctx).Info("x")
		workflow.GetInfo(ctx)
		_, cancel := workflow.WithCancel(ctx)
		cancel()
		if err := workflow.Await(ctx, func() bool { return true }); err != nil {
			return "", err
		}
		return placeOrder(ctx, o)
	}
	if err := load(t, e, looks, replay.Config{}); err != nil {
		t.Error(err)
	}
}

func TestAHistoryThatIsNoneIsATypedError(t *testing.T) {
	e := recorded(t, placeOrder)
	short := e.log[:5]
	for name, c := range map[string]struct {
		log               []*pb.Event
		processed, folded int64
		why               string
	}{
		"a count that differs":        {short, 3, 3, "it has 2 inputs up to event 3, and the engine counted 3"},
		"decisions that nobody took":  {short, 0, 0, "and 0 is the last processed"},
		"events in disorder":          {[]*pb.Event{e.log[1], e.log[0]}, 1, 1, "event 1 stands behind event 2"},
		"no beginning":                {e.log[2:3], 0, 0, "begins with WorkflowStarted"},
		"a decision before its cause": {[]*pb.Event{e.log[0], {Id: 2, Cause: 3, Body: e.log[1].Body}, {Id: 3, Body: e.log[2].Body}}, 3, 2, "caused by event 3"},
	} {
		r := replay.New(replay.Config{}, e.body)
		_, _, err := r.Load(c.log, c.processed, c.folded)
		var bad *replay.BadHistory
		if !errors.As(err, &bad) || !strings.Contains(bad.Why, c.why) {
			t.Errorf("%s: %v", name, err)
		}
		closeClean(t, r)
	}
}

func TestLoadFoldsWhatIsBehindThePositionLive(t *testing.T) {
	e := recorded(t, placeOrder)
	r := replay.New(replay.Config{}, e.body)
	defer closeClean(t, r)
	// Events 1 to 5: started, charge, its answer, mail and timer; then the mail's
	// answer and the timer, which nobody has folded.
	log := append(e.log[:5:5], e.log[5], e.log[6])
	decisions, through, err := r.Load(log, 3, 2)
	if err != nil || through != 7 {
		t.Fatalf("through %d: %v", through, err)
	}
	want(t, decisions, "SagaCommitted #4", "ActivityScheduled #5 Shop.Ship")
	if decisions[0].Cause != 7 {
		t.Errorf("cause %d", decisions[0].Cause)
	}
	last := &pb.Event{Id: 10, Body: e.log[9].Body}
	if more, err := r.Fold(last); err != nil || len(more) != 1 {
		t.Errorf("the fold after a load: %v, %v", more, err)
	}
}

func TestTheHistoryOfAClosedRunReplays(t *testing.T) {
	e := newEngine(t, func(ctx workflow.Context, o Order) (string, error) {
		_, err := saga.Do(ctx, shop.Charge, o, shop.Refund)
		return "", err
	}, Order{})
	e.fold()
	e.failed("#1", errDeclined)
	log := append(e.log[:len(e.log):len(e.log)],
		&pb.Event{Id: 5, Body: &pb.Event_CompensationStarted{CompensationStarted: &pb.CompensationStarted{Ops: []string{"#1"}}}},
		&pb.Event{Id: 6, Body: input(&pb.UndoCompleted{Op: "#1"}).Body},
		&pb.Event{Id: 7, Body: input(&pb.CompensationEnded{Undone: 1}).Body})
	r := replay.New(replay.Config{}, e.body)
	defer closeClean(t, r)
	if _, through, err := r.Load(log, 3, 2); err != nil || through != 3 {
		t.Errorf("through %d: %v", through, err)
	}
}
