package machine

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// pairs drives a shard by a seed and notes in which state each kind of input has
// found a run and its operations. Only what can come, comes: offers of the real
// matcher, answers to tasks and assignments that were given, reads and wake-ups that
// were asked for; but any of it late, out of order, and some of it twice.
type pairs struct {
	*chaos
	seen map[pair]int
	asks int
	lazy int // of so many offers one comes in time
}

// pair is a kind of input that found a state.
type pair struct{ state, input string }

// late is an operation, in whatever state or none, that no longer waits for the slot
// that it is offered; lateRun a run that no longer waits for a worker.
const late, lateRun = "waits for no slot any more", "waits for no worker any more"

var pairSeeds = flag.Uint64("pair-seeds", 1000, "how many seeds TestEveryPairOfStateAndInput takes at least")

// runStates and opStates are what a run and an operation may be in.
var (
	runStates = []string{
		"absent", "nobody folds", "waits for a worker", "history is read", "folded", "stuck", "cancel asked", "quarantined",
		"unwritable", "compensating", "undo failed for good", "closed", lateRun,
	}
	opStates = []string{
		"timer", "grace", "waiting", "waiting, paused", "started", "started, worker away", "started, cancelled", "backoff", "armed",
		late, "undo queued", "undo waiting", "undo started", "undo started, worker away", "undo backoff", "undo failed", "undone", "listens",
	}
	inputKinds = []string{
		"Start", "Cancel", "Terminate", "Await", "Follow", "Abandon", "Describe", "Decided", "Done", "Fault", "RunOffered",
		"SlotOffered", "WorkerGone", "WorkerBack", "held", "Woken", "RowsRead", "HistoryRead", "Refused",
	}
)

// impossible are the pairs that cannot come, each with the reason.
var impossible = []struct{ state, input, why string }{
	{"absent", "WorkerGone", "what a worker had is looked for in memory"},
	{"absent", "WorkerBack", "the same; for what it says that it has, see held"},
	{"undo failed for good", "WorkerGone", "nobody folds a run that is decided, and nothing of it is under way"},
	{"undo failed for good", "WorkerBack", "the same"},
	{"timer", "Done", "a delivery is of an activity, and the name of an operation is given once"},
	{"timer", "held", "the same"},
	{"timer", "SlotOffered", "the same"},
	{"grace", "Done", "no activity has the name"},
	{"grace", "held", "the same"},
	{"grace", "SlotOffered", "the same"},
	{"*op", "RunOffered", "it is about the run's code, and no operation"},
	{"*op", "HistoryRead", "the same"},
	{"*waits for no slot", "SlotOffered", "it is about a delivery that waits, or no longer does"},
	{late, "*but SlotOffered", "it is said of that alone"},
	{lateRun, "*but RunOffered", "it is said of that alone"},
	{"*waits for no worker", "RunOffered", "it is about a run that waits for a worker, or no longer does"},
}

func TestEveryPairOfStateAndInput(t *testing.T) {
	seen := map[pair]int{}
	for seed := uint64(0); seed < *pairSeeds || seed < 10**pairSeeds && missing(seen); seed++ {
		p := &pairs{chaos: newChaos(t, seed), seen: seen}
		p.rnd = rand.New(rand.NewPCG(seed, 11))
		p.slow, p.lazy = true, []int{2, 60}[seed%2]
		for range 400 {
			p.anything()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	used := make([]bool, len(impossible))
	for _, state := range slices.Concat(runStates, opStates) {
		for _, input := range inputKinds {
			n := seen[pair{state, input}]
			delete(seen, pair{state, input})
			why := whyNot(state, input)
			if why >= 0 {
				used[why] = true
			}
			switch {
			case n > 0 && why >= 0:
				t.Errorf("%s × %s was reached %d times, and cannot be: %s", state, input, n, impossible[why].why)
			case n == 0 && why < 0:
				t.Errorf("%s × %s was not reached, and is not among what is impossible", state, input)
			}
		}
	}
	for p := range seen {
		t.Errorf("%s × %s is in no table", p.state, p.input)
	}
	for i, x := range impossible {
		if !used[i] {
			t.Errorf("%s × %s is no pair", x.state, x.input)
		}
	}
}

// missing says that something possible was not reached yet.
func missing(seen map[pair]int) bool {
	for _, state := range slices.Concat(runStates, opStates) {
		for _, input := range inputKinds {
			if seen[pair{state, input}] == 0 && whyNot(state, input) < 0 {
				return true
			}
		}
	}
	return false
}

// whyNot finds the reason for which a pair is impossible, -1 if there is none.
func whyNot(state, input string) int {
	for i, x := range impossible {
		if like(state, x.state) && like(input, x.input) {
			return i
		}
	}
	return -1
}

// like says that a state or an input is one of those that a table means.
func like(s, pattern string) bool {
	switch pattern {
	case "*op":
		return slices.Contains(opStates, s)
	case "*waits for no slot":
		return slices.Contains(opStates, s) && s != late && !strings.Contains(s, "waiting")
	case "*waits for no worker":
		return slices.Contains(runStates, s) && !slices.Contains([]string{"absent", lateRun, "waits for a worker", "stuck", "cancel asked"}, s)
	case "*but SlotOffered", "*but RunOffered":
		return "*but "+s != pattern
	}
	return s == pattern
}

// take steps one input, and nothing of what follows from it.
func (p *pairs) take(in Input) {
	p.note(in)
	p.watch(in)
	p.apply(p.s.Step(p.now, in))
	p.story.Reset()
}

func (p *pairs) note(in Input) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", in), "*machine.")
	for _, x := range p.concerns(in) {
		states := p.statesOf(x.run)
		if _, ok := in.(*RunOffered); ok && x.run != nil && x.run.holder.phase != holderWaiting {
			states = []string{lateRun}
		}
		for _, s := range states {
			p.seen[pair{s, kind}]++
		}
		if x.run == nil {
			continue
		}
		if o, ok := in.(*SlotOffered); ok && !p.waitsFor(x.run, o.Delivery) {
			p.seen[pair{late, kind}]++
			continue
		}
		for _, e := range x.run.Entries {
			if x.op == "" || x.op == e.Op {
				p.seen[pair{p.opState(x.run, e), kind}]++
			}
		}
	}
}

// waitsFor says that the delivery is what its operation waits for a slot for.
func (p *pairs) waitsFor(r *Run, k DeliveryKey) bool {
	e := r.Entries[k.Op]
	return e != nil && e.activity() != nil && waiting(e.activity()) && nextDelivery(r, e) == k
}

// concern is what an input is about: a run, perhaps not in memory, and one operation
// or ("") all.
type concern struct {
	run *Run
	op  string
}

// code is no operation: it is about the run's code alone.
const code = "-"

func (p *pairs) concerns(in Input) []concern {
	byRef := func(id string) []concern { return []concern{{run: p.s.ids[ID{"default", id}]}} }
	switch in := in.(type) {
	case *Start:
		return byRef(in.Req.WorkflowId)
	case *Cancel:
		return byRef(in.Req.Run.WorkflowId)
	case *Terminate:
		return byRef(in.Req.Run.WorkflowId)
	case *Await:
		return byRef(in.Ref.WorkflowId)
	case *Follow:
		return byRef(in.Ref.WorkflowId)
	case *Describe:
		return byRef(in.Ref.WorkflowId)
	case *Abandon:
		return byRef(in.ID.WorkflowID)
	case *Decided:
		return []concern{{run: p.s.runs[storeRun(in.Run)]}}
	case *Fault:
		return []concern{{run: p.s.runs[storeRun(in.Run)]}}
	case *Done:
		return []concern{{p.s.runs[storeRun(in.Delivery.Run)], in.Delivery.Op}}
	case *RunOffered:
		return []concern{{p.s.runs[in.Run], code}}
	case *SlotOffered:
		return []concern{{p.s.runs[in.Delivery.Run], in.Delivery.Op}}
	case *Woken:
		return []concern{{p.s.runs[in.Run], in.Op}}
	case *HistoryRead:
		return []concern{{p.s.runs[in.Run], code}}
	case *Refused:
		return []concern{{run: p.s.runs[in.Run]}}
	case *RowsRead:
		if k := in.Load.Key; k.Run == 0 {
			return byRef(k.WorkflowID)
		}
		return []concern{{run: p.s.runs[in.Load.Key.Run]}}
	case *WorkerGone:
		return p.with(in.Worker)
	case *WorkerBack:
		for _, d := range in.Received {
			p.noteHeld(d)
		}
		return p.with(in.Worker)
	}
	return nil
}

// noteHeld notes a delivery that a worker which comes back says that it has.
func (p *pairs) noteHeld(d *pb.Delivery) {
	r := p.s.runs[storeRun(d.Run)]
	for _, s := range p.statesOf(r) {
		p.seen[pair{s, "held"}]++
	}
	if r != nil && r.Entries[d.Op] != nil {
		p.seen[pair{p.opState(r, r.Entries[d.Op]), "held"}]++
	}
}

// with are the runs that the worker folds, or runs something of.
func (p *pairs) with(worker string) []concern {
	var all []concern
	for _, r := range p.s.inOrder() {
		has := r.holder.worker == worker
		for _, e := range r.Entries {
			a := e.activity()
			has = has || a != nil && started(a) && a.Worker == worker
		}
		if has {
			all = append(all, concern{run: r})
		}
	}
	return all
}

func (p *pairs) statesOf(r *Run) []string {
	switch {
	case r == nil:
		return []string{"absent"}
	case p.s.unwritable(r):
		return []string{"unwritable"}
	case !r.Row.Open:
		return []string{"closed"}
	case r.State.UndoState == pb.UndoState_UNDO_STATE_FAILED:
		return []string{"undo failed for good"}
	case r.decided():
		return []string{"compensating"}
	case r.State.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED:
		return []string{"quarantined"}
	}
	all := []string{map[holderPhase]string{
		holderNone: "nobody folds", holderWaiting: "waits for a worker", holderReading: "history is read", holderReady: "folded",
	}[r.holder.phase]}
	if r.State.Hold.GetKind() == pb.HoldKind_HOLD_KIND_STUCK {
		all = append(all, "stuck")
	}
	if r.State.CancelEvent != 0 {
		all = append(all, "cancel asked")
	}
	return all
}

func (p *pairs) opState(r *Run, e *Entry) string {
	a := e.activity()
	if a == nil {
		return map[bool]string{true: "grace", false: "timer"}[e.Op == graceOp]
	}
	text := phaseText(a.Phase)
	switch {
	case listens(a):
		return "listens"
	case a.Phase == pb.Phase_PHASE_UNDONE, a.Phase == pb.Phase_PHASE_ARMED:
		return text
	}
	switch text {
	case "waiting for a slot":
		text = "waiting"
	case "waiting for its turn":
		text = "queued"
	case "failed for good":
		text = "failed"
	}
	if undoing(a) {
		text = "undo " + text
	}
	switch {
	case started(a) && a.Cancelled:
		return text + ", cancelled"
	case started(a) && e.lostAt > 0:
		return text + ", worker away"
	case waiting(a) && r.paused(e):
		return text + ", paused"
	}
	return text
}

// anything lets one thing happen.
func (p *pairs) anything() {
	id := chaosIDs[p.rnd.IntN(len(chaosIDs))]
	ref := &pb.RunRef{Namespace: "default", WorkflowId: id}
	p.asks++
	to := p.asks
	switch n := p.rnd.IntN(100); {
	case n < 11:
		p.writeAll()
	case n < 21:
		p.ready()
	case n < 35:
		p.decides(id)
	case n < 51:
		p.answers()
	case n < 59:
		p.wake()
	case n < 67:
		p.comeAndGo()
	case n < 72:
		p.take(&Start{RunID: fmt.Sprint("run-", to), Seed: 1, To: to, Req: &pb.StartRequest{
			Namespace: "default", WorkflowId: id, RequestId: fmt.Sprint("s", p.rnd.IntN(9)), Type: "W", Queue: "default",
			Conflict: pb.ConflictPolicy(p.rnd.IntN(3)), Await: p.rnd.IntN(4) == 0,
		}})
	case n < 74:
		p.take(&Cancel{To: to, Req: &pb.CancelRequest{Run: ref, RequestId: fmt.Sprint("c", to)}})
	case n < 76:
		p.take(&Terminate{To: to, Req: &pb.TerminateRequest{Run: ref, RequestId: fmt.Sprint("c", to)}})
	case n < 78:
		p.take(&Await{Ref: ref, To: to})
	case n < 80:
		p.take(&Follow{Ref: ref, After: p.rnd.Int64N(20), To: to})
	case n < 82:
		p.take(&Abandon{ID: ID{"default", id}, To: 1 + p.rnd.IntN(to)})
	case n < 84:
		p.take(&Describe{Ref: ref, To: to})
	case n < 88:
		p.faults(id)
	case n < 90:
		p.refuseOne()
	case n < 95:
		p.evictOne()
	case n < 96:
		p.reload()
	default:
		p.unreadable = p.rnd.IntN(8) == 0
	}
}

// writeAll makes what is not durable so, and releases what waited for it.
func (p *pairs) writeAll() {
	unsaved := p.unsaved
	p.unsaved = nil
	refused := map[store.RunNo]*Run{}
	for _, w := range unsaved {
		no := w.row.Run
		if w.insert && p.isOpen(w.row.WorkflowID) {
			refused[no] = w.run
		}
		if refused[no] != nil {
			continue
		}
		p.write(w)
		for _, e := range w.after {
			p.release(e)
		}
	}
	for _, no := range slices.Sorted(maps.Keys(refused)) {
		p.take(&Refused{Run: no, Of: refused[no], Reason: "its id is taken"})
	}
	p.story.Reset()
}

// ready takes some of what is on its way: offers in their order, reads in any.
func (p *pairs) ready() {
	for range 1 + p.rnd.IntN(4) {
		if len(p.queue) > 0 && p.rnd.IntN(p.lazy) == 0 {
			in := p.queue[0]
			p.queue = p.queue[1:]
			p.take(in)
		}
		if len(p.reads) > 0 {
			i := p.rnd.IntN(len(p.reads))
			read := p.reads[i]
			p.reads = slices.Delete(p.reads, i, i+1)
			p.take(read())
		}
	}
}

// decides: whoever was given the run last, or before that, has folded some of it.
func (p *pairs) decides(id string) {
	s := p.stamps[id]
	if p.rnd.IntN(8) == 0 {
		s = p.before[id]
	}
	if s.Assign == nil || !p.m.Connected(s.Worker) {
		return
	}
	d := &pb.Decided{Run: s.Assign.Run, Stamp: s.Assign.Stamp, Through: p.given[id]}
	if r := p.s.runs[storeRun(d.Run)]; r != nil {
		for range p.rnd.IntN(4) {
			d.Decisions = append(d.Decisions, p.anyDecision(id, r))
		}
	}
	switch n := p.rnd.IntN(24); {
	case n == 0:
		d.Decisions = append(d.Decisions, p.decision("complete"))
	case n < 3:
		d.Decisions = append(d.Decisions, p.decision("fail"))
	}
	for _, e := range d.Decisions {
		e.Cause = d.Through
	}
	p.take(&Decided{Origin: p.origin(s.Worker), Decided: d})
}

// answers: a worker answers what it was given at any time, perhaps again.
func (p *pairs) answers() {
	w := fmt.Sprint("w", 1+p.rnd.IntN(3))
	got := p.got[w]
	if len(got) == 0 || !p.m.Connected(w) {
		return
	}
	d := got[len(got)-1-p.rnd.IntN(min(len(got), 6))]
	names := []string{"ok", "ok", "ok", "failed", "failed", "final", "interrupted", "panicked", "cancelled", "unknown", "unbegun", "timed-out"}
	name := names[p.rnd.IntN(len(names))]
	if p.rnd.IntN(4) == 0 { // it was done long ago
		d, name = got[p.rnd.IntN(len(got))], "ok"
	}
	done := &pb.Done{Delivery: d, Outcome: outcomes[name], Unbegun: name == "unbegun"}
	if name != "ok" {
		done.Failure = &pb.Failure{Message: name, Final: name == "final"}
	}
	p.take(&Done{Origin: p.origin(w), Done: done})
}

// wake lets time pass, and some of the wake-ups come, or one once more.
func (p *pairs) wake() {
	switch n := p.rnd.IntN(8); {
	case n == 0:
		p.now += p.rnd.Int64N(90e9)
	case n < 4 && p.lazy > 2:
		p.now += p.rnd.Int64N(25e9)
	case n == 7 && p.rnd.IntN(2) == 0:
		p.now += listenFor / 2
	default:
		p.now += p.rnd.Int64N(4e9)
	}
	slices.SortStableFunc(p.wakes, func(a, b Wake) int { return int(min(max(a.At-b.At, -1), 1)) })
	for n := 1 + p.rnd.IntN(6); n > 0 && len(p.wakes) > 0 && p.wakes[0].At <= p.now; n-- {
		w := p.wakes[0]
		if p.rnd.IntN(8) > 0 {
			p.wakes = p.wakes[1:]
		}
		p.take(&Woken{Run: w.Run, Op: w.Op})
	}
}

// comeAndGo: a worker connects, with what it has, or its stream is over.
func (p *pairs) comeAndGo() {
	w := fmt.Sprint("w", 1+p.rnd.IntN(3))
	if p.m.Connected(w) {
		if p.rnd.IntN(2) == 0 {
			n := p.m.Disconnect(w)
			for _, in := range p.queue { // offers made before come before
				p.take(in)
			}
			p.queue = nil
			p.take(&WorkerGone{Worker: w, Orderly: p.rnd.IntN(4) == 0, Suspects: n})
		}
		return
	}
	p.builds[w] = p.oneOf("a", "b")
	slots := p.rnd.IntN(4)
	if p.lazy > 2 {
		slots /= 2
	}
	p.offer(p.m.Connect(matchWorker(w, p.builds[w], slots)))
	in := &WorkerBack{Worker: w}
	if p.rnd.IntN(4) > 0 {
		in.Received = p.unanswered(w)
	}
	p.take(in)
}

func (p *pairs) faults(id string) {
	s := p.stamps[id]
	if s.Assign == nil || !p.m.Connected(s.Worker) {
		return
	}
	kinds := []pb.FaultKind{pb.FaultKind_FAULT_KIND_MISMATCH, pb.FaultKind_FAULT_KIND_BLOCKED, pb.FaultKind_FAULT_KIND_RECOVERED}
	p.take(&Fault{Origin: p.origin(s.Worker), Fault: &pb.Fault{
		Run: s.Assign.Run, Stamp: s.Assign.Stamp, Kind: kinds[p.rnd.IntN(3)], Failure: &pb.Failure{Message: "no"},
	}})
}

// refuseOne: the database will not write what was not written of a run; of what was
// stepped meanwhile it says so again.
func (p *pairs) refuseOne() {
	if len(p.unsaved) == 0 {
		return
	}
	of := p.unsaved[p.rnd.IntN(len(p.unsaved))].run
	p.unsaved = slices.DeleteFunc(p.unsaved, func(w saved) bool { return w.row.Run == of.Row.Run })
	for range 1 + p.rnd.IntN(2) {
		p.take(&Refused{Run: of.Row.Run, Of: of, Reason: "the row is bad"})
	}
}

func (p *pairs) evictOne() {
	for _, r := range p.s.inOrder() {
		dirty := slices.ContainsFunc(p.unsaved, func(w saved) bool { return w.row.Run == r.Row.Run })
		if r.Idle() && !dirty && p.rnd.IntN(2) == 0 {
			p.apply(p.s.Evict(r))
			p.story.Reset()
		}
	}
}

// reload loads the shard again, and leaves what must be read then to come.
func (p *pairs) reload() {
	db := p.db
	p.db = map[store.RunNo]*rows{}
	p.load()
	p.slow, p.db = true, db
	for _, no := range slices.Sorted(maps.Keys(db)) {
		if db[no].row.Attention {
			p.queue = append(p.queue, &Woken{Run: no})
		}
		for _, op := range sortedKeys(db[no].pending) {
			if w := db[no].pending[op].Wake; w == 0 {
				p.queue = append(p.queue, &Woken{Run: no, Op: op})
			} else if w != never {
				p.wakes = append(p.wakes, Wake{At: w, Run: no, Op: op})
			}
		}
	}
}

func matchWorker(id, build string, slots int) match.Worker {
	return match.Worker{
		ID: id, Namespace: "default", Queue: "default", Build: build, WorkflowTypes: []string{"W"}, ActivityTypes: allTypes, Slots: slots,
	}
}
