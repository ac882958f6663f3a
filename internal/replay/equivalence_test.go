package replay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/saga"
	"github.com/engined/engined/sdk/workflow"
)

// replayed folds the engine's log in a new run and wants the same of it.
func replayed(t testing.TB, e *engine) {
	t.Helper()
	cold(t, e, prefix{len(e.log), e.processed, e.folded}, nil)
}

// cold loads a prefix of a log into a new run. What it asks for by the inputs
// behind the prefix's position must be what the first run came to ask for.
func cold(t testing.TB, e *engine, p prefix, later map[int64][]*pb.Event) {
	t.Helper()
	log := e.log[:p.events]
	r := replay.New(e.cfg, e.body)
	defer closeClean(t, r)
	decisions, through, err := r.Load(log, p.processed, p.folded)
	if err != nil {
		t.Fatalf("replay of %d events up to %d: %v\n%s", len(log), p.processed, err, lines(log))
	}
	at := 0
	for _, in := range log {
		if !history.IsInput(in) || in.Id <= p.processed || in.Id > through {
			continue
		}
		for _, d := range later[in.Id] {
			if at >= len(decisions) || !sameDecision(d, decisions[at]) {
				t.Fatalf("input %d asked live for\n%s, and after a load of %d events for\n%s", in.Id, lines(later[in.Id]), len(log), lines(decisions))
			}
			at++
		}
	}
	if at != len(decisions) {
		t.Fatalf("after a load of %d events more is asked for:\n%s", len(log), lines(decisions[at:]))
	}
}

func closeClean(t testing.TB, r *replay.Run) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// sameDecision compares all but what the engine adds.
func sameDecision(recorded, asked *pb.Event) bool {
	a := proto.Clone(recorded).(*pb.Event)
	a.Id, a.Time = 0, 0
	b := proto.Clone(asked).(*pb.Event)
	b.Id, b.Time = 0, 0
	return proto.Equal(a, b)
}

// The programs use everything there is, and draw what they ask for at random.
var programs = map[string]func(*testing.T) *engine{
	"coroutines": func(t *testing.T) *engine { return newEngine(t, coroutines, orderOf(5)) },
	"selects":    func(t *testing.T) *engine { return newEngine(t, selects, orderOf(0)) },
	"cleans-up":  func(t *testing.T) *engine { return newEngine(t, cleansUp, orderOf(0)) },
	"sagas":      func(t *testing.T) *engine { return newEngine(t, sagas, orderOf(4)) },
	"drops":      func(t *testing.T) *engine { return newEngine(t, dropsSteps, orderOf(0)) },
	"gambles":    func(t *testing.T) *engine { return newEngine(t, gambles, 3) },
	"waits":      func(t *testing.T) *engine { return newEngine(t, waits, orderOf(3)) },
}

func orderOf(n int) Order {
	o := Order{ID: "o"}
	for i := range n {
		o.Items = append(o.Items, fmt.Sprint("item", i))
	}
	return o
}

// gambles does what its random numbers say, in coroutines of coroutines.
func gambles(ctx workflow.Context, depth int) (int, error) {
	done, steps := 0, 0
	var play func(workflow.Context, int)
	play = func(ctx workflow.Context, depth int) {
		defer func() { done++ }()
		for range 4 {
			steps++
			switch rnd := workflow.Rand(ctx); rnd.IntN(7) {
			case 0:
				_ = workflow.Sleep(ctx, time.Duration(rnd.Int64N(int64(time.Hour))))
			case 1:
				_, _ = saga.Do(ctx, shop.Charge, Order{ID: workflow.NewID(ctx)}, shop.Refund)
			case 2:
				if depth > 0 {
					workflow.Go(ctx, func(ctx workflow.Context) { play(ctx, depth-1) })
					workflow.Go(ctx, func(ctx workflow.Context) { play(ctx, depth-1) })
				}
			case 3:
				scoped, cancel := workflow.WithCancel(ctx)
				f := workflow.Async(scoped, shop.Ship, workflow.Now(ctx).Format(time.RFC3339Nano))
				_ = workflow.Select(ctx, workflow.On(f, nil), workflow.After(time.Minute, cancel))
				cancel()
			case 4:
				seen := steps
				_ = workflow.Select(ctx, workflow.After(time.Hour, nil), workflow.After(time.Minute, nil))
				_ = workflow.Await(ctx, func() bool { return steps > seen || done > 0 || depth == 3 })
			case 5:
				_ = saga.Compensate(workflow.Detached(ctx))
			case 6:
				saga.Commit(ctx)
			}
		}
	}
	play(ctx, depth)
	err := workflow.Await(ctx, func() bool { return done > 2 })
	return steps, err
}

func waits(ctx workflow.Context, o Order) (string, error) {
	f := workflow.Async(ctx, shop.Ship, o.ID, workflow.WaitForCancel())
	slips, err := workflow.Map(ctx, shop.Reserve, o.Items, workflow.WaitForCancel())
	if errors.Is(err, workflow.ErrCanceled) {
		err = workflow.Exec(workflow.Detached(ctx), shop.Mail, o.ID)
	}
	shipped, shipErr := f.Get(ctx)
	return fmt.Sprint(slips, shipped), errors.Join(err, shipErr)
}

// A live run and its replay from every prefix ask for the same: with answers,
// failures, cancels and late facts in any order, and decisions that stand behind
// later inputs.
func TestReplayFromEveryPrefixAsksForTheSame(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 5
	}
	for name, make := range programs {
		t.Run(name, func(t *testing.T) {
			closed := 0
			for seed := range seeds {
				e := make(t)
				playAtRandom(t, e, rand.New(rand.NewPCG(uint64(seed), 7)))
				if e.closed {
					closed++
				}
			}
			if closed == 0 {
				t.Error("no run came to its end: the test shows little")
			}
		})
	}
}

// prefix is what a worker that takes the run over would be given.
type prefix struct {
	events            int
	processed, folded int64
}

func playAtRandom(t *testing.T, e *engine, rnd *rand.Rand) {
	t.Helper()
	e.now += int64(seedOf(rnd))
	var prefixes []prefix
	for step := 0; step < 300 && !e.closed; step++ {
		prefixes = append(prefixes, prefix{len(e.log), e.processed, e.folded})
		switch {
		case len(e.unfolded) > 0 && rnd.IntN(3) > 0:
			e.fold()
		case len(e.order) > 0:
			e.now += rnd.Int64N(int64(time.Minute))
			e.append(answer(t, e, rnd))
		case len(e.unfolded) == 0:
			step = 300 // it waits for nothing that we could give
		}
		if e.err != nil {
			t.Fatalf("%v\n%s", e.err, lines(e.log))
		}
	}
	later := map[int64][]*pb.Event{}
	for _, ev := range e.log {
		if history.IsDecision(ev) {
			later[ev.Cause] = append(later[ev.Cause], ev)
		}
	}
	for _, p := range prefixes {
		cold(t, e, p, later)
	}
	replayed(t, e)
}

func seedOf(rnd *rand.Rand) time.Duration { return time.Duration(rnd.Int64N(int64(time.Hour))) }

// answer ends a random open operation, or asks the run to end.
func answer(t *testing.T, e *engine, rnd *rand.Rand) *pb.Event {
	t.Helper()
	canceled := false
	for _, ev := range e.log {
		canceled = canceled || ev.GetCancelRequested() != nil
	}
	if !canceled && rnd.IntN(20) == 0 {
		return input(&pb.CancelRequested{Reason: "by chance"})
	}
	op := e.order[rnd.IntN(len(e.order))]
	switch e.open[op].Body.(type) {
	case *pb.Event_TimerStarted:
		return input(&pb.TimerFired{Op: op})
	case *pb.Event_SagaCompensate:
		return input(&pb.CompensationEnded{Op: op, Undone: 1})
	}
	switch rnd.IntN(5) {
	case 0:
		return input(&pb.ActivityTimedOut{Op: op, Limit: pb.Limit_LIMIT_SCHEDULE_TO_CLOSE})
	case 1:
		return input(&pb.ActivityFailed{Op: op, Failure: &pb.Failure{Message: "no"}})
	case 2:
		return input(&pb.SignalReceived{Name: "noise"})
	default:
		return input(&pb.ActivityCompleted{Op: op, Result: encode(t, fmt.Sprint("r", rnd.IntN(10)))})
	}
}
