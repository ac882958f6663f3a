package replay_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/failure"
	"github.com/engined/engined/sdk/workflow"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// engine plays the part of the engine for one run: it numbers and times events,
// keeps the log, and lets inputs come before older ones are folded.
type engine struct {
	t    testing.TB
	cfg  replay.Config
	body replay.Body
	run  *replay.Run

	log       []*pb.Event
	now       int64
	unfolded  []*pb.Event
	processed int64
	folded    int64
	open      map[string]*pb.Event // by op: what began it
	order     []string             // the open ones, oldest first
	closed    bool
	err       error
}

func newEngine[In, Out any](t testing.TB, fn func(workflow.Context, In) (Out, error), in In) *engine {
	t.Helper()
	return newEngineOf(t, workflow.Bind(fn, nil), replay.Config{}, in)
}

func newEngineOf(t testing.TB, body replay.Body, cfg replay.Config, in any) *engine {
	t.Helper()
	if cfg.Spawn == nil {
		cfg.Spawn = new(sync.WaitGroup).Go
	}
	e := &engine{t: t, cfg: cfg, body: body, now: epoch.UnixNano(), open: map[string]*pb.Event{}}
	e.run = replay.New(cfg, body)
	t.Cleanup(func() { e.run.Close() })
	e.append(&pb.Event{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
		Namespace: "default", WorkflowId: "order-1", RunId: "01JRUN", ChainId: "01JCHAIN", Type: "PlaceOrder",
		Queue: "default", Input: encode(t, in), RequestId: "r", Semantics: history.Semantics, Seed: 42,
	}}})
	return e
}

func encode(t testing.TB, v any) *pb.Payload {
	t.Helper()
	p, err := codec.Default.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// append puts an event into the log; an input waits to be folded.
func (e *engine) append(ev *pb.Event) *pb.Event {
	ev.Id, ev.Time = int64(len(e.log)+1), e.now
	e.log = append(e.log, ev)
	op := history.Op(ev)
	switch ev.Body.(type) {
	case *pb.Event_ActivityScheduled, *pb.Event_TimerStarted, *pb.Event_SagaCompensate:
		e.open[op] = ev
		e.order = append(e.order, op)
	case *pb.Event_ActivityCompleted, *pb.Event_ActivityFailed, *pb.Event_ActivityTimedOut, *pb.Event_ActivityCancelled,
		*pb.Event_TimerFired, *pb.Event_TimerCancelled, *pb.Event_CompensationEnded:
		delete(e.open, op)
		e.order = slices.DeleteFunc(e.order, func(o string) bool { return o == op })
	}
	e.closed = e.closed || history.Closes(ev)
	if history.IsInput(ev) {
		e.unfolded = append(e.unfolded, ev)
	}
	return ev
}

// fold folds the oldest input that waits, and appends what the code asks for.
func (e *engine) fold() []*pb.Event {
	e.t.Helper()
	in := e.unfolded[0]
	decisions, err := e.run.Fold(in)
	if err != nil {
		e.err = err
		return nil
	}
	e.unfolded = e.unfolded[1:]
	e.processed = in.Id
	e.folded++
	for _, d := range decisions {
		if d.Cause != in.Id {
			e.t.Errorf("%s has another cause than input %d", history.Line(d), in.Id)
		}
		e.append(d)
	}
	if err := history.Validate(e.log); err != nil {
		e.t.Fatalf("the history is not well formed: %v\n%s", err, lines(e.log))
	}
	return decisions
}

// take appends an input a second after the last one, and folds it.
func (e *engine) take(body any) []*pb.Event {
	e.t.Helper()
	e.now += int64(time.Second)
	e.append(input(body))
	return e.fold()
}

func (e *engine) completed(op string, v any) []*pb.Event {
	e.t.Helper()
	return e.take(&pb.ActivityCompleted{Op: op, Result: encode(e.t, v), Tally: &pb.Tally{Attempts: 1, Deliveries: 1}})
}

func (e *engine) failed(op string, err error) []*pb.Event {
	e.t.Helper()
	return e.take(&pb.ActivityFailed{Op: op, Failure: failure.Encode(err, nil), Tally: &pb.Tally{Attempts: 20, Deliveries: 20}})
}

func (e *engine) fired(op string) []*pb.Event {
	e.t.Helper()
	return e.take(&pb.TimerFired{Op: op})
}

func (e *engine) canceled(reason string) []*pb.Event {
	e.t.Helper()
	return e.take(&pb.CancelRequested{Reason: reason})
}

// input makes an event of a body.
func input(body any) *pb.Event {
	switch b := body.(type) {
	case *pb.ActivityCompleted:
		return &pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: b}}
	case *pb.ActivityFailed:
		return &pb.Event{Body: &pb.Event_ActivityFailed{ActivityFailed: b}}
	case *pb.ActivityTimedOut:
		return &pb.Event{Body: &pb.Event_ActivityTimedOut{ActivityTimedOut: b}}
	case *pb.ActivityCancelled:
		return &pb.Event{Body: &pb.Event_ActivityCancelled{ActivityCancelled: b}}
	case *pb.TimerFired:
		return &pb.Event{Body: &pb.Event_TimerFired{TimerFired: b}}
	case *pb.CancelRequested:
		return &pb.Event{Body: &pb.Event_CancelRequested{CancelRequested: b}}
	case *pb.CompensationEnded:
		return &pb.Event{Body: &pb.Event_CompensationEnded{CompensationEnded: b}}
	case *pb.UndoCompleted:
		return &pb.Event{Body: &pb.Event_UndoCompleted{UndoCompleted: b}}
	case *pb.LateAnswer:
		return &pb.Event{Body: &pb.Event_LateAnswer{LateAnswer: b}}
	case *pb.SignalReceived:
		return &pb.Event{Body: &pb.Event_SignalReceived{SignalReceived: b}}
	case *pb.UpdateAccepted:
		return &pb.Event{Body: &pb.Event_UpdateAccepted{UpdateAccepted: b}}
	case *pb.Joined:
		return &pb.Event{Body: &pb.Event_Joined{Joined: b}}
	default:
		panic(fmt.Sprintf("no input: %T", body))
	}
}

// want fails unless the decisions read so (kind, operation, name).
func want(t testing.TB, decisions []*pb.Event, lines ...string) {
	t.Helper()
	got := []string{}
	for _, d := range decisions {
		got = append(got, strings.TrimSpace(history.Kind(d)+" "+history.Op(d)+" "+history.Name(d)))
	}
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if !slices.Equal(got, lines) {
		t.Fatalf("decisions are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

// failureOf is the error with which the run failed or was cancelled.
func failureOf(t testing.TB, decisions []*pb.Event) error {
	t.Helper()
	last := decisions[len(decisions)-1]
	if f := last.GetWorkflowFailed(); f != nil {
		return failure.Decode(f.Failure, nil)
	}
	if c := last.GetWorkflowCancelled(); c != nil {
		return failure.Decode(c.Failure, nil)
	}
	t.Fatalf("the run did not fail: %s", history.Line(last))
	return nil
}

// resultOf is the result with which the run completed.
func resultOf[Out any](t testing.TB, decisions []*pb.Event) Out {
	t.Helper()
	var out Out
	if len(decisions) == 0 || decisions[len(decisions)-1].GetWorkflowCompleted() == nil {
		t.Fatalf("the run did not complete:\n%s", lines(decisions))
	}
	if err := codec.Default.Decode(decisions[len(decisions)-1].GetWorkflowCompleted().Result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func lines(events []*pb.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintln(&b, " ", history.Line(ev))
	}
	return b.String()
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -rewrite)", err)
	}
	if string(have) != text {
		t.Errorf("%s differs; with -rewrite it becomes\n%s", path, text)
	}
}

// The activities of the tests; none is ever run here.
type Shop struct{}

var shop *Shop

type Order struct {
	ID    string
	Items []string
}

var errDeclined = errors.New("card declined")

func init() { failure.Register("replay_test.ErrDeclined", errDeclined) }

func (*Shop) Charge(context.Context, Order) (string, error)   { return "", errors.New("not run here") }
func (*Shop) Reserve(context.Context, string) (string, error) { return "", errors.New("not run here") }
func (*Shop) Ship(context.Context, string) (string, error)    { return "", errors.New("not run here") }
func (*Shop) Mail(context.Context, string) error              { return errors.New("not run here") }
