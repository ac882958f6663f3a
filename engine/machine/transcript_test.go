package machine

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts as they come out")

// Each file of testdata is a story: lines that begin with "> " are commands,
// those with "#" comments, and what follows a command is what came of it.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(data))
			if got == string(data) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("the story goes otherwise (go test ./engine/machine -run Stories -rewrite):\n%s", got)
		})
	}
}

// tell runs the commands of a story and returns it as it comes out.
func tell(t *testing.T, script string) string {
	r := newRig(t)
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if strings.HasPrefix(line, "#") || line == "" {
				out.WriteString(line + "\n")
			}
			continue
		}
		r.story.Reset()
		r.do(command)
		r.told.WriteString(line + "\n" + r.story.String())
		out.WriteString(line + "\n" + r.story.String())
	}
	return out.String()
}

// args are the words of a command: plain ones in order, and name=value.
type args struct {
	plain []string
	named map[string]string
}

func parseArgs(s string) args {
	a := args{named: map[string]string{}}
	for _, word := range strings.Fields(s) {
		if k, v, ok := strings.Cut(word, "="); ok {
			a.named[k] = v
		} else {
			a.plain = append(a.plain, word)
		}
	}
	return a
}

func (a args) at(i int) string {
	if i < len(a.plain) {
		return a.plain[i]
	}
	return ""
}

func (r *rig) do(command string) {
	name, rest, _ := strings.Cut(command, " ")
	if name == "decide" {
		r.decide(rest)
		return
	}
	a := parseArgs(rest)
	if r.ask(name, a) {
		return
	}
	switch name {
	case "worker": // worker NAME [build=B] [slots=N] [queue=Q] [has=all]: it connects, with what it was given before and has not answered
		r.connect(a)
	case "gone": // gone NAME [orderly]: its stream breaks, or it closes it
		r.step(&WorkerGone{Worker: a.at(0), Orderly: a.at(1) == "orderly", Suspects: r.m.Disconnect(a.at(0))})
	case "done": // done ID OP OUTCOME [undo] [delivery=N]: the answer to the newest task
		r.answer(a)
	case "fault": // fault ID [kind=blocked|recovered] [worker=W]: the build cannot go on, or can again
		r.fault(a)
	case "pass": // pass DURATION: what falls due happens
		d, err := time.ParseDuration(a.at(0))
		if err != nil {
			r.t.Fatal(err)
		}
		r.pass(int64(d))
	case "save": // all changes become durable
		r.save()
	case "crash": // crash [alone]: what is not durable is gone; the shard is loaded again, or the whole process
		if r.alone = a.at(0) == "alone"; r.alone {
			for _, w := range sortedKeys(r.builds) {
				r.m.Disconnect(w)
			}
		}
		r.load()
	case "down": // down DURATION: a crash, and the engine is away for so long
		d, err := time.ParseDuration(a.at(0))
		if err != nil {
			r.t.Fatal(err)
		}
		r.now += int64(d)
		r.load()
	case "attempts": // attempts ID OP: the list in the newest event about the operation
		r.listAttempts(a.at(0), a.at(1))
	case "reads": // reads fail|work
		r.unreadable = a.at(0) == "fail"
	case "refuse": // refuse ID: the database will not write the newest run
		r.refuse(a.at(0))
	case "evict":
		r.evict(a.at(0))
	default:
		r.t.Fatalf("no command %q", command)
	}
}

// ask makes a request of a client, if that is what the command is.
func (r *rig) ask(name string, a args) bool {
	ref := &pb.RunRef{Namespace: "default", WorkflowId: a.at(0)}
	switch name {
	case "start": // start ID [request=R] [conflict=use] [reuse=reject]
		r.start(a)
	case "await":
		r.step(&Await{Ref: ref, To: "await " + a.at(0)})
	case "follow": // follow ID [after=N]
		after, _ := strconv.ParseInt(a.named["after"], 10, 64)
		r.step(&Follow{Ref: ref, After: after, To: "follow " + a.at(0)})
	case "leave": // leave ID: who follows or awaits it gives up
		for _, what := range []string{"follow ", "await "} {
			r.step(&Abandon{ID: ID{"default", a.at(0)}, To: what + a.at(0)})
		}
	case "describe": // describe ID [full]
		r.full = a.at(1) == "full"
		r.step(&Describe{Ref: ref, To: "describe " + a.at(0)})
	case "cancel": // cancel ID [request=R]
		r.step(&Cancel{To: "cancel " + a.at(0), Req: &pb.CancelRequest{
			Run: ref, RequestId: cmp.Or(a.named["request"], "c-"+a.at(0)), Reason: "asked",
		}})
	case "terminate": // terminate ID [request=R]
		r.step(&Terminate{To: "terminate " + a.at(0), Req: &pb.TerminateRequest{
			Run: ref, RequestId: cmp.Or(a.named["request"], "t-"+a.at(0)), Reason: "asked",
		}})
	default:
		return false
	}
	return true
}

func (r *rig) fault(a args) {
	s := r.stamps[a.at(0)]
	f := &pb.Fault{Run: s.Assign.Run, Stamp: s.Assign.Stamp, Kind: pb.FaultKind_FAULT_KIND_MISMATCH}
	switch a.named["kind"] {
	case "blocked":
		f.Kind, f.Failure = pb.FaultKind_FAULT_KIND_BLOCKED, &pb.Failure{Message: "it has not given control back for 10s"}
	case "recovered":
		f.Kind = pb.FaultKind_FAULT_KIND_RECOVERED
	default:
		f.Failure = &pb.Failure{Message: "the code asks for something else"}
	}
	r.step(&Fault{Origin: r.origin(cmp.Or(a.named["worker"], s.Worker)), Fault: f})
}

func (r *rig) origin(worker string) Origin {
	return Origin{Worker: worker, Build: r.builds[worker], Seq: 1}
}

var allTypes = []string{"Charge", "Reserve", "Ship", "Refund", "Release", "Cancel"}

func (r *rig) connect(a args) {
	slots := 10
	if n, err := strconv.Atoi(a.named["slots"]); err == nil {
		slots = n
	}
	w := match.Worker{
		ID: a.at(0), Namespace: "default", Queue: cmp.Or(a.named["queue"], "default"), Build: cmp.Or(a.named["build"], "a"),
		WorkflowTypes: []string{"W"}, ActivityTypes: allTypes, Slots: slots,
	}
	r.builds[w.ID] = w.Build
	r.offer(r.m.Connect(w))
	var received []*pb.Delivery
	if a.named["has"] == "all" {
		received = r.unanswered(w.ID)
	}
	for _, d := range received {
		r.with[KeyOf(d)] = w.ID
	}
	r.step(&WorkerBack{Worker: w.ID, Received: received})
}

func (r *rig) start(a args) {
	req := &pb.StartRequest{
		Namespace: "default", WorkflowId: a.at(0), RequestId: cmp.Or(a.named["request"], "s-"+a.at(0)), Type: "W", Queue: "default",
	}
	if a.named["conflict"] == "use" {
		req.Conflict = pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING
	}
	if a.named["reuse"] == "reject" {
		req.Reuse = pb.ReusePolicy_REUSE_POLICY_REJECT
	}
	r.step(&Start{Req: req, RunID: "run-" + strconv.Itoa(len(r.db)+len(r.unsaved)), Seed: 1, To: "start " + a.at(0)})
}

var outcomes = map[string]pb.Outcome{
	"ok": pb.Outcome_OUTCOME_COMPLETED, "failed": pb.Outcome_OUTCOME_FAILED, "final": pb.Outcome_OUTCOME_FAILED_FINAL,
	"interrupted": pb.Outcome_OUTCOME_INTERRUPTED, "unbegun": pb.Outcome_OUTCOME_INTERRUPTED, "unsent": pb.Outcome_OUTCOME_INTERRUPTED, "panicked": pb.Outcome_OUTCOME_CODE_FAULT,
	"cancelled": pb.Outcome_OUTCOME_CANCELLED, "large": pb.Outcome_OUTCOME_TOO_LARGE, "unknown": pb.Outcome_OUTCOME_UNKNOWN_TYPE,
	"timed-out": pb.Outcome_OUTCOME_TIMED_OUT,
}

func (r *rig) answer(a args) {
	role := pb.Role_ROLE_FORWARD
	if slices.Contains(a.plain[3:], "undo") {
		role = pb.Role_ROLE_UNDO
	}
	t := r.tasks[taskName(a.at(0), a.at(1), role)]
	if t == nil {
		r.t.Fatalf("nobody was given %v; so far:\n%s", a.plain, r.told.String())
	}
	d := &pb.Done{Delivery: &pb.Delivery{
		Run: t.Delivery.Run, Op: t.Delivery.Op, Role: role, Delivery: t.Delivery.Delivery, Incarnation: t.Delivery.Incarnation,
	}, Outcome: outcomes[a.at(2)]}
	if a.at(2) == "unbegun" {
		d.Unbegun = true
	}
	if n, err := strconv.Atoi(a.named["delivery"]); err == nil {
		d.Delivery.Delivery = int32(n)
	}
	if d.Outcome != pb.Outcome_OUTCOME_COMPLETED {
		d.Failure = &pb.Failure{Message: a.at(2), Final: a.at(2) == "final"}
	}
	o := r.origin(cmp.Or(a.named["worker"], "w1"))
	if a.at(2) == "unsent" { // the engine's own word
		d.Unbegun, o.Seq = true, 0
	}
	r.step(&Done{Origin: o, Done: d})
}

func (r *rig) listAttempts(id, op string) {
	var log []*pb.Attempt
	for _, w := range r.unsaved {
		for _, e := range w.events {
			if b := e.GetActivityCompleted(); b.GetOp() == op && w.row.WorkflowID == id {
				log = b.Tally.Log
			}
		}
	}
	for _, a := range log {
		r.say("attempt %d, delivery %d on %s: %s, late %v", a.Attempt, a.Delivery, a.Worker, strings.ToLower(strings.TrimPrefix(a.Outcome.String(), "OUTCOME_")), a.Late)
	}
}

func (r *rig) pass(d int64) {
	end := r.now + d
	for {
		slices.SortStableFunc(r.wakes, func(a, b Wake) int { return cmp.Compare(a.At, b.At) })
		if len(r.wakes) == 0 || r.wakes[0].At > end {
			break
		}
		w := r.wakes[0]
		r.wakes = r.wakes[1:]
		r.now = max(r.now, w.At)
		r.step(&Woken{Run: w.Run, Op: w.Op})
	}
	r.now = end
}

func (r *rig) refuse(id string) {
	newest := store.RunNo(0)
	for no, name := range r.names {
		if name == id {
			newest = max(newest, no)
		}
	}
	if no := newest; no != 0 {
		r.unsaved = slices.DeleteFunc(r.unsaved, func(w saved) bool { return w.row.Run == no })
		r.step(&Refused{Run: no, Reason: "the row is bad"})
	}
}

func (r *rig) evict(id string) {
	for _, run := range r.s.inOrder() {
		if run.Row.WorkflowID != id {
			continue
		}
		if !run.Idle() {
			r.say("%s stays in memory", id)
			continue
		}
		r.apply(r.s.Evict(run))
		r.drain()
	}
}

// decide sends what the code asks for upon the last input that its worker was
// given: "decide ID: activity #1 Charge undo=Refund; timer #2 1h; complete".
func (r *rig) decide(rest string) {
	head, list, _ := strings.Cut(rest, ":")
	a := parseArgs(head)
	s := r.stamps[a.at(0)]
	if a.named["stamp"] == "old" {
		s = r.before[a.at(0)]
	}
	if s.Assign == nil {
		r.t.Fatalf("nobody holds %s", a.at(0))
	}
	d := &pb.Decided{Run: s.Assign.Run, Stamp: s.Assign.Stamp, Through: r.given[a.at(0)]}
	for _, one := range strings.Split(list, ";") {
		if one = strings.TrimSpace(one); one != "" && one != "nothing" {
			e := r.decision(one)
			e.Cause = d.Through
			d.Decisions = append(d.Decisions, e)
		}
	}
	r.step(&Decided{Origin: r.origin(cmp.Or(a.named["worker"], s.Worker)), Decided: d})
}

func (r *rig) decision(s string) *pb.Event {
	a := parseArgs(s)
	ops := strings.Split(a.at(2), ",")
	switch a.at(0) {
	case "activity":
		return &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: r.scheduled(a)}}
	case "timer":
		d, err := time.ParseDuration(a.at(2))
		if err != nil {
			r.t.Fatal(err)
		}
		return &pb.Event{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: a.at(1), Duration: int64(d)}}}
	case "stop-timer":
		return &pb.Event{Body: &pb.Event_TimerCancelled{TimerCancelled: &pb.TimerCancelled{Op: a.at(1)}}}
	case "stop-activity":
		return &pb.Event{Body: &pb.Event_ActivityCancelRequested{ActivityCancelRequested: &pb.ActivityCancelRequested{Op: a.at(1), Cause: "asked"}}}
	case "commit":
		return &pb.Event{Body: &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Op: a.at(1), Ops: ops}}}
	case "compensate":
		return &pb.Event{Body: &pb.Event_SagaCompensate{SagaCompensate: &pb.SagaCompensate{Op: a.at(1), Ops: ops}}}
	case "complete":
		return &pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{}}}
	case "fail":
		return &pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: &pb.Failure{Message: "no"}}}}
	case "cancelled":
		return &pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: &pb.WorkflowCancelled{Reason: "asked"}}}
	}
	r.t.Fatalf("no decision %q", s)
	return nil
}

func (r *rig) scheduled(a args) *pb.ActivityScheduled {
	d := &pb.ActivityScheduled{Op: a.at(1), Type: a.at(2), Queue: a.named["queue"], Timeouts: &pb.Timeouts{}}
	if u := a.named["undo"]; u != "" {
		d.Undo = &pb.Undo{Type: u, Queue: a.named["undo-queue"]}
		if n, err := strconv.Atoi(a.named["undo-attempts"]); err == nil {
			d.Undo.Retry = &pb.RetryPolicy{Attempts: int32(n)}
		}
	}
	if n, err := strconv.Atoi(a.named["attempts"]); err == nil {
		d.Retry = &pb.RetryPolicy{Attempts: int32(n)}
	}
	for name, into := range map[string]*int64{
		"run": &d.Timeouts.StartToClose, "all": &d.Timeouts.ScheduleToClose, "wait": &d.Timeouts.ScheduleToStart,
	} {
		if span, err := time.ParseDuration(a.named[name]); err == nil {
			*into = int64(span)
		}
	}
	return d
}
