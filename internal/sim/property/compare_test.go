package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// render is what came of a step, as the model tells it.
func (w *world) render(out *machine.Output) []string {
	var said []string
	for _, c := range out.Changes {
		no := c.Run.Row.Run
		say := func(format string, args ...any) {
			said = append(said, fmt.Sprintf("run %d: ", no)+fmt.Sprintf(format, args...))
		}
		for _, e := range c.Events {
			text := eventText(e)
			say("event %d: %s", e.Id, text)
			events[strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "*enginepb.Event_")]++
			w.tell("    run %d event %d: %s", no, e.Id, text)
			if e.Time != max(w.now, w.lastTime(no, e.Id)) {
				w.broken("run %d: event %d has time %s", no, e.Id, clock(e.Time))
			}
		}
		for _, e := range c.After {
			switch e := e.(type) {
			case machine.Dispatch:
				d := e.Task.Delivery
				say("task %s to %s", taskName(d.Op, d.Role, d.Delivery), e.Worker)
				w.tell("    run %d task %s to %s", no, taskName(d.Op, d.Role, d.Delivery), e.Worker)
			case machine.CancelTask:
				d := e.Cancel.Delivery
				say("cancel %s at %s", taskName(d.Op, d.Role, d.Delivery), e.Worker)
			case machine.Reply:
				if e.To != nil {
					say("answer to %v: %s", e.To, replyText(e))
					w.tell("    answer to %v: %s", e.To, replyText(e))
				}
			}
		}
		for _, a := range c.Acks {
			say("ack %s %d", a.Worker, a.Seq)
		}
	}
	for _, l := range out.Loads {
		said = append(said, "at once: read "+keyText(l.Key))
	}
	for _, a := range out.Acks {
		said = append(said, fmt.Sprintf("at once: ack %s %d", a.Worker, a.Seq))
	}
	for _, p := range out.Replies {
		said = append(said, fmt.Sprintf("at once: answer to %v: %s", p.To, replyText(p)))
		w.tell("    answer to %v: %s", p.To, replyText(p))
	}
	return said
}

// lastTime is the time of the run's last event before the one with the id.
func (w *world) lastTime(no store.RunNo, id int64) int64 {
	if r := w.m.runs[no]; r != nil && id > 1 {
		return r.lastTime
	}
	return 0
}

func taskName(op string, role pb.Role, delivery int32) string {
	if role == pb.Role_ROLE_UNDO {
		return fmt.Sprintf("undo of %s, delivery %d", op, delivery)
	}
	return fmt.Sprintf("%s, delivery %d", op, delivery)
}

func replyText(p machine.Reply) string {
	switch v := p.Value.(type) {
	case *pb.StartResponse:
		return fmt.Sprintf("run %s, started %v", v.RunId, v.Started)
	case *pb.Result:
		return fmt.Sprintf("run %s %v, %v", v.RunId, v.Status, v.UndoState)
	case *machine.Settled:
		return fmt.Sprintf("run %s %v, %v", v.Row.RunID, pb.Status(v.Row.Status), v.State.UndoState)
	case *machine.Followed:
		return fmt.Sprintf("run %s up to event %d, open %v", v.RunID, v.Last, v.Open)
	case *pb.CancelResponse:
		return already(v.Already)
	case *pb.TerminateResponse:
		return already(v.Already)
	case *pb.DescribeResponse:
		i := v.Info
		return fmt.Sprintf("run %s %v, %v, cancel %v, %d open, %d events", i.RunId, i.Status, i.UndoState, v.CancelRequested, len(v.Waiting), i.Events)
	}
	return "an error"
}

func already(is bool) string {
	if is {
		return "already"
	}
	return "now"
}

func tallyOf(t *pb.Tally) tally {
	return tally{attempts: t.GetAttempts(), deliveries: t.GetDeliveries(), unanswered: t.GetUnanswered(), inconclusive: t.GetInconclusive()}
}

// eventText is an event, as far as the model knows of it.
func eventText(e *pb.Event) string {
	switch b := e.Body.(type) {
	case *pb.Event_WorkflowStarted:
		return "started by " + b.WorkflowStarted.RequestId
	case *pb.Event_ActivityCompleted:
		return fmt.Sprintf("completed %s: %v", b.ActivityCompleted.Op, tallyOf(b.ActivityCompleted.Tally))
	case *pb.Event_ActivityFailed:
		return fmt.Sprintf("failed %s: %v", b.ActivityFailed.Op, tallyOf(b.ActivityFailed.Tally))
	case *pb.Event_ActivityTimedOut:
		return fmt.Sprintf("timed out by %v %s: %v", b.ActivityTimedOut.Limit, b.ActivityTimedOut.Op, tallyOf(b.ActivityTimedOut.Tally))
	case *pb.Event_ActivityCancelled:
		return fmt.Sprintf("cancelled %s: %v", b.ActivityCancelled.Op, tallyOf(b.ActivityCancelled.Tally))
	case *pb.Event_TimerFired:
		return "fired " + b.TimerFired.Op
	case *pb.Event_CancelRequested:
		return "cancel requested by " + b.CancelRequested.RequestId
	case *pb.Event_WorkflowTerminated:
		return "terminated by " + b.WorkflowTerminated.RequestId
	case *pb.Event_WorkflowCancelled:
		return "closed as cancelled"
	case *pb.Event_CompensationStarted:
		return fmt.Sprintf("compensation of %v", b.CompensationStarted.Ops)
	case *pb.Event_UndoCompleted:
		u := b.UndoCompleted
		return fmt.Sprintf("undone %s, told %v: %v", u.Op, u.Outcome, tallyOf(u.Tally))
	case *pb.Event_UndoFailed:
		u := b.UndoFailed
		return fmt.Sprintf("undo failed %s, told %v: %v", u.Op, u.Outcome, tallyOf(u.Tally))
	case *pb.Event_CompensationEnded:
		c := b.CompensationEnded
		return fmt.Sprintf("compensation %q ended, %d undone, failed %v", c.Op, c.Undone, c.Failed)
	case *pb.Event_LateAnswer:
		return "late answer of " + b.LateAnswer.Op
	case *pb.Event_ActivityScheduled:
		return "scheduled " + b.ActivityScheduled.Op
	case *pb.Event_TimerStarted:
		return "timer " + b.TimerStarted.Op
	}
	return fmt.Sprintf("%s for input %d", strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "*enginepb.Event_"), e.Cause)
}

// opens is the operation that a decision opens.
func opens(e *pb.Event) string {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		return b.ActivityScheduled.Op
	case *pb.Event_TimerStarted:
		return b.TimerStarted.Op
	case *pb.Event_SagaCommitted:
		return b.SagaCommitted.Op
	case *pb.Event_SagaCompensate:
		return b.SagaCompensate.Op
	}
	return ""
}

// inputText tells an input in the story; what only follows from others is not told.
func inputText(in machine.Input) string {
	switch in := in.(type) {
	case *machine.Start:
		return fmt.Sprintf("start %s by request %s (%v), %v, %v, await %v", in.Req.WorkflowId, in.Req.RequestId, in.To, in.Req.Conflict, in.Req.Reuse, in.Req.Await)
	case *machine.Cancel:
		return fmt.Sprintf("cancel %s by request %s (%v)", in.Req.Run.WorkflowId, in.Req.RequestId, in.To)
	case *machine.Terminate:
		return fmt.Sprintf("terminate %s by request %s (%v)", in.Req.Run.WorkflowId, in.Req.RequestId, in.To)
	case *machine.Await:
		return fmt.Sprintf("await %s (%v)", in.Ref.WorkflowId, in.To)
	case *machine.Follow:
		return fmt.Sprintf("follow %s behind event %d (%v)", in.Ref.WorkflowId, in.After, in.To)
	case *machine.Abandon:
		return fmt.Sprintf("%v gives up", in.To)
	case *machine.Describe:
		return fmt.Sprintf("describe %s (%v)", in.Ref.WorkflowId, in.To)
	case *machine.Decided:
		var all []string
		for _, e := range in.Decisions {
			all = append(all, eventText(e))
		}
		return fmt.Sprintf("%s has folded run %d up to %d, and asks for %v", in.Worker, in.Run, in.Through, all)
	case *machine.Done:
		d := in.Delivery
		return fmt.Sprintf("%s answers run %d %s: %v (unbegun %v, message %d)", in.Worker, d.Run, taskName(d.Op, d.Role, d.Delivery), in.Outcome, in.Unbegun, in.Seq)
	case *machine.Fault:
		return fmt.Sprintf("%s (build %s) says of run %d: %v", in.Worker, in.Build, in.Run, in.Kind)
	case *machine.WorkerGone:
		return fmt.Sprintf("worker %s is gone, orderly %v", in.Worker, in.Orderly)
	case *machine.WorkerBack:
		return fmt.Sprintf("worker %s is here, it has %d deliveries", in.Worker, len(in.Received))
	case *machine.Woken:
		return fmt.Sprintf("wake-up of run %d %s", in.Run, in.Op)
	case *machine.RowsRead:
		return fmt.Sprintf("rows read: %s (error %v)", keyText(in.Load.Key), in.Err)
	case *machine.Refused:
		return fmt.Sprintf("the database refuses to write run %d", in.Run)
	case *machine.RunOffered:
		return fmt.Sprintf("%s is there for run %d", in.Worker, in.Run)
	case *machine.HistoryRead:
		return fmt.Sprintf("the history of run %d is read (error %v)", in.Run, in.Err)
	case *machine.SlotOffered:
		return fmt.Sprintf("%s has a slot for run %d %s", in.Worker, in.Delivery.Run, taskName(in.Delivery.Op, in.Delivery.Role, in.Delivery.Delivery))
	}
	return ""
}

// slot, backoff and number are what the core has chosen.
func (w *world) slot(k machine.DeliveryKey, held bool) (string, bool) {
	for i, s := range w.desk.said {
		if s.key == k && s.held == held {
			w.desk.said = slices.Delete(w.desk.said, i, i+1)
			return s.worker, s.ok
		}
	}
	w.broken("the desk should be asked for run %d %s, held %v, and is not", k.Run, taskName(k.Op, k.Role, k.Delivery), held)
	return "", false
}

func (w *world) asks(k store.Key, to machine.Caller) bool {
	if slices.ContainsFunc(w.out.Loads, func(l machine.Load) bool { return l.Key == k }) {
		return true
	}
	answered := slices.ContainsFunc(w.out.Replies, func(p machine.Reply) bool { return p.To == to })
	for _, c := range w.out.Changes {
		answered = answered || slices.ContainsFunc(c.After, func(e machine.Effect) bool {
			p, ok := e.(machine.Reply)
			return ok && p.To == to
		})
	}
	return len(w.m.waiting[k]) > 0 && !answered
}

func (w *world) core(no store.RunNo, op string) *pb.PendingActivity {
	if r := w.s.Runs()[no]; r != nil && r.Entries[op] != nil {
		return r.Entries[op].P.GetActivity()
	}
	return nil
}

func (w *world) backoff(no store.RunNo, op string, longest int64) int64 {
	a := w.core(no, op)
	if p := a.GetPhase(); p == pb.Phase_PHASE_BACKOFF || p == pb.Phase_PHASE_UNDO_BACKOFF {
		return a.NextTime
	}
	for _, x := range w.out.Wakes { // it has ended in the same step
		if x.Run == no && x.Op == op && x.At >= w.now && x.At <= w.now+longest {
			return x.At
		}
	}
	return 0
}

func (w *world) number(ulid string) store.RunNo {
	for no, r := range w.s.Runs() {
		if r.Row.RunID == ulid {
			return no
		}
	}
	w.broken("run %s should be begun, and is not", ulid)
	return 0
}

// same holds a run's rows in memory against the model.
func (w *world) same(no store.RunNo) {
	r, c := w.m.runs[no], w.s.Runs()[no]
	if r == nil && c == nil || r != nil && !r.inMemory && c == nil {
		return
	}
	if r == nil || c == nil || !r.inMemory {
		w.broken("run %d: in memory %v, the model says %v", no, c != nil, r != nil && r.inMemory)
		return
	}
	differ := func(what string, core, model any) {
		if core != model {
			w.broken("run %d: %s is %v, the model says %v", no, what, core, model)
		}
	}
	s := c.State
	differ("the status", pb.Status(c.Row.Status), r.status)
	differ("open", c.Row.Open, r.open)
	differ("the state of the undos", s.UndoState, r.undo)
	differ("the last event", c.Row.NextEvent-1, r.events)
	differ("the closing event", s.ClosingEvent, r.closing)
	differ("the cancel", s.CancelEvent, r.cancel)
	differ("the hold", s.Hold.GetKind(), r.hold)
	differ("waiting for code", c.Attention(), !r.decided() && len(r.unfolded) > 0)
	differ("compensations", len(s.Compensations), len(r.comps))
	differ("operations", fmt.Sprint(sorted(c.Entries)), fmt.Sprint(sorted(r.ops)))
	if !r.decided() {
		differ("the position", s.Processed, r.processed)
	}
	if r.hold != 0 && !slices.Equal(s.Hold.GetBuilds(), r.builds) {
		differ("the builds excluded", fmt.Sprint(s.Hold.GetBuilds()), fmt.Sprint(r.builds))
	}
	for name, o := range r.ops {
		if e := c.Entries[name]; e != nil {
			w.sameOp(r, o, e)
		}
	}
}

func (w *world) sameOp(r *run, o *op, e *machine.Entry) {
	if at := o.deadline(); at != 0 && at != never && !w.wakes1(r.no, o.name, at) {
		w.broken("run %d: nothing wakes %s at %s", r.no, o.name, clock(at))
	}
	a := e.P.GetActivity()
	if o.timer || a == nil {
		if due := e.P.GetTimer().GetDue() + e.P.GetGrace().GetDue(); due != o.due || a != nil {
			w.broken("run %d: %s is due at %s, the model says %s", r.no, o.name, clock(due), clock(o.due))
		}
		return
	}
	type facts struct {
		phase                                         pb.Phase
		attempt, delivery                             int32
		attempts, deliveries, unanswered, unclear     int32
		cancelled, comp, undo                         bool
		worker, compFor                               string
		outcome                                       pb.EntryOutcome
		scheduled, settled, next, undoSince, settleBy int64
	}
	model := facts{
		o.phase, o.attempt, o.delivery, o.tally.attempts, o.tally.deliveries, o.tally.unanswered, o.tally.inconclusive,
		o.cancelled, o.comp, o.undo != nil, "", "", o.outcome, o.scheduled, o.settled, 0, 0, 0,
	}
	core := facts{
		a.Phase, a.Attempt, a.Delivery, a.Tally.GetAttempts(), a.Tally.GetDeliveries(), a.Tally.GetUnanswered(), a.Tally.GetInconclusive(),
		a.Cancelled, a.Compensating, a.Undo != nil, "", "", 0, a.ScheduledEvent, a.SettledEvent, 0, 0, 0,
	}
	if len(a.Roads) > 0 {
		core.outcome = a.Roads[0].Outcome
	}
	if o.known && o.settled == 0 {
		model.outcome = pb.EntryOutcome_ENTRY_OUTCOME_DONE
	}
	if o.started() {
		model.worker, core.worker = o.worker, a.Worker
	}
	if o.comp {
		model.compFor, core.compFor = o.compFor, a.UndoFor
	}
	if o.phase == pb.Phase_PHASE_BACKOFF || o.phase == pb.Phase_PHASE_UNDO_BACKOFF {
		model.next, core.next = o.next, a.NextTime
	}
	if o.undoing() && o.phase > pb.Phase_PHASE_UNDO_QUEUED {
		model.undoSince, core.undoSince = o.undoSince, a.UndoSince
	}
	if o.listens() {
		model.settleBy, core.settleBy = o.settleBy, a.SettleBy
	}
	if core != model {
		w.broken("run %d: %s is %+v, the model says %+v", r.no, o.name, core, model)
	}
}

// wakes1 says that the operation is woken then, or waits with its wake-up for a read.
func (w *world) wakes1(no store.RunNo, op string, at int64) bool {
	return slices.ContainsFunc(w.wakes, func(x machine.Wake) bool { return x.Run == no && x.Op == op && x.At == at }) ||
		len(w.m.putOff[no])+len(w.m.waiting[store.Key{Run: no}]) > 0
}

// settleDesk: the desk has a slot for what is started, a place in the line for what
// waits, and nothing else; but for deliveries that were given up and not answered.
func (w *world) settleDesk() {
	should := map[machine.DeliveryKey]bool{}
	for _, r := range w.m.runs {
		if !r.inMemory {
			continue
		}
		for _, o := range r.ops {
			switch {
			case o.started() && w.desk.find(o.worker) != nil:
				should[r.key(o, o.delivery)] = true
			case o.waits() && !w.m.paused(r, o):
				should[r.key(o, o.delivery+1)] = true
			}
		}
	}
	for k := range should {
		if w.desk.slots[k] == nil && !w.offered(k) {
			w.broken("run %d %s has no slot, and no place in the line for one", k.Run, taskName(k.Op, k.Role, k.Delivery))
		}
	}
	for k, c := range w.desk.slots {
		if !should[k] && !w.owed(k, c.worker) {
			w.broken("run %d %s keeps a slot of %q for nothing", k.Run, taskName(k.Op, k.Role, k.Delivery), c.worker)
		}
	}
}

// owed says that the worker was given the delivery, or may have been, and has not
// answered.
func (w *world) owed(k machine.DeliveryKey, worker string) bool {
	is := func(d *pb.Delivery) bool { return machine.KeyOf(d) == k }
	for _, t := range w.tasks {
		if t.proc.id == worker && is(t.Delivery) && (t.answer == nil || !t.acked) {
			return true
		}
	}
	for _, x := range w.unsaved {
		for _, e := range x.after {
			if d, ok := e.(machine.Dispatch); ok && is(d.Task.Delivery) {
				return true
			}
		}
	}
	refusing := slices.ContainsFunc(w.refusing, func(r *machine.Run) bool { return r.Row.Run == k.Run })
	return refusing || w.offered(k) || slices.ContainsFunc(w.unsent, is)
}

// offered says that a slot for the delivery is on its way.
func (w *world) offered(k machine.DeliveryKey) bool {
	return slices.ContainsFunc(w.offers, func(in machine.Input) bool {
		o, ok := in.(*machine.SlotOffered)
		return ok && o.Delivery == k
	})
}

// valid holds the histories that are durable against what makes them well-formed.
func (w *world) valid() {
	for _, no := range sorted(w.db) {
		if err := history.Validate(w.db[no].events); err != nil {
			w.broken("run %d: %v", no, err)
		}
	}
}
