package machine

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"

	"google.golang.org/protobuf/proto"
)

// chaos drives a rig by a seed: workers come, go and answer in any way, the code
// asks for anything, the engine crashes and saves when it pleases. Then all
// faults stop, and every run must end.
type chaos struct {
	*rig
	rnd      *rand.Rand
	ops      map[string]int   // operations so far, by workflow id
	answered map[string]Stamp // stamp under which `upto` was answered
	upto     map[string]int64
	polite   bool // faults have stopped
	did      map[string]int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	return &chaos{
		rig: newRig(t), rnd: rand.New(rand.NewPCG(seed, 7)), ops: map[string]int{},
		answered: map[string]Stamp{}, upto: map[string]int64{}, did: map[string]int{},
	}
}

var chaosIDs = []string{"a", "b", "c"}

var chaosSeeds = flag.Uint64("seeds", 1500, "how many seeds TestEveryRunEndsWhateverHappens takes")

func TestEveryRunEndsWhateverHappens(t *testing.T) {
	did := map[string]int{}
	for seed := range *chaosSeeds {
		c := newChaos(t, seed)
		c.live(120)
		if !t.Failed() {
			c.heal()
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, c.told.String())
		}
		for what, n := range c.did {
			did[what] += n
		}
	}
	for _, what := range []string{"gone", "crash", "late", "refuse", "evict", "cancel", "undo", "lost", "unreadable", "slow", "stale", "terminate", "follow", "fault", "afterlife"} {
		if did[what] == 0 {
			t.Errorf("void: no %q ever happened", what)
		}
	}
}

func TestTheSameSeedTellsTheSameStory(t *testing.T) {
	hash := func() uint64 {
		c := newChaos(t, 99)
		c.live(200)
		h := fnv.New64a()
		h.Write([]byte(c.told.String()))
		return h.Sum64()
	}
	if a, b := hash(), hash(); a != b {
		t.Errorf("two runs of one seed differ: %x, %x", a, b)
	}
}

func (c *chaos) say(what string) {
	c.did[what]++
	fmt.Fprintf(&c.told, "> %s\n%s", what, c.story.String())
	c.story.Reset()
}

func (c *chaos) live(steps int) {
	for range steps {
		if !c.t.Failed() {
			c.once()
		}
	}
}

func (c *chaos) once() {
	id := chaosIDs[c.rnd.IntN(len(chaosIDs))]
	worker := fmt.Sprint("w", 1+c.rnd.IntN(2))
	what := ""
	c.letThrough(c.rnd.IntN(3))
	switch n := c.rnd.IntN(100); {
	case n < 10:
		what = "worker"
		if !c.m.Connected(worker) {
			has := c.oneOf("", "all")
			c.connect(args{plain: []string{worker}, named: map[string]string{"slots": fmt.Sprint(1 + c.rnd.IntN(3)), "has": has, "build": c.oneOf("a", "b")}})
		}
	case n < 13:
		what = "gone"
		if c.m.Connected(worker) {
			c.step(&WorkerGone{Worker: worker, Orderly: c.rnd.IntN(4) == 0, Suspects: c.m.Disconnect(worker)})
		}
	case n < 20:
		what = "start"
		c.start(args{plain: []string{id}, named: map[string]string{"request": fmt.Sprint("r", c.rnd.IntN(4), id)}})
	case n < 22:
		what = c.faultSomething(id)
	case n < 45:
		what = "decide"
		c.decideSomething(id)
	case n < 68:
		what = c.answerSomething()
	case n < 70:
		what = c.disturbReads()
	case n < 75:
		what = "pass"
		c.pass(c.rnd.Int64N(20e9))
	case n < 93:
		what = "save"
		c.save()
	case n < 95:
		what = "crash"
		c.load()
	case n < 96:
		what = "evict"
		if len(c.unsaved) == 0 {
			c.evict(id)
		}
	case n < 97:
		what = "refuse"
		c.refuseSomething()
	case n < 98:
		what = "cancel"
		c.step(&Cancel{To: "cancel", Req: &pb.CancelRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: id}, RequestId: fmt.Sprint("c", c.ops[id])}})
	case n < 99 && c.rnd.IntN(2) == 0:
		what = "terminate"
		c.step(&Terminate{To: "terminate", Req: &pb.TerminateRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: id}, RequestId: fmt.Sprint("c", c.ops[id])}})
	case c.rnd.IntN(2) == 0:
		what = "follow"
		c.step(&Follow{Ref: &pb.RunRef{Namespace: "default", WorkflowId: id}, After: c.rnd.Int64N(20), To: "follow"})
	default:
		what = "await"
		c.step(&Await{Ref: &pb.RunRef{Namespace: "default", WorkflowId: id}, To: "await"})
	}
	c.say(what)
}

// letThrough answers some of the reads that wait, in any order.
func (c *chaos) letThrough(n int) {
	for ; n > 0 && len(c.reads) > 0; n-- {
		i := c.rnd.IntN(len(c.reads))
		read := c.reads[i]
		c.reads = slices.Delete(c.reads, i, i+1)
		c.step(read())
	}
}

// disturbReads makes reads fail, or wait, with what they have read going stale.
func (c *chaos) disturbReads() string {
	switch c.rnd.IntN(4) {
	case 0:
		c.unreadable = true
		return "unreadable"
	case 1:
		c.slow = true
		return "slow"
	case 2:
		if len(c.reads) == 0 {
			break
		}
		in := c.reads[0]() // read now, and told later
		c.reads[0] = func() Input { return in }
		return "stale"
	}
	c.unreadable, c.slow = false, false
	c.letThrough(len(c.reads))
	return "reads"
}

// refuseSomething has the database refuse what was not saved of some run.
func (c *chaos) refuseSomething() {
	if len(c.unsaved) == 0 {
		return
	}
	of := c.unsaved[c.rnd.IntN(len(c.unsaved))].run
	no := of.Row.Run
	c.unsaved = slices.DeleteFunc(c.unsaved, func(w saved) bool { return w.row.Run == no })
	for range 1 + c.rnd.IntN(2) {
		c.step(&Refused{Run: no, Of: of, Reason: "the row is bad"})
	}
}

// faultSomething has some worker say that its build cannot go on with the run, or
// can, whether or not it holds it.
func (c *chaos) faultSomething(id string) string {
	if c.stamps[id].Assign == nil {
		return "no fault"
	}
	c.fault(args{plain: []string{id}, named: map[string]string{
		"kind": c.oneOf("mismatch", "blocked", "recovered", "recovered"), "worker": c.oneOf("", "w1", "w2"),
	}})
	return "fault"
}

func (c *chaos) oneOf(of ...string) string { return of[c.rnd.IntN(len(of))] }

// owes says whether the holder of id has an input to answer, and under what.
func (c *chaos) owes(id string) (Send, bool) {
	s, ok := c.stamps[id]
	if !ok {
		return s, false
	}
	stamp := stampOf(s.Assign.Stamp)
	through := c.given[id]
	if c.answered[id] == stamp && c.upto[id] >= through || through <= s.Assign.Processed {
		return s, false
	}
	c.answered[id], c.upto[id] = stamp, through
	return s, true
}

func (c *chaos) decideSomething(id string) {
	s, ok := c.owes(id)
	if !ok {
		return
	}
	d := &pb.Decided{Run: s.Assign.Run, Stamp: s.Assign.Stamp, Through: c.given[id]}
	r := c.s.runs[store.RunNo(s.Assign.Run)]
	for range c.rnd.IntN(4) {
		if !c.polite && r != nil {
			d.Decisions = append(d.Decisions, c.anyDecision(id, r))
		}
	}
	switch {
	case c.polite || c.rnd.IntN(12) == 0:
		d.Decisions = append(d.Decisions, c.decision("complete"))
	case c.rnd.IntN(8) == 0:
		d.Decisions = append(d.Decisions, c.decision("fail"))
	}
	for _, e := range d.Decisions {
		e.Cause = d.Through
	}
	c.step(&Decided{Origin: c.origin(s.Worker), Decided: d})
}

// anyDecision makes up what the code may ask for: something new, or something
// about what it has asked for before.
func (c *chaos) anyDecision(id string, r *Run) *pb.Event {
	c.ops[id]++
	op := fmt.Sprint("#", c.ops[id])
	var timers, activities, sagas []string
	for _, e := range r.entries() {
		switch a := e.activity(); {
		case e.P.GetTimer() != nil:
			timers = append(timers, e.Op)
		case a.GetUndo() != nil:
			sagas = append(sagas, e.Op)
			fallthrough
		case a != nil:
			activities = append(activities, e.Op)
		}
	}
	switch n := c.rnd.IntN(8); {
	case n == 0:
		return c.decision("timer " + op + " " + fmt.Sprint(c.rnd.IntN(30)) + "s")
	case n == 1 && len(timers) > 0:
		return c.decision("stop-timer " + c.oneOf(timers...))
	case n == 2 && len(activities) > 0:
		return c.decision("stop-activity " + c.oneOf(activities...))
	case n == 3 && len(sagas) > 0:
		return c.decision("compensate " + op + " " + strings.Join(sagas, ","))
	case n == 4 && len(sagas) > 0:
		return c.decision("commit " + op + " " + c.oneOf(sagas...))
	}
	text := fmt.Sprintf("activity %s Charge attempts=%d run=10s all=60s", op, 1+c.rnd.IntN(3))
	if c.rnd.IntN(2) == 0 {
		text += " undo=Refund undo-attempts=" + []string{"0", "0", "0", "2"}[c.rnd.IntN(4)]
	}
	return c.decision(text)
}

// answerSomething answers a task, sometimes one that was given up long ago, and
// sometimes twice.
func (c *chaos) answerSomething() string {
	names := sortedKeys(c.tasks)
	if len(names) == 0 {
		return "answer"
	}
	name := names[c.rnd.IntN(len(names))]
	t := c.tasks[name]
	outcome := []string{"ok", "ok", "ok", "failed", "final", "interrupted", "panicked", "cancelled", "large", "unknown", "unbegun"}[c.rnd.IntN(11)]
	if c.polite {
		outcome = "ok"
	}
	d := &pb.Done{Delivery: t.Delivery, Outcome: outcomes[outcome], Unbegun: outcome == "unbegun"}
	if outcome != "ok" {
		d.Failure = &pb.Failure{Message: outcome, Final: outcome == "final"}
	}
	what := "answer"
	if t.Delivery.Role == pb.Role_ROLE_UNDO {
		what = "undo"
	}
	if c.holderOf(t) == "" {
		what = "late"
	}
	if c.polite || c.rnd.IntN(4) > 0 {
		delete(c.tasks, name)
	}
	for _, w := range []string{"w1", "w2"} {
		c.step(&Done{Origin: c.origin(w), Done: d})
	}
	return what
}

// holderOf is the worker that has the task's delivery in memory, or "".
func (c *chaos) holderOf(t *pb.Task) string {
	r := c.s.runs[store.RunNo(t.Delivery.Run)]
	if r == nil || r.Entries[t.Delivery.Op] == nil {
		return ""
	}
	if a := r.Entries[t.Delivery.Op].activity(); a != nil && a.Delivery == t.Delivery.Delivery {
		return a.Worker
	}
	return ""
}

// heal stops all faults and lets everything end.
func (c *chaos) heal() {
	c.polite, c.unreadable, c.slow = true, false, false
	c.letThrough(1000)
	c.save()
	// New workers: the old ones may hold slots for tasks that this test has lost
	// sight of, and will never answer.
	for _, w := range []string{"w1", "w2"} {
		c.step(&WorkerGone{Worker: w, Suspects: c.m.Disconnect(w)})
	}
	if c.rnd.IntN(4) == 0 && len(c.s.inOrder()) > 0 {
		c.did["refuse"]++ // of a clean run: it is held, and nothing else happens
		c.step(&Refused{Run: c.s.inOrder()[0].Row.Run, Reason: "the row is bad"})
	}
	// Code that waits for nothing ends when it is cancelled.
	for _, id := range chaosIDs {
		c.step(&Cancel{To: "cancel", Req: &pb.CancelRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: id}, RequestId: "end"}})
	}
	for round := range 400 {
		for _, w := range []string{"w1", "w2"} {
			if !c.m.Connected(w) {
				// A build that no run has seen.
				c.connect(args{plain: []string{w}, named: map[string]string{"slots": "10", "build": "new"}})
			}
		}
		c.save()
		for _, id := range chaosIDs {
			c.decideSomething(id)
		}
		for range len(c.tasks) {
			c.answerSomething()
		}
		c.save()
		c.pass(10e9)
		c.save()
		c.say(fmt.Sprint("round ", round))
		if c.over() {
			break
		}
	}
	c.verdict()
	c.afterlife()
}

// afterlife: what listens for late answers ends, too.
func (c *chaos) afterlife() {
	c.pass(listenFor)
	c.save()
	for _, no := range c.numbers() {
		d := c.db[no]
		for _, op := range sortedKeys(d.pending) {
			if a := c.pending(d, op).GetActivity(); listens(a) && a.SettleBy <= c.now && c.s.refusals[d.row.RunID] < 2 {
				c.t.Errorf("%s: %s listens for ever", d.row.WorkflowID, op)
			}
		}
		for i, e := range d.events {
			if e.GetLateAnswer() != nil && i > 0 && slices.ContainsFunc(d.events[:i], func(e *pb.Event) bool {
				return e.GetCompensationEnded() != nil && e.GetCompensationEnded().Op == ""
			}) {
				c.did["afterlife"]++
			}
		}
	}
}

// over says that every run has ended, or waits for people.
func (c *chaos) over() bool {
	return !slices.ContainsFunc(c.numbers(), func(no store.RunNo) bool { return !c.ended(no) })
}

func (c *chaos) ended(no store.RunNo) bool {
	row, state := c.db[no].row, &pb.RunState{}
	if err := proto.Unmarshal(row.State, state); err != nil {
		c.t.Fatal(err)
	}
	return !row.Open && state.UndoState != pb.UndoState_UNDO_STATE_COMPENSATING || c.s.refusals[row.RunID] > 1 || state.UndoState == pb.UndoState_UNDO_STATE_FAILED || state.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED
}

func (c *chaos) verdict() {
	for _, no := range c.numbers() {
		if !c.ended(no) {
			c.t.Errorf("%s (run %d) never ends", c.db[no].row.WorkflowID, no)
		}
		c.checkAttempts(c.db[no])
	}
	if c.t.Failed() || slices.ContainsFunc(c.s.inOrder(), func(r *Run) bool { return r.Row.Open }) {
		return
	}
	for _, w := range []string{"w1", "w2"} {
		// A slot whose worker never answers stays taken: its worker is gone by then.
		if slots, runs := c.m.Usage(w); runs != 0 || slots > 0 && !c.owedAnswers() {
			c.t.Errorf("%s has %d slots and %d runs when everything has ended", w, slots, runs)
		}
	}
}

// owedAnswers says that tasks were given out which this test never answered.
func (c *chaos) owedAnswers() bool {
	return len(c.tasks) > 0 || c.did["late"] > 0 || c.did["gone"] > 0 || c.did["crash"] > 0
}

// checkAttempts holds the tallies of a history against the policies.
func (c *chaos) checkAttempts(d *rows) {
	allowed := map[string]int32{}
	for _, e := range d.events {
		if a := e.GetActivityScheduled(); a != nil {
			allowed[a.Op] = a.Retry.GetAttempts()
		}
		for op, t := range map[string]*pb.Tally{
			e.GetActivityCompleted().GetOp(): e.GetActivityCompleted().GetTally(), e.GetActivityFailed().GetOp(): e.GetActivityFailed().GetTally(),
			e.GetActivityTimedOut().GetOp(): e.GetActivityTimedOut().GetTally(), e.GetActivityCancelled().GetOp(): e.GetActivityCancelled().GetTally(),
		} {
			if op == "" {
				continue
			}
			// A worker that did not know the type, or did not call it, never ran it:
			// that is proof.
			ran := slices.DeleteFunc(slices.Clone(t.GetLog()), func(a *pb.Attempt) bool {
				return a.Outcome == pb.Outcome_OUTCOME_UNKNOWN_TYPE || a.Failure.GetMessage() == "unbegun"
			})
			if t.GetAttempts() > allowed[op] || allowed[op] == 1 && len(ran) > 1 {
				c.t.Errorf("%s: operation %s has %d attempts and ran %d times, its policy allows %d", d.row.WorkflowID, op, t.GetAttempts(), len(ran), allowed[op])
			}
			for _, a := range t.GetLog() {
				if a.Outcome == pb.Outcome_OUTCOME_LOST {
					c.did["lost"]++
				}
			}
		}
	}
}
