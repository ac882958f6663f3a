package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// rig drives a shard as the shell does, in one thread: a real matcher, virtual
// time, and a database of encoded rows that changes when the script says so.
type rig struct {
	t           *testing.T
	s           *Shard
	incarnation uint64
	now         int64
	m           *match.Matcher
	builds      map[string]string
	db          map[store.RunNo]*rows
	unsaved     []saved
	wakes       []Wake
	queue       []Input // to be stepped: offers, rows read
	unreadable  bool    // reads fail
	alone       bool    // the workers of an earlier load are gone for good
	full        bool    // descriptions are told in full
	slow        bool    // reads wait in reads until they are let through
	reads       []func() Input
	with        map[DeliveryKey]string // the worker that has a delivery and has not answered
	over        map[answered]bool      // what was answered: no process runs one again
	// What the workers were given last, for scripts that answer it.
	got    map[string][]*pb.Delivery // all that a worker was ever given
	tasks  map[string]*pb.Task       // "id op role" of the newest delivery
	stamps map[string]Send           // by workflow id
	before map[string]Send           // the stamps before those
	fences map[string]fenced         // the newest of each step and its undo
	given  map[string]int64          // the last input given, by workflow id
	names  map[store.RunNo]string
	story  strings.Builder // of the present command
	told   strings.Builder // of all before
}

// fenced is the newest delivery of a step or its undo.
type fenced struct {
	role     pb.Role
	delivery int32
	fence    int64
}

// rows are one run in the database.
type rows struct {
	row     store.RunRow
	pending map[string]store.PendingRow
	events  []*pb.Event
	dedup   []store.DedupRow
}

// saved is a change that is not in the database yet.
type saved struct {
	run    *Run
	insert bool
	touch  bool
	row    store.RunRow
	put    []store.PendingRow
	del    []string
	events []*pb.Event
	dedup  []store.DedupRow
	after  []Effect
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, now: int64(1e18), m: match.New(), builds: map[string]string{}, db: map[store.RunNo]*rows{},
		with: map[DeliveryKey]string{}, got: map[string][]*pb.Delivery{}, over: map[answered]bool{}, tasks: map[string]*pb.Task{}, stamps: map[string]Send{}, before: map[string]Send{}, fences: map[string]fenced{}, given: map[string]int64{}, names: map[store.RunNo]string{},
	}
	r.load()
	return r
}

// load begins a new incarnation of the shard, with nothing in memory.
func (r *rig) load() {
	r.incarnation++
	r.s = NewShard(Config{
		Lease:       store.Lease{Shard: 0, Epoch: 1, NextRun: int64(r.incarnation) * 100},
		Incarnation: r.incarnation, Seed: 1, Desk: (*rigDesk)(r), Grace: 5e9, RestartGrace: 20e9, Orphans: r.alone,
	})
	r.wakes, r.queue, r.unsaved, r.reads = nil, nil, nil, nil
	clear(r.with) // the desk has forgotten them too
	clear(r.over) // what was not durable is answered again
	r.offer(r.m.Reset(func(int64) bool { return true }))
	for _, no := range r.numbers() {
		d := r.db[no]
		if d.row.Attention {
			r.queue = append(r.queue, &Woken{Run: no})
		}
		for _, op := range sortedKeys(d.pending) {
			if p := d.pending[op]; p.Wake == 0 {
				r.queue = append(r.queue, &Woken{Run: no, Op: op})
			} else if p.Wake != never {
				r.wakes = append(r.wakes, Wake{At: p.Wake, Run: no, Op: op})
			}
		}
	}
	r.drain()
}

func (r *rig) numbers() []store.RunNo {
	var all []store.RunNo
	for no := range r.db {
		all = append(all, no)
	}
	slices.Sort(all)
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func (r *rig) say(format string, args ...any) { fmt.Fprintf(&r.story, "  "+format+"\n", args...) }

// step takes an input and all that follows from it at once.
func (r *rig) step(in Input) {
	r.queue = append(r.queue, in)
	r.drain()
}

func (r *rig) drain() {
	for len(r.queue) > 0 {
		in := r.queue[0]
		r.queue = r.queue[1:]
		r.watch(in)
		r.apply(r.s.Step(r.now, in))
	}
}

func (r *rig) apply(out *Output) {
	for _, c := range out.Changes {
		r.change(c)
	}
	for _, m := range out.Sends {
		r.sent(m)
	}
	for _, l := range out.Loads {
		r.readLater(func() Input { return r.read(l) })
	}
	r.wakes = append(r.wakes, out.Wakes...)
	for _, p := range out.Replies {
		r.replied(p)
	}
}

func (r *rig) change(c *Change) {
	no := c.Run.Row.Run
	r.names[no] = c.Run.Row.WorkflowID
	w := saved{run: c.Run, insert: c.Insert, touch: c.Touched, events: c.Events, dedup: c.Dedup, after: slices.Clone(c.After)}
	for _, e := range c.Events {
		r.say("%s: %s", c.Run.Row.WorkflowID, history.Line(e))
	}
	for _, e := range c.Put {
		data, err := proto.Marshal(e.P)
		if err != nil {
			r.t.Fatal(err)
		}
		w.put = append(w.put, store.PendingRow{Run: no, Op: e.Op, Wake: e.Wake(), Data: data})
		r.say("%s: entry %s", c.Run.Row.WorkflowID, entryText(e))
	}
	for _, e := range c.Del {
		w.del = append(w.del, e.Op)
		r.say("%s: entry %s is gone", c.Run.Row.WorkflowID, e.Op)
	}
	state, err := proto.Marshal(c.Run.State)
	if err != nil {
		r.t.Fatal(err)
	}
	w.row = c.Run.Row
	w.row.State, w.row.Pending, w.row.Attention = state, int64(len(c.Run.Entries)), c.Run.Attention()
	if h := c.Run.State.Hold; h != nil && c.Touched {
		r.say("%s: held as %s: %s", c.Run.Row.WorkflowID, holdText(h.Kind), h.Reason)
	}
	r.unsaved = append(r.unsaved, w)
}

func holdText(k pb.HoldKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "HOLD_KIND_"))
}

func entryText(e *Entry) string {
	a := e.activity()
	if a == nil {
		return fmt.Sprintf("%s waits until %s", e.Op, clockText(e.Wake()))
	}
	text := fmt.Sprintf("%s %s %s", e.Op, a.Type, phaseText(a.Phase))
	if undoing(a) {
		text = fmt.Sprintf("%s %s (undo) %s", e.Op, a.Undo.Type, phaseText(a.Phase))
	}
	if started(a) {
		text += fmt.Sprintf(" on %s, attempt %d, delivery %d", a.Worker, a.Attempt, a.Delivery)
	}
	if len(a.Roads) > 0 {
		text += ", step " + strings.ToLower(strings.TrimPrefix(a.Roads[0].Outcome.String(), "ENTRY_OUTCOME_"))
	}
	return text
}

// clockText is a time as what has passed since the story began.
func clockText(at int64) string { return fmt.Sprintf("+%.1fs", float64(at-int64(1e18))/1e9) }

func (r *rig) sent(m Send) {
	switch {
	case m.Assign != nil:
		id := m.Assign.History[0].GetWorkflowStarted().WorkflowId
		r.before[id], r.stamps[id] = r.stamps[id], m
		for _, e := range m.Assign.History {
			if history.IsInput(e) {
				r.given[id] = e.Id
			}
		}
		r.say("to %s: assign %s, %d events, processed %d", m.Worker, id, len(m.Assign.History), m.Assign.Processed)
	case m.Input != nil:
		id := r.names[store.RunNo(m.Input.Run)]
		r.given[id] = m.Input.Event.Id
		r.say("to %s: input %d of %s", m.Worker, m.Input.Event.Id, id)
	case m.Drop != nil:
		r.say("to %s: drop %s", m.Worker, r.names[store.RunNo(m.Drop.Run)])
	}
}

func (r *rig) tasked(worker string, t *pb.Task) {
	d := t.Delivery
	if r.m.Connected(worker) && !r.over[answered{worker, KeyOf(d)}] {
		r.with[KeyOf(d)] = worker
		r.got[worker] = append(r.got[worker], d)
	}
	r.tasks[taskName(t.WorkflowId, d.Op, d.Role)] = t
	r.checkFence(t)
	told := ""
	if t.Undo != nil {
		told = ", told " + strings.ToLower(strings.TrimPrefix(t.Undo.Outcome.String(), "ENTRY_OUTCOME_"))
	}
	on := ""
	if t.Queue != "default" {
		on = " on " + t.Queue
	}
	r.say("to %s: task %s %s%s of %s, delivery %d%s", worker, d.Op, t.Type, on, t.WorkflowId, d.Delivery, told)
}

// checkFence holds that every delivery has a higher fence than all before it of
// the same step, its undo's included.
func (r *rig) checkFence(t *pb.Task) {
	d := t.Delivery
	key := fmt.Sprint(d.Run, d.Op)
	last, now := r.fences[key], fenced{d.Role, d.Delivery, t.Fence}
	if last.role == now.role && last.delivery == now.delivery && last.fence == now.fence {
		return // the same, sent again
	}
	if t.Fence <= last.fence {
		r.t.Errorf("%s %s: delivery %d has fence %d, one before it had %d", t.WorkflowId, d.Op, d.Delivery, t.Fence, last.fence)
	}
	r.fences[key] = now
}

func taskName(id, op string, role pb.Role) string { return fmt.Sprint(id, " ", op, " ", role) }

func (r *rig) replied(p Reply) {
	if p.To == nil {
		return
	}
	switch v := p.Value.(type) {
	case nil:
		r.say("answer to %v: error: %v", p.To, p.Err)
	case *pb.StartResponse:
		r.say("answer to %v: started %v", p.To, v.Started)
	case *pb.Result:
		r.say("answer to %v: %s %s", p.To, statusText(v.Status), undoText(v.UndoState))
	case *Settled:
		r.say("answer to %v: %s %s, see event %d", p.To, statusText(pb.Status(v.Row.Status)), undoText(v.State.UndoState), v.State.ClosingEvent)
	case *pb.CancelResponse:
		r.say("answer to %v: cancelled, already %v", p.To, v.Already)
	case *Followed:
		r.say("answer to %v: up to event %d, open %v", p.To, v.Last, v.Open)
		r.checkFollowed(v)
	case *pb.TerminateResponse:
		r.say("answer to %v: terminated, already %v", p.To, v.Already)
	case *pb.DescribeResponse:
		r.say("answer to %v: %s %s, held %s", p.To, statusText(v.Info.Status), undoText(v.Info.UndoState), holdText(v.Info.Hold.GetKind()))
		if r.full {
			r.described(v)
		}
	}
}

func (r *rig) described(v *pb.DescribeResponse) {
	if h := v.Info.Hold; h != nil {
		r.say("  %s", h.Reason)
	}
	r.say("  %d inputs unfolded, %d bytes, last event at %s", v.Unfolded, v.HistoryBytes, clockText(v.Last))
	for _, w := range v.Waiting {
		until := ""
		if w.Until > 0 && w.Until != never {
			until = " until " + clockText(w.Until)
		}
		if w.Limit != 0 {
			until += " (" + limitText(w.Limit) + ")"
		}
		r.say("  %s %s %s on %s: %s%s; ends: %s", w.Kind, w.Op, w.Type, w.Queue, w.State, until, w.Ends)
	}
}

func statusText(s pb.Status) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATUS_"))
}

func undoText(u pb.UndoState) string {
	return "(undo: " + strings.ToLower(strings.TrimPrefix(u.String(), "UNDO_STATE_")) + ")"
}

// save makes all changes durable and releases their effects.
func (r *rig) save() {
	unsaved := r.unsaved
	r.unsaved = nil
	refused := map[store.RunNo]bool{}
	for _, w := range unsaved {
		no := w.row.Run
		if w.insert && r.isOpen(w.row.WorkflowID) {
			// The unique index: what would have closed the older run was refused.
			refused[no] = true
			r.queue = append(r.queue, &Refused{Run: no, Of: w.run, Reason: "its id is taken"})
		}
		if refused[no] {
			continue
		}
		r.write(w)
		for _, e := range w.after {
			r.release(e)
		}
	}
	r.drain()
	r.checkRows()
	r.checkMemory()
}

func (r *rig) isOpen(id string) bool {
	return slices.ContainsFunc(r.numbers(), func(no store.RunNo) bool { return r.db[no].row.WorkflowID == id && r.db[no].row.Open })
}

func (r *rig) write(w saved) {
	if !w.touch {
		return
	}
	d := r.db[w.row.Run]
	if d == nil {
		d = &rows{pending: map[string]store.PendingRow{}}
		r.db[w.row.Run] = d
	}
	d.row = w.row
	d.events = append(d.events, w.events...)
	d.dedup = append(d.dedup, w.dedup...)
	for _, p := range w.put {
		d.pending[p.Op] = p
	}
	for _, op := range w.del {
		delete(d.pending, op)
	}
}

func (r *rig) release(e Effect) {
	switch e := e.(type) {
	case Dispatch:
		r.tasked(e.Worker, e.Task)
	case CancelTask:
		r.say("to %s: cancel %s: %s", e.Worker, e.Cancel.Delivery.Op, e.Cancel.Cause)
	case Reply:
		r.replied(e)
	case ReadHistory:
		r.readLater(func() Input { return r.readHistory(e) })
	}
}

// readLater answers a read at once, or when it is let through.
func (r *rig) readLater(read func() Input) {
	if r.slow {
		r.reads = append(r.reads, read)
	} else {
		r.queue = append(r.queue, read())
	}
}

func (r *rig) readHistory(e ReadHistory) Input {
	if r.unreadable {
		r.say("a read fails")
		return &HistoryRead{Run: e.Run, Stamp: e.Stamp, Err: errors.New("the disk is away")}
	}
	return &HistoryRead{Run: e.Run, Stamp: e.Stamp, Events: slices.Clone(r.db[e.Run].events[:e.Upto])}
}

func (r *rig) read(l Load) *RowsRead {
	if r.unreadable {
		r.say("a read fails")
		return &RowsRead{Load: l, Err: errors.New("the disk is away")}
	}
	return &RowsRead{Load: l, Answer: r.find(l.Key)}
}

func (r *rig) find(k store.Key) store.Loaded {
	var l store.Loaded
	for _, no := range r.numbers() {
		d := r.db[no]
		if k.Run != 0 && no != k.Run {
			continue
		}
		if k.Run == 0 && (d.row.WorkflowID != k.WorkflowID || k.RunID != "" && d.row.RunID != k.RunID) {
			continue
		}
		row := d.row
		l.Run, l.Pending = &row, nil
		for _, op := range sortedKeys(d.pending) {
			l.Pending = append(l.Pending, d.pending[op])
		}
		if k.Request != "" && row.Request == k.Request {
			l.ByRequest = &row
		}
		for i := range d.dedup {
			if d.dedup[i].Request == k.Request {
				l.Dedup = &d.dedup[i]
			}
		}
	}
	return l
}

func (r *rig) offer(offers []match.Offer) {
	for _, o := range offers {
		if !o.Slot {
			r.queue = append(r.queue, &RunOffered{Run: store.RunNo(o.Run), Worker: o.Worker})
			continue
		}
		d := o.Delivery
		r.queue = append(r.queue, &SlotOffered{Worker: o.Worker, Delivery: DeliveryKey{
			Run: store.RunNo(d.Run), Op: d.Op, Role: pb.Role(d.Role), Delivery: d.Delivery,
		}})
	}
}
