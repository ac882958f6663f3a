package property

import (
	"fmt"
	"slices"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// take says what must come of the input.
func (m *model) take(in machine.Input) {
	key, load := m.reads(in)
	if load {
		m.read(key, in)
		return
	}
	m.loaded(in)
}

// reads says whether the input needs rows that are not in memory, and which.
func (m *model) reads(in machine.Input) (store.Key, bool) {
	byRef := func(ref *pb.RunRef, request string) store.Key {
		return store.Key{Namespace: ref.Namespace, WorkflowID: ref.WorkflowId, RunID: ref.RunId, Request: request}
	}
	byNumber := func(no int64) (store.Key, bool) {
		r := m.runs[store.RunNo(no)]
		return store.Key{Run: store.RunNo(no)}, r == nil || !r.inMemory
	}
	switch in := in.(type) {
	case *machine.Start:
		k := store.Key{Namespace: in.Req.Namespace, WorkflowID: in.Req.WorkflowId, Request: in.Req.RequestId}
		return m.perhaps(k, m.startedBy(k.WorkflowID, k.Request), in.To)
	case *machine.Cancel:
		return byRef(in.Req.Run, in.Req.RequestId), true
	case *machine.Terminate:
		return byRef(in.Req.Run, in.Req.RequestId), true
	case *machine.Await:
		return m.perhaps(byRef(in.Ref, ""), m.find(in.Ref), in.To)
	case *machine.Follow:
		return m.perhaps(byRef(in.Ref, ""), m.find(in.Ref), in.To)
	case *machine.Describe:
		return m.perhaps(byRef(in.Ref, ""), m.find(in.Ref), in.To)
	case *machine.Done:
		return byNumber(in.Delivery.Run)
	case *stillHas:
		return byNumber(in.delivery.Run)
	case *machine.Fault:
		k, away := byNumber(in.Run)
		return k, away && in.Kind == pb.FaultKind_FAULT_KIND_RECOVERED
	case *machine.Woken:
		k, away := byNumber(int64(in.Run))
		return k, away || m.putOff[in.Run] != nil
	}
	return store.Key{}, false
}

// perhaps: what is not in memory must be read; what is, may be.
func (m *model) perhaps(k store.Key, r *run, to machine.Caller) (store.Key, bool) {
	return k, r == nil || !r.inMemory || m.choices.asks(k, to)
}

// stillHas is one of the deliveries that a worker which comes back has.
type stillHas struct {
	machine.Input
	worker   string
	delivery *pb.Delivery
}

// read lets the input wait for rows. One read serves all that wait for the same.
func (m *model) read(k store.Key, in machine.Input) {
	if len(m.waiting[k]) == 0 {
		m.now1("read %s", keyText(k))
	}
	m.waiting[k] = append(append(m.waiting[k], m.putOff[k.Run]...), in)
	delete(m.putOff, k.Run)
}

func keyText(k store.Key) string {
	return fmt.Sprintf("%d %s %s %s", k.Run, k.WorkflowID, k.RunID, k.Request)
}

// loaded takes an input whose rows are known.
func (m *model) loaded(in machine.Input) {
	switch in := in.(type) {
	case *machine.Start:
		m.start(in)
	case *machine.Cancel:
		m.cancel(in)
	case *machine.Terminate:
		m.terminate(in)
	case *machine.Await:
		if r := m.find(in.Ref); r == nil {
			m.now1("answer to %v: an error", in.To)
		} else {
			m.await(r, in.To)
		}
	case *machine.Follow:
		if r := m.find(in.Ref); r == nil {
			m.now1("answer to %v: an error", in.To)
		} else {
			r.followers = append(r.followers, follower{in.To, in.After})
			m.touched[r.no] = true
		}
	case *machine.Abandon:
		for _, r := range m.runs {
			r.waiters = slices.DeleteFunc(r.waiters, func(c machine.Caller) bool { return c == in.To })
			r.followers = slices.DeleteFunc(r.followers, func(f follower) bool { return f.to == in.To })
		}
	case *machine.Describe:
		if r := m.find(in.Ref); r == nil {
			m.now1("answer to %v: an error", in.To)
		} else {
			m.say(r, "answer to %v: %s", in.To, r.described())
		}
	case *machine.Decided:
		m.decided(in)
	case *machine.Done:
		m.done(in)
	case *machine.Fault:
		m.fault(in)
	case *machine.Woken:
		if r := m.runs[in.Run]; r != nil && r.inMemory && r.ops[in.Op] != nil {
			m.due(r, r.ops[in.Op])
		}
	case *machine.SlotOffered:
		m.slotOffered(in)
	case *machine.WorkerGone:
		m.gone(in.Worker)
	case *machine.WorkerBack:
		m.back(in)
	case *stillHas:
		r := m.runs[store.RunNo(in.delivery.Run)]
		if r != nil && !r.ops[in.delivery.Op].present(in.worker, in.delivery) {
			m.say(r, "cancel %s at %s", taskName(in.delivery.Op, in.delivery.Role, in.delivery.Delivery), in.worker)
		}
	case *machine.Refused:
		if r := m.runs[in.Run]; r != nil && r.inMemory {
			r.hold, r.builds, r.holder = pb.HoldKind_HOLD_KIND_QUARANTINED, slices.Clone(r.excluded), holder{}
			m.touched[r.no] = true
		}
	}
}

func (m *model) start(in *machine.Start) {
	q := in.Req
	mine, newest := m.startedBy(q.WorkflowId, q.RequestId), m.find(&pb.RunRef{WorkflowId: q.WorkflowId})
	switch {
	case mine != nil:
		m.answerStart(mine, in, true)
	case m.joinedBy(q.WorkflowId, q.RequestId) != nil:
		m.answerStart(m.joinedBy(q.WorkflowId, q.RequestId), in, false)
	case newest == nil:
		m.create(in)
	case newest.open && q.Conflict == pb.ConflictPolicy_CONFLICT_POLICY_USE_EXISTING:
		newest.joined[q.RequestId] = true
		m.answerStart(newest, in, false)
	case newest.open, q.Reuse == pb.ReusePolicy_REUSE_POLICY_REJECT,
		q.Reuse == pb.ReusePolicy_REUSE_POLICY_ALLOW_IF_FAILED && newest.status == pb.Status_STATUS_COMPLETED:
		m.say(newest, "answer to %v: an error", in.To)
	default:
		m.create(in)
	}
}

func (m *model) create(in *machine.Start) {
	r := &run{
		no: m.choices.number(in.RunID), id: in.Req.WorkflowId, ulid: in.RunID, request: in.Req.RequestId, used: map[string]bool{}, joined: map[string]bool{},
		status: pb.Status_STATUS_RUNNING, open: true, ops: map[string]*op{}, inMemory: true,
	}
	m.runs[r.no] = r
	m.record(r, "started by %s", r.request)
	m.answerStart(r, in, true)
}

func (m *model) answerStart(r *run, in *machine.Start, started bool) {
	switch {
	case in.Req.Await:
		m.take(&machine.Await{Ref: &pb.RunRef{Namespace: "default", WorkflowId: r.id, RunId: r.ulid}, To: in.To})
	case r.inMemory:
		m.say(r, "answer to %v: run %s, started %v", in.To, r.ulid, started)
	default:
		m.now1("answer to %v: run %s, started %v", in.To, r.ulid, started)
	}
}

// await answers when the outcome stands.
func (m *model) await(r *run, to machine.Caller) {
	if r.open && r.undo != pb.UndoState_UNDO_STATE_FAILED {
		r.waiters = append(r.waiters, to)
		return
	}
	m.say(r, "answer to %v: %s", to, r.outcome())
}

// tellFollowers answers, at the end of a step, those who have something to hear.
func (m *model) tellFollowers() {
	for _, no := range sorted(m.touched) {
		r := m.runs[no]
		if r == nil {
			continue
		}
		r.followers = slices.DeleteFunc(r.followers, func(f follower) bool {
			hears := r.events > f.after || !r.open
			if hears {
				m.say(r, "answer to %v: run %s up to event %d, open %v", f.to, r.ulid, r.events, r.open)
			}
			return hears
		})
	}
}

func (r *run) outcome() string { return fmt.Sprintf("run %s %v, %v", r.ulid, r.status, r.undo) }

func (r *run) described() string {
	return fmt.Sprintf("run %s %v, %v, cancel %v, %d open, %d events", r.ulid, r.status, r.undo, r.cancel != 0, len(r.ops), r.events)
}

func (m *model) cancel(in *machine.Cancel) {
	r := m.find(in.Req.Run)
	switch {
	case r == nil:
		m.now1("answer to %v: an error", in.To)
	case m.usedBy(r.id, in.Req.RequestId) != nil || r.decided() || r.cancel != 0:
		m.say(r, "answer to %v: already", in.To)
	default:
		r.cancel = m.record(r, "cancel requested by %s", in.Req.RequestId)
		r.used[in.Req.RequestId] = true
		r.ops["!grace"] = &op{name: "!grace", timer: true, due: m.now + machine.DefaultCancelGrace}
		m.say(r, "answer to %v: now", in.To)
	}
}

func (m *model) terminate(in *machine.Terminate) {
	r := m.find(in.Req.Run)
	if r == nil {
		m.now1("answer to %v: an error", in.To)
		return
	}
	by := m.usedBy(r.id, in.Req.RequestId)
	switch {
	case r.decided() || by != nil && by != r:
		m.say(r, "answer to %v: already", in.To)
	case by != nil:
		m.say(r, "answer to %v: an error", in.To) // by a cancel
	default:
		m.note(r, "terminated by %s", in.Req.RequestId)
		r.used[in.Req.RequestId] = true
		m.say(r, "answer to %v: now", in.To)
		m.close(r, pb.Status_STATUS_TERMINATED)
	}
}

// holds says that a message is of him who folds the run, under his stamp.
func (r *run) holds(o machine.Origin, s *pb.Stamp) bool {
	return r != nil && r.inMemory && r.holder.worker == o.Worker &&
		r.holder.stamp == machine.Stamp{Incarnation: s.GetIncarnation(), Epoch: s.GetEpoch()}
}

func (m *model) decided(in *machine.Decided) {
	r := m.runs[store.RunNo(in.Run)]
	given := -1
	if r.holds(in.Origin, in.Stamp) {
		given = slices.Index(r.holder.given, in.Through)
	}
	switch {
	case !r.holds(in.Origin, in.Stamp), in.Through <= r.processed:
		m.now1("ack %s", ackText(in.Origin))
		return
	case given < 0 || !m.wellFormed(r, in):
		m.now1("ack %s", ackText(in.Origin))
		m.misfit(r, in.Build)
		return
	}
	r.processed, r.hold, r.builds = in.Through, 0, nil
	r.holder.given = r.holder.given[given+1:]
	r.unfolded = slices.DeleteFunc(r.unfolded, func(id int64) bool { return id <= in.Through })
	m.touched[r.no] = true
	for _, e := range in.Decisions {
		m.apply(r, e)
	}
	m.say(r, "ack %s", ackText(in.Origin))
}

// wellFormed: what opens an operation names one that is not open.
func (m *model) wellFormed(r *run, in *machine.Decided) bool {
	seen := map[string]bool{}
	for _, e := range in.Decisions {
		name := opens(e)
		if name != "" && (r.ops[name] != nil || seen[name]) {
			return false
		}
		seen[name] = true
	}
	return true
}

func (m *model) apply(r *run, e *pb.Event) {
	id := m.note(r, "%s", eventText(e))
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		o := newOp(b.ActivityScheduled, id, r.lastTime)
		r.ops[o.name] = o
		m.dispatch(r, o)
	case *pb.Event_ActivityCancelRequested:
		if o := r.ops[b.ActivityCancelRequested.Op]; o != nil && !o.timer {
			m.stop(r, o)
		}
	case *pb.Event_TimerStarted:
		d := b.TimerStarted
		r.ops[d.Op] = &op{name: d.Op, timer: true, scheduled: id, due: r.lastTime + d.Duration}
	case *pb.Event_TimerCancelled:
		if o := r.ops[b.TimerCancelled.Op]; o != nil && o.timer {
			delete(r.ops, o.name)
		}
	case *pb.Event_SagaCommitted:
		m.commit(r, b.SagaCommitted.Ops)
	case *pb.Event_SagaCompensate:
		m.compensation(r, b.SagaCompensate.Ops, b.SagaCompensate.Op)
	case *pb.Event_WorkflowCompleted:
		m.close(r, pb.Status_STATUS_COMPLETED)
	case *pb.Event_WorkflowFailed:
		m.close(r, pb.Status_STATUS_FAILED)
	case *pb.Event_WorkflowCancelled:
		m.close(r, pb.Status_STATUS_CANCELLED)
	}
}

// newOp is a step as it was scheduled.
func newOp(a *pb.ActivityScheduled, id, at int64) *op {
	o := &op{name: a.Op, scheduled: id, since: at, attempt: 1, attempts: a.Retry.GetAttempts()}
	o.limits = limits{a.Timeouts.GetStartToClose(), a.Timeouts.GetScheduleToClose(), a.Timeouts.GetScheduleToStart()}
	if a.Undo != nil {
		o.undo = &undo{attempts: a.Undo.Retry.GetAttempts(), limits: limits{60 * second, 30 * 24 * 3600 * second, 0}}
	}
	return o
}

func (m *model) done(in *machine.Done) {
	r := m.runs[store.RunNo(in.Delivery.Run)]
	if r == nil || !r.inMemory {
		m.now1("ack %s", ackText(in.Origin))
		return
	}
	if o := r.ops[in.Delivery.Op]; in.Seq == 0 && o.present(in.Worker, in.Delivery) && o.resent {
		return // the engine's own word, of a sending before the last
	}
	m.answered(r, in)
	m.say(r, "ack %s", ackText(in.Origin))
}

func ackText(o machine.Origin) string { return fmt.Sprintf("%s %d", o.Worker, o.Seq) }

func (m *model) fault(in *machine.Fault) {
	r := m.runs[store.RunNo(in.Run)]
	if in.Kind != pb.FaultKind_FAULT_KIND_RECOVERED {
		m.now1("ack %s", ackText(in.Origin))
		if r.holds(in.Origin, in.Stamp) {
			m.misfit(r, in.Build)
		}
		return
	}
	if r == nil || !r.inMemory {
		m.now1("ack %s", ackText(in.Origin))
		return
	}
	m.say(r, "ack %s", ackText(in.Origin))
	if !slices.Contains(r.excluded, in.Build) {
		return
	}
	r.excluded = slices.DeleteFunc(slices.Clone(r.excluded), func(b string) bool { return b == in.Build })
	if r.hold != 0 {
		r.builds = slices.Clone(r.excluded)
		if r.hold == pb.HoldKind_HOLD_KIND_STUCK && len(r.builds) == 0 {
			r.hold = 0
		}
	}
}

// misfit: the build cannot go on with the run; another may.
func (m *model) misfit(r *run, build string) {
	if !slices.Contains(r.excluded, build) {
		r.excluded = append(slices.Clone(r.excluded), build)
	}
	r.hold, r.builds, r.holder = pb.HoldKind_HOLD_KIND_STUCK, slices.Clone(r.excluded), holder{}
	m.touched[r.no] = true
}

func (m *model) slotOffered(in *machine.SlotOffered) {
	r := m.runs[in.Delivery.Run]
	if r == nil || !r.inMemory {
		return
	}
	o := r.ops[in.Delivery.Op]
	if o == nil || o.timer || !o.waits() || r.key(o, o.delivery+1) != in.Delivery || m.paused(r, o) {
		return
	}
	if at, _ := o.tooLate(); at > m.now {
		if _, ok := m.choices.slot(in.Delivery, true); ok {
			m.begin(r, o, in.Worker)
			return
		}
	}
	m.dispatch(r, o)
}

// gone: what the worker runs has a grace in which it may come back.
func (m *model) gone(worker string) {
	for _, r := range m.memory() {
		if r.holder.worker == worker {
			r.holder = holder{}
		}
		for _, o := range r.ops {
			if o.started() && o.worker == worker {
				o.lostAt = m.now + grace
			}
		}
	}
}

func (m *model) memory() []*run {
	var all []*run
	for _, r := range m.runs {
		if r.inMemory {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return int(a.no - b.no) })
	return all
}

// back: it goes on with what it has, and is sent again what it has not received.
func (m *model) back(in *machine.WorkerBack) {
	for _, r := range m.memory() {
		for _, o := range r.inOrder() {
			if !o.started() || o.worker != in.Worker || o.lostAt == 0 {
				continue
			}
			o.lostAt = 0
			m.choices.slot(r.key(o, o.delivery), true)
			m.tellAgain(r, o, slices.ContainsFunc(in.Received, func(d *pb.Delivery) bool {
				return d.Run == int64(r.no) && d.Op == o.name && o.present(in.Worker, d)
			}))
		}
	}
	for _, d := range in.Received {
		m.take(&stillHas{worker: in.Worker, delivery: d})
	}
}

func (m *model) tellAgain(r *run, o *op, received bool) {
	if !received {
		o.resent = true
		m.say(r, "task %s to %s", r.task(o), o.worker)
	}
	if o.cancelled {
		m.tellCancel(r, o)
	}
}

// rowsRead takes the inputs that waited; run is what was read.
func (m *model) rowsRead(k store.Key, no store.RunNo, failed bool) {
	waiting := m.waiting[k]
	delete(m.waiting, k)
	if failed {
		m.readFailed(k, waiting)
		return
	}
	if r := m.runs[no]; r != nil && !r.inMemory {
		m.install(r)
	}
	for _, in := range waiting {
		m.loaded(in)
	}
}

// readFailed: who asked hears of it; what workers and timers said is kept.
func (m *model) readFailed(k store.Key, waiting []machine.Input) {
	for _, in := range waiting {
		switch in := in.(type) {
		case *machine.Start:
			m.now1("answer to %v: an error", in.To)
		case *machine.Cancel:
			m.now1("answer to %v: an error", in.To)
		case *machine.Terminate:
			m.now1("answer to %v: an error", in.To)
		case *machine.Await:
			m.now1("answer to %v: an error", in.To)
		case *machine.Follow:
			m.now1("answer to %v: an error", in.To)
		case *machine.Describe:
			m.now1("answer to %v: an error", in.To)
		case *stillHas:
		default:
			m.putOff[k.Run] = append(m.putOff[k.Run], in)
		}
	}
}

// install brings a run into memory: whatever was under way starts over.
func (m *model) install(r *run) {
	r.inMemory, r.excluded = true, slices.Clone(r.builds)
	m.touched[r.no] = true
	for _, o := range r.inOrder() {
		switch {
		case r.ops[o.name] != o || o.timer:
		case o.waits():
			m.dispatch(r, o)
		case o.started():
			if _, ok := m.choices.slot(r.key(o, o.delivery), true); ok {
				m.tellAgain(r, o, false)
			} else if o.lostAt = m.now + grace; o.by != m.incarnation {
				o.lostAt = m.now + restartGrace
			}
		}
	}
	m.compensate(r)
}
