package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
)

// script is an engine that answers as a test says.
type script struct {
	enginerpc.UnimplementedClientServer
	enginerpc.UnimplementedAdminServer

	err      error // of all calls that change something, or list
	runs     []*pb.RunInfo
	describe []*pb.DescribeResponse // one a call; the last one stays
	pages    []*pb.HistoryResponse  // the one behind the last never comes
	queues   []*pb.QueueInfo
	workers  []*pb.WorkerInfo
	awaited  chan bool // closed by an await, which does not return

	mu    sync.Mutex
	asked []string
}

func (s *script) note(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
	return rpcerr.ToStatus(s.err)
}

func (s *script) Start(context.Context, *pb.StartRequest) (*pb.StartResponse, error) {
	return &pb.StartResponse{WorkflowId: "a", RunId: "r1", Started: true}, s.note("start")
}

func (s *script) Cancel(_ context.Context, q *pb.CancelRequest) (*pb.CancelResponse, error) {
	return &pb.CancelResponse{}, s.note("cancel %s %s", q.Run.RunId, q.Reason)
}

func (s *script) Terminate(_ context.Context, q *pb.TerminateRequest) (*pb.TerminateResponse, error) {
	return &pb.TerminateResponse{}, s.note("terminate %s %s", q.Run.RunId, q.Reason)
}

func (s *script) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.describe[0]
	if len(s.describe) > 1 {
		s.describe = s.describe[1:]
	}
	return d, nil
}

func (s *script) Await(ctx context.Context, _ *pb.AwaitRequest) (*pb.AwaitResponse, error) {
	close(s.awaited)
	<-ctx.Done()
	return nil, rpcerr.ToStatus(ctx.Err())
}

func (s *script) History(ctx context.Context, _ *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	if len(s.pages) == 0 {
		<-ctx.Done()
		return nil, rpcerr.ToStatus(ctx.Err())
	}
	p := s.pages[0]
	s.pages = s.pages[1:]
	return p, nil
}

// List pages by the number of runs that were given out.
func (s *script) List(_ context.Context, q *pb.ListRequest) (*pb.ListResponse, error) {
	if err := s.note("list %d", q.Limit); err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(q.Page)
	to := min(from+int(q.Limit), len(s.runs))
	res := &pb.ListResponse{Runs: s.runs[from:to]}
	if to < len(s.runs) {
		res.Next = strconv.Itoa(to)
	}
	return res, nil
}

func (*script) GetServerInfo(context.Context, *pb.ServerInfoRequest) (*pb.ServerInfo, error) {
	return &pb.ServerInfo{Ready: true}, nil
}

func (s *script) ListWorkers(context.Context, *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	return &pb.ListWorkersResponse{Workers: s.workers}, nil
}

func (s *script) ListQueues(context.Context, *pb.ListQueuesRequest) (*pb.ListQueuesResponse, error) {
	return &pb.ListQueuesResponse{Queues: s.queues}, nil
}

// play serves a script.
func play(t *testing.T, s *script) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	enginerpc.RegisterClientServer(srv, s)
	enginerpc.RegisterAdminServer(srv, s)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

var begun = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// person runs a command line a minute after the beginning, on a terminal.
func person(t *testing.T, addr, line, types string) said {
	t.Helper()
	t.Setenv(addressEnv, addr)
	return execute(t.Context(), commands(func() time.Time { return begun.Add(time.Minute) }, func(any) int { return 80 }), line, types)
}

func running() *pb.DescribeResponse {
	return &pb.DescribeResponse{Info: &pb.RunInfo{
		Namespace: "default", WorkflowId: "a", RunId: "r1", Type: "T", Status: pb.Status_STATUS_RUNNING, Started: begun.UnixNano(),
	}}
}

func TestTerminateShowsTheRunAndAsks(t *testing.T) {
	before, after := running(), running()
	for i := range 6 {
		before.Waiting = append(before.Waiting, &pb.Waiting{Op: fmt.Sprintf("#%d", i), Kind: "ledger", Type: "Charge\x1b"})
	}
	after.Info.Status, after.Info.UndoState = pb.Status_STATUS_TERMINATED, pb.UndoState_UNDO_STATE_COMPENSATING
	s := &script{describe: []*pb.DescribeResponse{before}}
	addr := play(t, s)
	for _, answer := range []string{"n\n", "", "yess\n"} {
		person(t, addr, "workflow terminate a", answer).has(t, 2,
			"Terminate a at "+addr+", in namespace default?", "T, running, started 1m ago, run r1",
			`6 steps are undone: #0 Charge\x1b, `, ", …", "nothing was done")
	}
	if len(s.asked) > 0 {
		t.Errorf("without a yes the engine was asked %q", s.asked)
	}
	s.describe = []*pb.DescribeResponse{before, after}
	person(t, addr, "workflow terminate a --reason wrong", "Yes\n").has(t, 0, "a is terminated; what was armed is being undone", "engined workflow watch a")
	if got := strings.Join(s.asked, "; "); got != "terminate r1 wrong" {
		t.Errorf("the engine was asked %q, want that very run", got)
	}
	for state, want := range map[pb.UndoState]string{
		pb.UndoState_UNDO_STATE_COMPENSATED: "what was armed is undone", pb.UndoState_UNDO_STATE_FAILED: "failed for good: `engined workflow describe a`",
	} {
		after.Info.UndoState = state
		s.describe = []*pb.DescribeResponse{before, after}
		person(t, addr, "workflow terminate a -y", "").has(t, 0, want)
	}
}

func TestADeviceThatIsNoTerminalIsNotAsked(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, x := range []any{null, strings.NewReader(""), nil} {
		if n := terminalWidth(x); n != 0 {
			t.Errorf("%v is a terminal, %d wide", x, n)
		}
	}
}

func TestACancelTellsWhatComesNext(t *testing.T) {
	grace, ended := running(), running()
	grace.Waiting = []*pb.Waiting{{Kind: "grace", Until: begun.Add(90 * time.Second).UnixNano()}}
	ended.Info.Status = pb.Status_STATUS_CANCELLED
	for _, c := range []struct {
		after *pb.DescribeResponse
		want  string
	}{
		{grace, "a is asked to end; if its code does not, the engine ends it in 30s; steps that have an undo are undone"},
		{running(), "a is asked to end: `engined workflow watch a`"},
		{ended, "a is cancelled: `engined workflow history a`"},
	} {
		s := &script{describe: []*pb.DescribeResponse{running(), c.after}}
		person(t, play(t, s), "workflow cancel a", "").has(t, 0, c.want)
	}
}

func TestHeldRunsAreFoundAmongManyThatRun(t *testing.T) {
	s := &script{}
	for i := range 4500 {
		r := &pb.RunInfo{WorkflowId: fmt.Sprintf("w%d", i), Status: pb.Status_STATUS_RUNNING, Started: begun.UnixNano() - int64(i)}
		switch i {
		case 1500, 3999:
			r.Hold = &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_STUCK}
		case 4000:
			r.Hold = &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_QUARANTINED}
		}
		s.runs = append(s.runs, r)
	}
	addr := play(t, s)
	for line, want := range map[string]string{
		"--status held":                   "w1500 w3999 w4000",
		"--status stuck":                  "w1500 w3999",
		"--status stuck --limit 1":        "w1500",
		"--status stuck --page 2000":      "w3999",
		"--status quarantined":            "w4000",
		"--status compensating":           "",
		"--status compensation-failed":    "",
		"--status running --limit 2":      "w0 w1",
		"--status running --page 4499":    "w4499",
		"--limit 1000 --page 3998 --id x": "w3999 w4000",
	} {
		out := person(t, addr, "workflow list -o jsonl "+line, "").has(t, 0).out
		var got []string
		for l := range strings.Lines(out) {
			if id := strings.SplitN(l, `"`, 5)[3]; want == "" || strings.Contains(want, id) {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", line, got, want)
		}
	}
	person(t, addr, "workflow list --status stuck --limit 1", "").has(t, 0, "running (stuck)", "there are more: the same command with --page 2000")
	person(t, addr, "workflow list --limit 7 -o jsonl", "").has(t, 0, "--page 7")
	person(t, addr, "workflow list --limit 7 -o json", "").has(t, 0, `"next": "7"`)
}

func TestWhatWaitsForAWorkerIsTold(t *testing.T) {
	q := &pb.QueueInfo{Queue: "default", Types: []*pb.QueueType{{Type: "Known", Workflow: true, Workers: 1}}}
	for i := range 5 {
		q.Types = append(q.Types, &pb.QueueType{Type: fmt.Sprintf("Gone%d", i), Workflow: true, Waiting: 2})
	}
	s := &script{runs: []*pb.RunInfo{running().Info}, queues: []*pb.QueueInfo{q}, workers: []*pb.WorkerInfo{{Worker: "w", Slow: 1}}}
	addr := play(t, s)
	person(t, addr, "workflow list", "").has(t, 0, "knows Gone0, 2 waiting for it", "there are 2 more such types: `engined queue list`")
	person(t, addr, "queue list", "").has(t, 0, "no worker knows it", "engined worker list")
	person(t, addr, "worker list", "").has(t, 0, "1 slow run", "the log of the worker tells where")
	if e := person(t, addr, "workflow start Known", "").has(t, 0).err; strings.Contains(e, "no worker") {
		t.Errorf("of a type that is known it says %s", e)
	}
	person(t, addr, "workflow start Knwon", "").has(t, 0, "no connected worker on queue default knows Knwon", "known there: Known")
}

func TestWhoLeavesIsToldWhatBecomesOfTheRun(t *testing.T) {
	s := &script{describe: []*pb.DescribeResponse{running()}, awaited: make(chan bool)}
	t.Setenv(addressEnv, play(t, s))
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-s.awaited
		leave()
	}()
	execute(ctx, Commands(), "workflow result a", "").has(t, 130, "interrupted: the run goes on: `engined workflow result a`")
}

// The part that came is shown, and the rest is not waited for without end.
func TestAHistoryOfWhichNoMoreComesIsGivenUp(t *testing.T) {
	d := running()
	d.Info.Closed = 1
	s := &script{describe: []*pb.DescribeResponse{d}, pages: []*pb.HistoryResponse{{Next: 1, Events: []*pb.Event{
		{Id: 1, Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{Type: "T"}}},
	}}}}
	person(t, play(t, s), "workflow history a --timeout 300ms", "").has(t, 4, "WorkflowStarted", "no answer in time", "--timeout")
}

func TestErrorsOfTheEngineHaveTheirCodes(t *testing.T) {
	for code, want := range map[apierr.Code][]string{
		apierr.Internal:           {"1", "what\\x1b happened, do this"},
		apierr.FailedPrecondition: {"1", "do this"},
		apierr.InvalidArgument:    {"2", "do this", "engined workflow list --help"},
		apierr.NotFound:           {"3", "engined workflow list"},
		apierr.Unavailable:        {"4", "has not done it within 100ms", "try again"},
		apierr.ResourceExhausted:  {"4", "has not done it within 100ms", "try again"},
		apierr.AlreadyExists:      {"6", "do this"},
	} {
		s := &script{err: apierr.New(code, "list", "what\x1b happened", "do this")}
		exit, _ := strconv.Atoi(want[0])
		person(t, play(t, s), "workflow list --timeout 100ms", "").has(t, exit, want[1:]...)
	}
}

func TestWhatTheLastTryMetIsTold(t *testing.T) {
	g := &globals{address: "there:1", timeout: time.Second}
	s := &session{globals: g, cmd: g.workflow()}
	late := context.DeadlineExceeded
	silent := rpcerr.FromStatus(t.Context(), "list", status.Error(codes.DeadlineExceeded, "context deadline exceeded"))
	refused := rpcerr.FromStatus(t.Context(), "list", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: refused"`))
	for want, err := range map[string]error{
		"the disk is full":  fmt.Errorf("%w (%w)", late, apierr.New(apierr.Unavailable, "start", "the disk is\nfull", "for programs")),
		"refused":           fmt.Errorf("%w (%w)", late, refused),
		"no answer in time": fmt.Errorf("%w (%w)", late, silent),
	} {
		want = "there:1 has not done it within 1s: " + want + ": try again, or allow for more by --timeout"
		if got := s.told(t.Context(), err).Error(); got != want {
			t.Errorf("%v is told as %q, want %q", err, got, want)
		}
	}
}

func TestWhoWaitsHearsThatNoEngineAnswers(t *testing.T) {
	var errs strings.Builder
	g := &globals{address: "there:1"}
	c := g.workflow()
	c.SetErr(&errs)
	log := patience{&session{globals: g, cmd: c}}
	if log.Enabled(t.Context(), -4) || !log.Enabled(t.Context(), 4) {
		t.Error("it hears what is not worth a person's while, or nothing")
	}
	slog.New(log).Warn("a call has had no answer yet", "op", "await", "err", errors.New(`down`))
	if got := errs.String(); got != "no answer from there:1 yet: down; it is asked again, Ctrl-C ends that\n" {
		t.Errorf("it says %q", got)
	}
}

func TestShellsCompleteWords(t *testing.T) {
	for line, want := range map[string]string{
		"workflow list --status":         strings.Join(filterWords(), "\n"),
		"workflow list -o":               "table\njson\njsonl",
		"queue list --output":            "table\njson\njsonl",
		"workflow start T --on-conflict": "fail\nuse-existing",
		"workflow start T --on-reuse":    "allow\nif-not-completed\nreject",
		"workflow describe":              "", // an id, and no file
	} {
		s := execute(t.Context(), Commands(), "__complete "+line+" "+empty, "")
		if got := strings.TrimPrefix("\n"+s.out, "\n"+want); got != "\n:4\n" && got != ":4\n" {
			t.Errorf("%s: %q, want %q", line, s.out, want)
		}
	}
}
