package property

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// world drives a shard, and the model beside it.
type world struct {
	s              *machine.Shard
	m              *model
	desk           *desk
	now            int64
	incarnation    uint64
	db             map[store.RunNo]*rows
	durable        map[store.RunNo]*run // the model's, as it was when the rows were written
	unsaved        []*saved
	reads          []*read
	offers         []machine.Input
	wakes          []machine.Wake
	procs          []*proc
	tasks          []*task
	unsent         []*pb.Delivery
	refusing       []*machine.Run // they are told next
	slow, hesitant bool
	sagas          bool // the code asks for little else than steps, and to undo them
	seq            int64
	asked          int // requests so far
	stamps         map[store.RunNo]machine.Stamp
	seen           map[machine.Stamp]bool
	fences         map[string]int64
	gaveTo         map[string]string
	story          []line
	wrong          []string
	out            *machine.Output // of the present step
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
	run     *machine.Run
	insert  bool
	touched bool
	row     store.RunRow
	put     []store.PendingRow
	del     []string
	events  []*pb.Event
	dedup   []store.DedupRow
	after   []machine.Effect
	acks    []machine.Ack
	model   *run
}

// read is a read under way. An answer that was taken at once may be stale when it is
// told.
type read struct {
	load    *machine.Load
	history *machine.ReadHistory
	taken   *store.Loaded
}

// task is what a worker process was given.
type task struct {
	*pb.Task
	proc   *proc
	answer *pb.Done
	seq    int64 // of the message that it was answered in
	acked  bool
}

func newWorld() *world {
	w := &world{
		m: newModel(), desk: newDesk(), now: 1e18, db: map[store.RunNo]*rows{}, durable: map[store.RunNo]*run{},
		stamps: map[store.RunNo]machine.Stamp{}, seen: map[machine.Stamp]bool{}, fences: map[string]int64{}, gaveTo: map[string]string{},
	}
	w.m.choices = w
	w.load()
	w.connect(&proc{id: "w1", build: "a", slots: 2})
	return w
}

func (w *world) broken(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, line{w.now, format, args})
}

// happens counts and tells what happens.
func (w *world) happens(kind, format string, args ...any) {
	counts[kind]++
	w.tell(format, args...)
}

// load begins a new load of the shard: what was not durable is gone.
func (w *world) load() {
	w.incarnation++
	w.s = machine.NewShard(machine.Config{
		Lease:       store.Lease{Epoch: int64(w.incarnation), NextRun: int64(w.incarnation) * 10},
		Incarnation: w.incarnation, Seed: 1, Desk: w.desk, Grace: grace, RestartGrace: restartGrace,
	})
	w.desk.reset()
	w.unsaved, w.reads, w.offers, w.wakes, w.unsent = nil, nil, nil, nil, nil
	m := newModel()
	m.incarnation, m.choices = w.incarnation, w
	w.m = m
	var woken []*machine.Woken
	for _, no := range sorted(w.db) {
		m.runs[no] = w.durable[no].clone()
		if w.db[no].row.Attention {
			woken = append(woken, &machine.Woken{Run: no})
		}
		woken = append(woken, w.stored(no)...)
	}
	for _, in := range woken {
		w.step(in)
	}
}

// stored asks again for the wake-ups that the rows tell of, and returns those that
// are due always.
func (w *world) stored(no store.RunNo) []*machine.Woken {
	var now []*machine.Woken
	for _, op := range sorted(w.db[no].pending) {
		switch at := w.db[no].pending[op].Wake; at {
		case 0:
			now = append(now, &machine.Woken{Run: no, Op: op})
		case never:
		default:
			w.wakes = append(w.wakes, machine.Wake{At: at, Run: no, Op: op})
		}
	}
	return now
}

// step gives one input to the core and to the model, and compares.
func (w *world) step(in machine.Input) {
	if len(w.wrong) > 0 {
		return
	}
	w.happens(strings.TrimPrefix(fmt.Sprintf("%T", in), "*machine."), "%s", input{in})
	w.desk.said = w.desk.said[:0]
	w.m.now, w.m.said = w.now, w.m.said[:0]
	clear(w.m.touched)
	before := w.memory(in)
	out := w.s.Step(w.now, in)
	w.out = out
	said := w.render(out)
	w.foretell(in, out, before)
	w.m.tellFollowers()
	w.observe(out.Sends)
	w.compare(said)
	w.take(out)
	for no := range w.m.touched {
		w.same(no)
	}
	for _, s := range w.desk.said {
		w.broken("the desk was asked for %v (held %v), for which there is no reason", s.key, s.held)
	}
	w.settleDesk()
}

// memory notes what the model has of a run that is refused.
func (w *world) memory(in machine.Input) *run {
	if in, ok := in.(*machine.Refused); ok {
		return w.m.runs[in.Run]
	}
	return nil
}

// foretell has the model take the input.
func (w *world) foretell(in machine.Input, out *machine.Output, before *run) {
	switch in := in.(type) {
	case *machine.RowsRead:
		k := in.Load.Key
		if len(out.Loads) > 0 && out.Loads[0].Key == k && in.Err == nil {
			w.m.now1("read %s", keyText(k)) // what was read may be older than an eviction
			return
		}
		no := store.RunNo(0)
		if in.Answer.Run != nil {
			no = in.Answer.Run.Run
		}
		w.m.rowsRead(k, no, in.Err != nil)
	case *machine.Refused:
		w.m.refuse(in, before, w.durable[in.Run])
	case *machine.HistoryRead, *machine.RunOffered:
	default:
		w.m.take(in)
	}
}

// refuse: nothing of the run that was not durable has happened, but that its callers
// are told so. It is read again, and held.
func (m *model) refuse(in *machine.Refused, r, durable *run) {
	if r == nil {
		return
	}
	for _, to := range r.waiters {
		m.now1("answer to %v: an error", to)
	}
	for _, f := range r.followers {
		m.now1("answer to %v: an error", f.to)
	}
	delete(m.runs, in.Run)
	if durable != nil {
		m.runs[in.Run] = durable.clone()
	}
	m.read(store.Key{Run: in.Run}, in)
}

// compare holds what came of the step against what the model says.
func (w *world) compare(said []string) {
	slices.Sort(said)
	slices.Sort(w.m.said)
	if slices.Equal(said, w.m.said) {
		return
	}
	for _, x := range w.m.said {
		if i := slices.IndexFunc(said, func(y string) bool { return x == y || w.asGood(y, x) }); i >= 0 {
			said = slices.Delete(said, i, i+1)
		} else {
			w.broken("what should come of it does not: %s", x)
		}
	}
	for _, x := range said {
		w.broken("what comes of it should not: %s", x)
	}
}

// asGood: an answer about a run of which all is durable needs to wait for nothing, and
// one that could be given at once may wait.
func (w *world) asGood(core, model string) bool {
	where, what, _ := strings.Cut(core, ": ")
	with, same, _ := strings.Cut(model, ": ")
	if what != same || !strings.HasPrefix(what, "answer to ") {
		return false
	}
	// Who has started a run does not change.
	begun := strings.Contains(what, "started ")
	return with == "at once" || where == "at once" && !slices.ContainsFunc(w.unsaved, func(x *saved) bool {
		return x.touched && (x.insert || !begun) && fmt.Sprintf("run %d", x.row.Run) == with
	})
}

// take keeps what the step asks of its driver.
func (w *world) take(out *machine.Output) {
	for _, c := range out.Changes {
		w.keep(c)
	}
	for _, l := range out.Loads {
		w.reads = append(w.reads, &read{load: &l})
	}
	for _, x := range out.Wakes {
		if x.At != never {
			w.wakes = append(w.wakes, x)
		}
	}
	for _, a := range out.Acks {
		w.acked(a)
	}
}

func (w *world) keep(c *machine.Change) {
	no := c.Run.Row.Run
	x := &saved{
		run: c.Run, insert: c.Insert, touched: c.Touched, events: c.Events, dedup: c.Dedup,
		after: slices.Clone(c.After), acks: slices.Clone(c.Acks), row: c.Run.Row,
	}
	w.m.touched[no] = true
	if r := w.m.runs[no]; r != nil {
		x.model = r.clone()
	}
	for _, e := range c.Put {
		x.put = append(x.put, store.PendingRow{Run: no, Op: e.Op, Wake: e.Wake(), Data: encode(e.P)})
	}
	for _, e := range c.Del {
		x.del = append(x.del, e.Op)
	}
	x.row.State, x.row.Pending, x.row.Attention = encode(c.Run.State), int64(len(c.Run.Entries)), c.Run.Attention()
	w.unsaved = append(w.unsaved, x)
}

func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// observe follows who folds a run: the core chooses him, and must not lose him.
func (w *world) observe(sends []machine.Send) {
	for _, s := range sends {
		switch {
		case s.Assign != nil:
			w.assigned(s)
		case s.Input != nil:
			no := store.RunNo(s.Input.Run)
			r := w.m.runs[no]
			if stampOf(s.Input.Stamp) != w.stamps[no] {
				w.broken("run %d: an input is sent under a stamp that is not the last", no)
			}
			if r != nil && r.holder.worker == s.Worker {
				if last := r.holder.given; len(last) > 0 && s.Input.Event.Id <= last[len(last)-1] {
					w.broken("run %d: input %d is sent again", no, s.Input.Event.Id)
				}
				r.holder.given = append(r.holder.given, s.Input.Event.Id)
			}
		case s.Drop != nil:
			if r := w.m.runs[store.RunNo(s.Drop.Run)]; r != nil && r.holder.worker == s.Worker && r.holder.stamp == stampOf(s.Drop.Stamp) {
				r.holder = holder{}
			}
		}
	}
}

func stampOf(s *pb.Stamp) machine.Stamp {
	return machine.Stamp{Incarnation: s.GetIncarnation(), Epoch: s.GetEpoch()}
}

func (w *world) assigned(s machine.Send) {
	a := s.Assign
	no, stamp := store.RunNo(a.Run), stampOf(a.Stamp)
	r := w.m.runs[no]
	switch {
	case w.seen[stamp]:
		w.broken("run %d: stamp %v is given a second time", no, stamp)
	case r == nil || r.decided() || r.held():
		w.broken("run %d is given to a worker, and has nothing to fold", no)
		return
	case a.Processed != r.processed:
		w.broken("run %d is given up to %d, and was folded up to %d", no, a.Processed, r.processed)
	}
	w.seen[stamp], w.stamps[no] = true, stamp
	r.holder = holder{worker: s.Worker, stamp: stamp}
	for i, e := range a.History {
		if e.Id != int64(i)+1 {
			w.broken("run %d: event %d of the history that is sent has id %d", no, i+1, e.Id)
		}
		if history.IsInput(e) && e.Id > a.Processed {
			r.holder.given = append(r.holder.given, e.Id)
		}
	}
}

// commit writes the first n changes, and releases what waited for them.
func (w *world) commit(n int) {
	batch := w.unsaved[:n]
	w.unsaved = slices.Clone(w.unsaved[n:])
	for _, x := range batch {
		w.write(x)
	}
	for _, x := range batch {
		for _, e := range x.after {
			w.release(x, e)
		}
		for _, a := range x.acks {
			w.acked(a)
		}
	}
}

func (w *world) write(x *saved) {
	no := x.row.Run
	d := w.db[no]
	if !x.touched {
		if r := w.durable[no]; r != nil && x.model != nil && !r.tells(x.model) {
			w.broken("run %d has changed, and nothing of it is written", no)
		}
		return
	}
	if d == nil {
		if !x.insert {
			w.broken("run %d is changed, and was never begun", no)
		}
		d = &rows{pending: map[string]store.PendingRow{}}
		w.db[no] = d
	}
	d.row, w.durable[no] = x.row, x.model
	d.events, d.dedup = append(d.events, x.events...), append(d.dedup, x.dedup...)
	for _, p := range x.put {
		d.pending[p.Op] = p
	}
	for _, op := range x.del {
		delete(d.pending, op)
	}
	if x.row.Pending != int64(len(d.pending)) || x.row.NextEvent != int64(len(d.events))+1 {
		w.broken("run %d: its row tells of %d entries and %d events, there are %d and %d",
			no, x.row.Pending, x.row.NextEvent-1, len(d.pending), len(d.events))
	}
	for _, other := range w.db {
		if other != d && other.row.Open && d.row.Open && other.row.WorkflowID == d.row.WorkflowID {
			w.broken("the workflow id %s has two open runs", d.row.WorkflowID)
		}
	}
}

func (w *world) release(x *saved, e machine.Effect) {
	switch e := e.(type) {
	case machine.Dispatch:
		w.dispatched(x, e)
	case machine.ReadHistory:
		w.reads = append(w.reads, &read{history: &e})
	}
}

// dispatched takes a task to its process, when what it rests on is durable.
func (w *world) dispatched(x *saved, e machine.Dispatch) {
	d := e.Task.Delivery
	name := fmt.Sprintf("%d %s", d.Run, d.Op)
	side := fmt.Sprintf("%s %v %d/%d", name, d.Role, d.Incarnation, d.Delivery)
	p := w.db[x.row.Run].entry(d.Op)
	if p != nil && p.Delivery < d.Delivery && p.Phase < pb.Phase_PHASE_UNDO_QUEUED {
		w.broken("task %s leaves before it is durable that it was started", side)
	}
	if to := w.gaveTo[side]; to != "" && to != e.Worker {
		w.broken("delivery %s is given to %s and to %s", side, to, e.Worker)
	}
	if w.gaveTo[side] == "" && e.Task.Fence <= w.fences[name] {
		w.broken("delivery %s has fence %d, one before it had %d", side, e.Task.Fence, w.fences[name])
	}
	w.gaveTo[side], w.fences[name] = e.Worker, max(w.fences[name], e.Task.Fence)
	c := w.desk.find(e.Worker)
	if c == nil {
		w.unsent = append(w.unsent, proto.CloneOf(d))
		return
	}
	if !slices.ContainsFunc(w.tasks, func(t *task) bool { return t.proc == c && proto.Equal(t.Delivery, d) }) {
		w.tasks = append(w.tasks, &task{Task: e.Task, proc: c})
	}
}

func (d *rows) entry(op string) *pb.PendingActivity {
	row, ok := d.pending[op]
	if !ok {
		return nil
	}
	p := &pb.Pending{}
	if err := proto.Unmarshal(row.Data, p); err != nil {
		panic(err)
	}
	return p.GetActivity()
}

func (w *world) acked(a machine.Ack) {
	for _, t := range w.tasks {
		if t.seq == a.Seq && a.Seq != 0 {
			t.acked = true
		}
	}
}

// answer tells the core what a read has found.
func (w *world) answer(i int, fails bool) {
	x := w.reads[i]
	w.reads = slices.Delete(w.reads, i, i+1)
	switch {
	case x.history != nil && fails:
		w.step(&machine.HistoryRead{Run: x.history.Run, Stamp: x.history.Stamp, Err: errors.New("the disk is away")})
	case x.history != nil:
		var events []*pb.Event
		for _, e := range w.db[x.history.Run].events[:x.history.Upto] {
			events = append(events, proto.CloneOf(e))
		}
		w.step(&machine.HistoryRead{Run: x.history.Run, Stamp: x.history.Stamp, Events: events})
	case fails:
		w.step(&machine.RowsRead{Load: *x.load, Err: errors.New("the disk is away")})
	default:
		a := w.find(x.load.Key)
		if x.taken != nil {
			a = *x.taken
		}
		w.step(&machine.RowsRead{Load: *x.load, Answer: a})
	}
}

func (w *world) find(k store.Key) store.Loaded {
	var l store.Loaded
	for _, no := range sorted(w.db) {
		d := w.db[no]
		if k.Run != 0 && no != k.Run || k.Run == 0 && d.row.WorkflowID != k.WorkflowID {
			continue
		}
		row := d.row
		if k.RunID == "" || k.RunID == row.RunID {
			l.Run, l.Pending = &row, nil
			for _, op := range sorted(d.pending) {
				l.Pending = append(l.Pending, d.pending[op])
			}
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

// evict takes a run out of memory, if it may leave.
func (w *world) evict(r *run) {
	c := w.s.Runs()[r.no]
	if c == nil || !c.Idle() || slices.ContainsFunc(w.unsaved, func(x *saved) bool { return x.row.Run == r.no }) {
		return
	}
	w.happens("evict", "run %d leaves memory", r.no)
	out := w.s.Evict(c)
	w.m.runs[r.no] = r.clone()
	w.m.runs[r.no].processed = w.durable[r.no].processed
	w.m.runs[r.no].unfolded = slices.Clone(w.durable[r.no].unfolded)
	w.observe(out.Sends)
	w.take(out)
	w.wakes = slices.DeleteFunc(w.wakes, func(x machine.Wake) bool { return x.Run == r.no })
	if due := w.stored(r.no); len(due) > 0 {
		w.broken("run %d has left memory, and its operation %s must be there", r.no, due[0].Op)
	}
}

func clock(at int64) string { return fmt.Sprintf("+%.1fs", float64(at-1e18)/1e9) }

// line is one of the story, put into words when somebody reads it.
type line struct {
	at     int64
	format string
	args   []any
}

// input is one, as it is told.
type input struct{ machine.Input }

func (in input) String() string { return inputText(in.Input) }

func (w *world) text() string {
	var all strings.Builder
	for _, l := range w.story {
		switch text := fmt.Sprintf(l.format, l.args...); {
		case strings.HasPrefix(text, " "):
			fmt.Fprintln(&all, text)
		case text != "":
			fmt.Fprintf(&all, "%s %s\n", clock(l.at), text)
		}
	}
	return all.String()
}
