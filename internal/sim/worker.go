package sim

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// worker is a worker's process: what package worker does around the folding
// machine, without its goroutines.
type worker struct {
	process
	w     *World
	n     int
	build string
	conn  *conn   // nil while it has no stream
	tasks []*task // deliveries that it has: running, or not known to be answered
	leave bool    // it is to stop, in order
	// drained is the message that has said so, 0 before.
	drained int64
	heard   int64 // when anything came over a stream
	// copies of runs, of the stream that it has.
	copies []*runCopy
	items  pb.WorkerUp // that leave with the next message
	done   []*task     // answers among them
	sent   []carried
	seq    int64
	ready  bool // a message is going to leave
}

// carried is an answer on its way: when the message is durable it may be forgotten.
type carried struct {
	seq  int64
	task *task
}

// task is a delivery.
type task struct {
	t         *pb.Task
	ran       int // its place in the service's ledger
	cancelled bool
	deaf      bool // it does not heed a cancel
	// interrupted: it was cancelled by its own worker.
	interrupted bool
	answer      *pb.Done // nil while it runs
}

// runCopy is the worker's copy of a run, under one stamp.
type runCopy struct {
	no      int64
	stamp   *pb.Stamp
	assign  *pb.Assign // to be loaded first
	inputs  []*pb.Event
	code    *replay.Run
	folding bool
	gone    bool
}

// hire starts a worker's process, which connects.
func (w *World) hire(n int) {
	w.hired++
	x := &worker{process: process{name: fmt.Sprintf("worker-%d", w.hired)}, w: w, n: n, build: "good"}
	if !w.calm && w.chance(w.plan.BadBuild) {
		x.build = "bad"
	}
	w.workers = append(w.workers, x)
	w.say("%s starts, of the %s build", x.name, x.build)
	w.after(&x.process, w.delay(), x.connect)
}

// fire ends a worker's process. What it has asked of the service may still come.
func (w *World) fire(x *worker, why string) {
	w.say("%s %s", x.name, why)
	for _, t := range x.tasks {
		if t.answer == nil && w.chance(0.5) {
			w.service.callLate(t.t, t.ran, w.rnd.Int64N(20e9))
		}
	}
	w.kill(&x.process)
	if x.conn != nil {
		x.conn.broken(why, true, true)
	}
	x.forget()
	w.workers = slices.DeleteFunc(w.workers, func(y *worker) bool { return y == x })
	w.after(nil, w.rnd.Int64N(3e9), func() { w.hire(x.n) })
}

// forget drops the copies of runs.
func (x *worker) forget() {
	for _, c := range x.copies {
		c.close()
	}
	x.copies = nil
}

func (c *runCopy) close() {
	c.gone = true
	if c.code != nil {
		c.code.Close()
	}
}

// hello is what a stream begins with.
func (x *worker) hello() *pb.Hello {
	h := &pb.Hello{
		Protocol: 1, Namespace: namespace, Queue: queue, Worker: x.name, Build: x.build, Identity: x.name,
		WorkflowTypes: []string{workflowType}, ActivityTypes: activityTypes, Slots: int32(x.w.plan.Slots),
	}
	for _, t := range x.tasks {
		h.Received = append(h.Received, proto.CloneOf(t.t.Delivery))
	}
	return h
}

// opened begins a session: answers that were never acknowledged are given again.
func (x *worker) opened(c *conn) {
	x.conn, x.seq, x.sent, x.done, x.drained = c, 1, nil, nil, 0
	x.items.Reset()
	for _, t := range x.tasks {
		if t.answer != nil {
			x.give(t)
		}
	}
	if x.leave {
		x.flush()
	}
}

// lost ends the session, and tries to begin another.
func (x *worker) lost() {
	x.conn = nil
	x.forget()
	if x.leave && len(x.tasks) == 0 {
		x.w.fire(x, "has stopped")
		return
	}
	since := x.w.now
	x.w.after(&x.process, 3e9, func() { x.deaf(since) })
	x.w.after(&x.process, 50e6+x.w.rnd.Int64N(1e9), x.connect)
}

// take deals with a message from the engine.
func (x *worker) take(d *pb.WorkerDown) {
	for _, a := range d.Assign {
		if old := x.find(a.Run, nil); old != nil {
			x.drop(old)
		}
		x.w.say("%s has run %d, of %d events", x.name, a.Run, len(a.History))
		c := &runCopy{no: a.Run, stamp: a.Stamp, assign: a}
		x.copies = append(x.copies, c)
		x.foldSoon(c)
	}
	for _, in := range d.Inputs {
		if c := x.find(in.Run, in.Stamp); c != nil {
			c.inputs = append(c.inputs, in.Event)
			x.foldSoon(c)
		}
	}
	for _, drop := range d.Drops {
		if c := x.find(drop.Run, drop.Stamp); c != nil {
			x.w.say("%s drops run %d", x.name, drop.Run)
			x.drop(c)
		}
	}
	for _, t := range d.Tasks {
		x.begin(t)
	}
	for _, c := range d.Cancels {
		if t := x.taskOf(c.Delivery); t != nil && t.answer == nil && !t.cancelled {
			t.cancelled = true
			x.w.say("%s hears that %s is cancelled", x.name, c.Delivery.Op)
		}
	}
	for len(x.sent) > 0 && x.sent[0].seq <= d.Durable {
		t := x.sent[0].task
		x.sent = x.sent[1:]
		x.tasks = slices.DeleteFunc(x.tasks, func(y *task) bool { return y == t })
	}
	if x.drained > 0 && x.drained <= d.Durable && len(x.tasks) == 0 {
		x.conn.leave()
		x.conn = nil
		x.w.fire(x, "has stopped")
	}
}

// find is the copy of a run, under the stamp if one is given.
func (x *worker) find(no int64, s *pb.Stamp) *runCopy {
	for _, c := range x.copies {
		if c.no == no && (s == nil || c.stamp.Incarnation == s.Incarnation && c.stamp.Epoch == s.Epoch) {
			return c
		}
	}
	return nil
}

func (x *worker) drop(c *runCopy) {
	c.close()
	x.copies = slices.DeleteFunc(x.copies, func(y *runCopy) bool { return y == c })
}

func (x *worker) taskOf(d *pb.Delivery) *task {
	for _, t := range x.tasks {
		if proto.Equal(t.t.Delivery, d) {
			return t
		}
	}
	return nil
}

// foldSoon folds what waits, some time later.
func (x *worker) foldSoon(c *runCopy) {
	if c.folding {
		return
	}
	c.folding = true
	x.w.after(&x.process, x.w.rnd.Int64N(2e6), func() {
		c.folding = false
		if !c.gone {
			x.fold(c)
		}
	})
}

func (x *worker) fold(c *runCopy) {
	var decisions []*pb.Event
	var through int64
	var err error
	if a := c.assign; a != nil {
		c.assign = nil
		c.code = newRun()
		decisions, through, err = c.code.Load(a.History, a.Processed, a.Folded)
		if through <= a.Processed {
			through = 0
		}
	}
	if x.build == "bad" && err == nil && x.w.chance(0.3) {
		x.w.hit("bad build")
		err = &replay.Panic{Value: "a fault of this build"}
	}
	for _, in := range c.inputs {
		if err != nil || c.code.Closed() {
			break
		}
		var asked []*pb.Event
		if asked, err = c.code.Fold(in); err == nil {
			decisions, through = append(decisions, asked...), in.Id
		}
	}
	c.inputs = nil
	switch {
	case err != nil:
		if x.build != "bad" {
			x.w.fail("I8: run %d does not fold: %v", c.no, err)
		}
		x.items.Faults = append(x.items.Faults, &pb.Fault{Run: c.no, Stamp: c.stamp, Kind: replay.FaultKind(err), Failure: &pb.Failure{Message: err.Error()}})
		x.drop(c)
	case through > 0:
		x.w.say("%s decides run %d through event %d: %s", x.name, c.no, through, kinds(decisions))
		x.items.Decided = append(x.items.Decided, &pb.Decided{Run: c.no, Stamp: c.stamp, Through: through, Decisions: decisions})
		if c.code.Closed() {
			x.drop(c)
		}
	default:
		return
	}
	x.flush()
}

// flush lets all that is ready leave in one message, some time later.
func (x *worker) flush() {
	if x.ready {
		return
	}
	x.ready = true
	x.w.after(&x.process, x.w.rnd.Int64N(1e6), func() {
		x.ready = false
		if x.conn == nil {
			return
		}
		x.seq++
		up := proto.CloneOf(&x.items)
		up.Seq, up.Draining = x.seq, x.leave
		for _, t := range x.done {
			up.Done = append(up.Done, proto.CloneOf(t.answer))
			x.sent = append(x.sent, carried{x.seq, t})
		}
		if x.leave && x.drained == 0 {
			x.drained = x.seq
		}
		x.items.Reset()
		x.done = nil
		x.conn.send(up)
	})
}

// give puts an answer into the next message.
func (x *worker) give(t *task) {
	x.done = append(x.done, t)
	x.flush()
}

// kinds names events for the story.
func kinds(events []*pb.Event) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = history.Kind(e) + history.Op(e)
	}
	return strings.Join(names, ", ")
}
