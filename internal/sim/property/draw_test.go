package property

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// drawn is one thing that happens. Its numbers say which of what there is: they mean
// something in every state, so that a sequence may be shortened anywhere.
type drawn struct {
	what       string
	a, b, c, d int
}

func (x drawn) String() string {
	return fmt.Sprintf("{%q, %d, %d, %d, %d}", x.what, x.a, x.b, x.c, x.d)
}

// weights are how often things happen, the simplest first.
var weights = []struct {
	what string
	n    int
	do   func(*world, drawn) bool
}{
	{"commit", 16, (*world).commits},
	{"tick", 6, (*world).tick},
	{"start", 4, (*world).start},
	{"decide", 18, (*world).decide},
	{"answer", 16, (*world).answers},
	{"cancel", 2, (*world).cancel},
	{"terminate", 2, (*world).terminate},
	{"await", 1, (*world).await},
	{"follow", 1, (*world).followRun},
	{"abandon", 1, (*world).abandon},
	{"describe", 2, (*world).describe},
	{"gone", 3, (*world).gone},
	{"back", 4, (*world).back},
	{"new worker", 2, (*world).newWorker},
	{"evict", 4, (*world).evicts},
	{"reload", 2, (*world).reload},
	{"refused", 1, (*world).refused},
	{"unknown", 1, (*world).unknown},
	{"fault", 2, (*world).fault},
	{"stale", 2, (*world).stale},
	{"unsent", 1, (*world).unsentWord},
	{"slow reads", 1, (*world).slowReads},
	{"read", 3, (*world).readOne},
	{"busy", 2, (*world).busy},
	{"spurious", 1, (*world).spurious},
}

var steps = rapid.Custom(func(t *rapid.T) drawn {
	n := rapid.SampledFrom(deck).Draw(t, "what")
	number := rapid.IntRange(0, 63)
	return drawn{weights[n].what, number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"), number.Draw(t, "d")}
})

// deck has each kind as often as it shall come.
var deck = func() []int {
	var all []int
	for i, w := range weights {
		all = append(all, slices.Repeat([]int{i}, w.n)...)
	}
	return all
}()

// do lets it happen, if there is anything that it can happen to, and all that follows
// by itself.
func (w *world) do(x drawn) {
	for _, k := range weights {
		if k.what == x.what {
			k.do(w, x)
		}
	}
	w.follow()
}

// follow lets happen what takes no time: reads and offers, unless they are slow.
func (w *world) follow() {
	for len(w.wrong) == 0 {
		switch {
		case len(w.offers) > 0 && !w.hesitant:
			in := w.offers[0]
			w.offers = w.offers[1:]
			w.step(in)
		case len(w.reads) > 0 && !w.slow:
			w.answer(0, false)
		default:
			more := w.desk.offers()
			if len(more) == 0 || w.desk.slow {
				w.offers = append(w.offers, more...)
				return
			}
			w.offers = append(w.offers, more...)
			if w.hesitant {
				return
			}
		}
	}
}

func pick[T any](of []T, n int) (T, bool) {
	if len(of) == 0 {
		var none T
		return none, false
	}
	return of[n%len(of)], true
}

var ids = []string{"a", "b"}

func (w *world) caller(what string) string {
	w.asked++
	return fmt.Sprint(what, " ", w.asked)
}

func (w *world) start(x drawn) bool {
	req := &pb.StartRequest{
		Namespace: "default", WorkflowId: ids[x.a%2], RequestId: fmt.Sprint("s", x.b%4), Type: "W", Queue: "default",
		Await: x.d%8 == 1 && len(w.reads) == 0 && !w.slow, // else it is not seen whether it waits for rows
	}
	switch x.c % 8 {
	case 1:
		req.Conflict = pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING
	case 2:
		req.Reuse = pb.ReusePolicy_REUSE_POLICY_REJECT
	case 3:
		req.Reuse = pb.ReusePolicy_REUSE_POLICY_ALLOW_IF_FAILED
	}
	to := w.caller("start")
	w.step(&machine.Start{Req: req, RunID: fmt.Sprint("R", w.asked), Seed: 1, To: to})
	return true
}

func (w *world) ref(n int) *pb.RunRef {
	ref := &pb.RunRef{Namespace: "default", WorkflowId: ids[n%2]}
	if r, ok := pick(w.runs(func(r *run) bool { return r.id == ref.WorkflowId }), n/2); ok && n/2%4 == 3 {
		ref.RunId = r.ulid
	}
	return ref
}

// runs are those of the model, by number.
func (w *world) runs(is func(*run) bool) []*run {
	var all []*run
	for _, no := range sorted(w.m.runs) {
		if is(w.m.runs[no]) {
			all = append(all, w.m.runs[no])
		}
	}
	return all
}

func (w *world) cancel(x drawn) bool {
	w.step(&machine.Cancel{To: w.caller("cancel"), Req: &pb.CancelRequest{Run: w.ref(x.a), RequestId: fmt.Sprint("c", x.b%2)}})
	return true
}

func (w *world) terminate(x drawn) bool {
	w.step(&machine.Terminate{To: w.caller("terminate"), Req: &pb.TerminateRequest{Run: w.ref(x.a), RequestId: fmt.Sprint("c", x.b%2)}})
	return true
}

func (w *world) await(x drawn) bool {
	if len(w.reads) > 0 || w.slow {
		return false
	}
	w.step(&machine.Await{Ref: w.ref(x.a), To: w.caller("await")})
	return true
}

func (w *world) describe(x drawn) bool {
	w.step(&machine.Describe{Ref: w.ref(x.a), To: w.caller("describe")})
	return true
}

func (w *world) followRun(x drawn) bool {
	if len(w.reads) > 0 || w.slow {
		return false
	}
	w.step(&machine.Follow{Ref: w.ref(x.a), After: int64(x.b % 16), To: w.caller("follow")})
	return true
}

// abandon: somebody who awaits or follows a run gives up.
func (w *world) abandon(x drawn) bool {
	r, ok := pick(w.runs(func(r *run) bool { return len(r.waiters)+len(r.followers) > 0 }), x.a)
	if !ok {
		return false
	}
	all := slices.Clone(r.waiters)
	for _, f := range r.followers {
		all = append(all, f.to)
	}
	to, _ := pick(all, x.b)
	w.step(&machine.Abandon{ID: machine.ID{Namespace: "default", WorkflowID: r.id}, To: to})
	return true
}

func (w *world) origin(p *proc) machine.Origin {
	w.seq++
	return machine.Origin{Worker: p.id, Build: p.build, Stream: 1, Seq: w.seq}
}

// decide: somebody who folds a run answers what he was given.
func (w *world) decide(x drawn) bool {
	r, ok := pick(w.runs(func(r *run) bool { return r.inMemory && len(r.holder.given) > 0 && w.desk.find(r.holder.worker) != nil }), x.a)
	if !ok {
		return x.d%4 > 0 && w.answers(drawn{"answer", x.a, x.b, x.c, 0})
	}
	given := r.holder.given
	through := given[len(given)-1]
	if x.b%8 == 7 {
		through = given[0]
	}
	d := &pb.Decided{Run: int64(r.no), Stamp: &pb.Stamp{Incarnation: r.holder.stamp.Incarnation, Epoch: r.holder.stamp.Epoch}, Through: through}
	for i, n := range []int{x.b, x.c, x.d} {
		if e := w.decision(r, n, i, len(d.Decisions) > 0); e != nil {
			e.Cause = through
			d.Decisions = append(d.Decisions, e)
			if closes(e) {
				break
			}
		}
	}
	w.step(&machine.Decided{Origin: w.origin(w.desk.find(r.holder.worker)), Decided: d})
	return true
}

func closes(e *pb.Event) bool {
	return e.GetWorkflowCompleted() != nil || e.GetWorkflowFailed() != nil || e.GetWorkflowCancelled() != nil
}

// decision is what the code asks for: n says what, of a run in any state.
func (w *world) decision(r *run, n, place int, more bool) *pb.Event {
	name := fmt.Sprintf("#%d.%d", r.events, place)
	var opened, timers, sagas []string
	for _, o := range r.inOrder() {
		switch {
		case o.name == "!grace":
		case o.timer:
			timers = append(timers, o.name)
		default:
			opened = append(opened, o.name)
			if o.undo != nil {
				sagas = append(sagas, o.name)
			}
		}
	}
	some, step := n/16, pb.ActivityScheduled{Op: name, Type: "Charge", Queue: "default"}
	kind := n % 16
	if w.sagas {
		kind = []int{0, 4, 5, 6, 4, 5, 6, 4, 11, 9, 10, 11, 12, 13, 13, 15}[kind]
	}
	switch {
	case kind == 0:
		return nil
	case kind <= 6:
		return &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: activity(&step, kind, some+4*place)}}
	case kind == 7:
		return &pb.Event{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: name, Duration: int64(some*some) * 5 * second}}}
	case kind == 8 && len(timers) > 0:
		op, _ := pick(timers, some)
		return &pb.Event{Body: &pb.Event_TimerCancelled{TimerCancelled: &pb.TimerCancelled{Op: op}}}
	case kind == 9 && len(opened) > 0:
		op, _ := pick(opened, some)
		return &pb.Event{Body: &pb.Event_ActivityCancelRequested{ActivityCancelRequested: &pb.ActivityCancelRequested{Op: op}}}
	case kind == 10 && len(sagas) > 0:
		op, _ := pick(sagas, some)
		return &pb.Event{Body: &pb.Event_SagaCommitted{SagaCommitted: &pb.SagaCommitted{Op: name, Ops: []string{op}}}}
	case kind == 11 && len(sagas) > 0:
		return &pb.Event{Body: &pb.Event_SagaCompensate{SagaCompensate: &pb.SagaCompensate{Op: name, Ops: sagas[some%len(sagas):]}}}
	case kind == 12 && some == 1:
		return &pb.Event{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{}}}
	case kind == 13 && some < 3:
		return &pb.Event{Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: &pb.Failure{Message: "no"}}}}
	case kind == 14 && some == 1 && r.cancel != 0:
		return &pb.Event{Body: &pb.Event_WorkflowCancelled{WorkflowCancelled: &pb.WorkflowCancelled{}}}
	case kind == 15 && some == 1 && len(opened) > 0 && more:
		step.Op = opened[0] // it is there already: the whole of it is refused
		return &pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: activity(&step, 0, 0)}}
	}
	return nil
}

// activity has limits and a policy; from kind 3 on it is a step of a saga.
func activity(a *pb.ActivityScheduled, kind, some int) *pb.ActivityScheduled {
	a.Timeouts = &pb.Timeouts{StartToClose: 10 * second, ScheduleToClose: 60 * second}
	a.Retry = &pb.RetryPolicy{Attempts: int32(1 + kind%3)}
	switch some % 4 {
	case 1:
		a.Timeouts.ScheduleToStart = 8 * second
	case 2:
		a.Timeouts.ScheduleToClose = 13 * second
	}
	if kind >= 3 {
		a.Undo = &pb.Undo{Type: "Refund"}
		if some%4 == 3 {
			a.Undo.Retry = &pb.RetryPolicy{Attempts: int32(1 + kind%2)}
		}
	}
	return a
}

var outcomes = []pb.Outcome{
	pb.Outcome_OUTCOME_COMPLETED, pb.Outcome_OUTCOME_COMPLETED, pb.Outcome_OUTCOME_COMPLETED, pb.Outcome_OUTCOME_FAILED, pb.Outcome_OUTCOME_FAILED_FINAL,
	pb.Outcome_OUTCOME_INTERRUPTED, pb.Outcome_OUTCOME_INTERRUPTED, pb.Outcome_OUTCOME_UNKNOWN_TYPE, pb.Outcome_OUTCOME_CODE_FAULT,
	pb.Outcome_OUTCOME_CANCELLED, pb.Outcome_OUTCOME_TIMED_OUT, pb.Outcome_OUTCOME_TOO_LARGE, pb.Outcome_OUTCOME_UNDECODABLE,
}

// answers: a process answers a task, perhaps one that was given up, perhaps again: it
// says the same then.
func (w *world) answers(x drawn) bool {
	var mine []*task
	for _, t := range slices.Backward(w.tasks) {
		if t.proc.connected && (!t.acked || x.d%8 == 7) {
			mine = append(mine, t)
		}
	}
	t, ok := pick(mine, x.a)
	if !ok {
		return x.d%4 > 0 && w.decide(drawn{"decide", x.a, x.b, x.c, 0})
	}
	if t.answer == nil {
		t.answer = &pb.Done{Delivery: t.Delivery, Outcome: outcomes[x.b%len(outcomes)]}
		if o := t.answer.Outcome; o != pb.Outcome_OUTCOME_COMPLETED {
			t.answer.Failure = &pb.Failure{Message: "no"}
			t.answer.Unbegun = o == pb.Outcome_OUTCOME_INTERRUPTED && x.c%2 == 1
		}
	}
	o := w.origin(t.proc)
	t.seq = o.Seq
	w.step(&machine.Done{Origin: o, Done: proto.CloneOf(t.answer)})
	return true
}

// unsentWord is the engine's own, that a task found nobody to be sent to.
func (w *world) unsentWord(drawn) bool {
	if len(w.unsent) == 0 {
		return false
	}
	d := w.unsent[0]
	w.unsent = w.unsent[1:]
	r := w.m.runs[store.RunNo(d.Run)]
	if r == nil || r.ops[d.Op] == nil {
		return false
	}
	w.step(&machine.Done{Origin: machine.Origin{Worker: r.ops[d.Op].worker}, Done: &pb.Done{
		Delivery: d, Outcome: pb.Outcome_OUTCOME_INTERRUPTED, Unbegun: true, Failure: &pb.Failure{Message: "it never left"},
	}})
	return true
}

func (w *world) gone(x drawn) bool {
	p, ok := pick(w.desk.procs, x.a)
	if !ok {
		return false
	}
	p.connected, p.dead = false, x.b%4 == 3
	w.desk.disconnect(p.id)
	for len(w.offers) > 0 { // they were on their way before
		in := w.offers[0]
		w.offers = w.offers[1:]
		w.step(in)
	}
	w.step(&machine.WorkerGone{Worker: p.id, Orderly: x.c%2 == 1})
	return true
}

func (w *world) back(x drawn) bool {
	var away []*proc
	for _, p := range w.procs {
		if !p.connected && !p.dead {
			away = append(away, p)
		}
	}
	p, ok := pick(away, x.a)
	if ok {
		w.connect(p)
	}
	return ok
}

func (w *world) newWorker(x drawn) bool {
	if len(w.desk.procs) >= 2 {
		return false
	}
	w.connect(&proc{id: fmt.Sprint("w", len(w.procs)+1), build: []string{"a", "b"}[x.a%2], slots: 1 + x.b%3})
	return true
}

// connect tells what the process has received and was not told to be over.
func (w *world) connect(p *proc) {
	if !slices.Contains(w.procs, p) {
		w.procs = append(w.procs, p)
	}
	p.connected = true
	w.desk.procs = append(w.desk.procs, p)
	in := &machine.WorkerBack{Worker: p.id}
	for _, t := range w.tasks {
		if t.proc == p && !t.acked {
			in.Received = append(in.Received, t.Delivery)
		}
	}
	w.step(in)
}

func (w *world) commits(x drawn) bool {
	n := len(w.unsaved)
	if x.a%4 == 3 {
		n = x.b % (n + 1)
	}
	if n == 0 {
		// So that little is drawn in vain.
		return w.decide(drawn{"decide", x.a, x.b, x.c, 1}) || x.d%4 == 0 && w.tick(drawn{"tick", 0, x.b, 0, 0})
	}
	w.happens("commit", "%d of %d changes are written", n, len(w.unsaved))
	w.commit(n)
	return true
}

// refused: the database will not write what was not written of a run.
func (w *world) refused(x drawn) bool {
	s, ok := pick(w.unsaved, x.a)
	if !ok || !s.touched || w.s.Runs()[s.row.Run] != s.run {
		return false
	}
	if w.m.runs[s.row.Run] == nil || w.m.refused[s.row.Run] {
		return false // a second time it would not even be held in the database
	}
	id := s.row.WorkflowID
	var refused []*machine.Run
	w.unsaved = slices.DeleteFunc(w.unsaved, func(y *saved) bool {
		// What was begun upon its close is refused as well: the id is taken.
		bad := y.run == s.run || y.row.WorkflowID == id && y.row.Run > s.row.Run && w.db[y.row.Run] == nil
		if bad && !slices.Contains(refused, y.run) {
			refused = append(refused, y.run)
		}
		return bad
	})
	slices.SortFunc(refused, func(a, b *machine.Run) int { return cmp.Compare(b.Row.Run, a.Row.Run) })
	w.refusing = refused
	for _, r := range refused {
		no := r.Row.Run
		w.refusing = w.refusing[1:]
		w.step(&machine.Refused{Run: no, Of: r, Reason: "the row is bad"})
		w.m.refused[no] = true
	}
	return true
}

// unknown: nobody knows whether the commit has happened. The shard is loaded again.
func (w *world) unknown(x drawn) bool {
	if len(w.unsaved) == 0 {
		return false
	}
	w.happens("unknown commit", "a commit whose outcome is unknown: it has happened %v", x.a%2 == 1)
	if x.a%2 == 1 {
		for _, s := range w.unsaved {
			w.write(s)
		}
	}
	w.load()
	return true
}

func (w *world) reload(x drawn) bool {
	w.now += int64(x.a%4) * 3 * second
	w.happens("load", "the shard is loaded again")
	w.load()
	return true
}

func (w *world) evicts(x drawn) bool {
	r, ok := pick(w.runs(func(r *run) bool { return r.inMemory }), x.a)
	if ok {
		w.evict(r)
	}
	return ok
}

// tick lets time pass, up to the next wake-up or further.
func (w *world) tick(x drawn) bool {
	end := w.now + []int64{0, 0, 0, 1, 4, 11, 45, 130}[x.a%8]*second
	if x.a == 63 && x.b < 16 {
		end += 25 * 3600 * second
	}
	if next, ok := w.next(); ok && x.a%8 < 3 {
		end = max(w.now, next)
	}
	for x.b%4 != 3 && len(w.wrong) == 0 {
		at, ok := w.next()
		if !ok || at > end {
			break
		}
		if w.now = max(w.now, at); x.b%4 == 2 {
			w.now = end // they come late
		}
		i := slices.IndexFunc(w.wakes, func(y machine.Wake) bool { return y.At == at })
		y := w.wakes[i]
		w.wakes = slices.Delete(w.wakes, i, i+1)
		w.step(&machine.Woken{Run: y.Run, Op: y.Op})
		w.follow()
	}
	counts["tick"]++
	w.now = max(w.now, end)
	return true
}

func (w *world) next() (int64, bool) {
	if len(w.wakes) == 0 {
		return 0, false
	}
	return slices.MinFunc(w.wakes, func(a, b machine.Wake) int { return cmp.Compare(a.At, b.At) }).At, true
}

// spurious wakes what is not due.
func (w *world) spurious(x drawn) bool {
	r, ok := pick(w.runs(func(*run) bool { return true }), x.a)
	if !ok {
		return false
	}
	name, _ := pick(sorted(r.ops), x.b)
	w.step(&machine.Woken{Run: r.no, Op: name})
	return true
}

// fault: somebody says that his build cannot go on with a run, or can again.
func (w *world) fault(x drawn) bool {
	r, ok := pick(w.runs(func(*run) bool { return true }), x.a)
	p, ok2 := pick(w.desk.procs, x.b)
	if !ok || !ok2 {
		return false
	}
	if q := w.desk.find(r.holder.worker); q != nil && x.b%2 == 1 {
		p = q
	}
	kinds := []pb.FaultKind{pb.FaultKind_FAULT_KIND_MISMATCH, pb.FaultKind_FAULT_KIND_RECOVERED, pb.FaultKind_FAULT_KIND_BLOCKED, pb.FaultKind_FAULT_KIND_RECOVERED}
	stamp := r.holder.stamp
	w.step(&machine.Fault{Origin: w.origin(p), Fault: &pb.Fault{
		Run: int64(r.no), Stamp: &pb.Stamp{Incarnation: stamp.Incarnation, Epoch: stamp.Epoch}, Kind: kinds[x.c%4], Failure: &pb.Failure{Message: "no"},
	}})
	return true
}

// stale is a word about a fold that does not count: under an old stamp, of somebody
// else, about what was answered, or about what was not given.
func (w *world) stale(x drawn) bool {
	r, ok := pick(w.runs(func(*run) bool { return true }), x.a)
	p, ok2 := pick(w.desk.procs, x.d)
	if !ok || !ok2 {
		return false
	}
	stamp, through := r.holder.stamp, r.processed+int64(x.c%4)
	if q := w.desk.find(r.holder.worker); q != nil && x.b%4 != 0 {
		p = q
	}
	if x.b%4 == 1 {
		stamp.Incarnation--
	}
	if x.b%4 == 2 {
		stamp.Epoch--
	}
	w.step(&machine.Decided{Origin: w.origin(p), Decided: &pb.Decided{
		Run: int64(r.no), Stamp: &pb.Stamp{Incarnation: stamp.Incarnation, Epoch: stamp.Epoch}, Through: through,
	}})
	return true
}

// slowReads lets reads wait from now on, or no more; readOne answers one, which may
// be old by then, or fails.
func (w *world) slowReads(drawn) bool {
	w.slow = !w.slow
	w.happens("slow reads", "reads are slow: %v", w.slow)
	return true
}

func (w *world) readOne(x drawn) bool {
	if len(w.reads) == 0 {
		return false
	}
	i := x.a % len(w.reads)
	if l := w.reads[i].load; x.b%4 == 1 && l != nil && w.reads[i].taken == nil {
		found := w.find(l.Key)
		w.reads[i].taken = &found
		w.happens("old read", "%s is read, and will be told later", keyText(l.Key))
		return true
	}
	w.answer(i, x.b%8 == 7)
	return true
}

// busy: the desk lets everybody wait, or offers come late; or no more.
func (w *world) busy(x drawn) bool {
	w.happens("busy desk", "the desk changes its ways")
	if x.a%2 == 0 {
		w.desk.slow = !w.desk.slow
	} else {
		w.hesitant = !w.hesitant
	}
	return true
}
