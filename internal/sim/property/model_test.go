package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

const (
	second = int64(1e9)
	never  = int64(^uint64(0) >> 1)
	// grace is how long a worker that is gone may take to come back, restartGrace the
	// same after the shard was loaded, lateFor how long a late answer is listened for.
	grace, restartGrace, lateFor = 5 * second, 20 * second, 24 * 3600 * second
)

// model is what the documents say of a shard.
type model struct {
	now         int64
	incarnation uint64
	runs        map[store.RunNo]*run
	// waiting are the inputs whose rows are being read, putOff those that wait for
	// another read.
	waiting map[store.Key][]machine.Input
	putOff  map[store.RunNo][]machine.Input
	refused map[store.RunNo]bool
	// said is what must come of the input, touched the runs that it may change.
	said    []string
	touched map[store.RunNo]bool
	// choices are the core's, of the step that is looked at.
	choices choices
}

// choices is where the model looks for what is not its to decide.
type choices interface {
	// slot is what the desk has said of a slot for the delivery, or of one that a
	// worker holds.
	slot(k machine.DeliveryKey, held bool) (worker string, ok bool)
	// backoff is when the next attempt is due, 0 if it was not put off.
	backoff(no store.RunNo, op string, longest int64) int64
	// number is the one that was given to a new run.
	number(ulid string) store.RunNo
	// asks says that the core reads rows for the caller, whether it must or not.
	asks(k store.Key, to machine.Caller) bool
	broken(format string, args ...any)
}

// run is one run, as its history and its requests make it.
type run struct {
	no        store.RunNo
	id, ulid  string
	request   string
	used      map[string]bool // the requests that cancelled or terminated it
	joined    map[string]bool // the starts that were given it
	status    pb.Status
	open      bool
	undo      pb.UndoState
	events    int64
	lastTime  int64
	closing   int64
	cancel    int64
	processed int64
	unfolded  []int64 // the inputs behind it
	hold      pb.HoldKind
	builds    []string // excluded, as the hold tells
	ops       map[string]*op
	comps     []*comp
	// Below is in memory alone.
	inMemory  bool
	excluded  []string
	holder    holder
	waiters   []machine.Caller
	followers []follower
}

// follower waits for an event behind `after`.
type follower struct {
	to    machine.Caller
	after int64
}

// holder is who folds the run, as he was told.
type holder struct {
	worker string
	stamp  machine.Stamp
	given  []int64 // not answered
}

type comp struct {
	by     string
	undone int32
	failed []string
}

// op is an open operation: a timer, or a step with what is known of it.
type op struct {
	name      string
	timer     bool
	due       int64
	scheduled int64 // event
	settled   int64 // event
	since     int64
	limits    limits
	attempts  int32
	undo      *undo
	phase     pb.Phase
	attempt   int32
	delivery  int32
	worker    string
	by        uint64 // incarnation
	begun     int64
	next      int64
	tally     tally
	forward   tally // when the forward side is settled
	cancelled bool
	comp      bool
	compFor   string
	known     bool // done, by a delivery that had been given up
	outcome   pb.EntryOutcome
	told      pb.EntryOutcome
	undoSince int64
	settleBy  int64
	// Below is in memory alone.
	lostAt int64
	losses int
	resent bool
}

type undo struct {
	attempts int32
	limits   limits
}

// limits bound one attempt, all of it, and the wait for the first.
type limits struct{ run, all, wait int64 }

// tally counts attempts; tries are those that were given up or answered.
type tally struct {
	attempts, deliveries, unanswered, inconclusive int32
	tries                                          []try
}

type try struct {
	delivery    int32
	worker      string
	incarnation uint64
	givenUp     bool
}

func (t tally) String() string {
	return fmt.Sprintf("%d attempts, %d deliveries, %d unanswered, %d inconclusive", t.attempts, t.deliveries, t.unanswered, t.inconclusive)
}

// clone is the run as its rows have it.
func (r *run) clone() *run {
	c := *r
	c.used, c.joined = maps.Clone(r.used), maps.Clone(r.joined)
	c.builds, c.unfolded = slices.Clone(r.builds), slices.Clone(r.unfolded)
	c.ops = make(map[string]*op, len(r.ops))
	for name, o := range r.ops {
		x := *o
		x.tally.tries, x.forward.tries = slices.Clone(o.tally.tries), slices.Clone(o.forward.tries)
		x.lostAt, x.losses, x.resent = 0, 0, false
		c.ops[name] = &x
	}
	c.comps = nil
	for _, x := range r.comps {
		y := *x
		y.failed = slices.Clone(x.failed)
		c.comps = append(c.comps, &y)
	}
	c.inMemory, c.excluded, c.holder, c.waiters, c.followers = false, nil, holder{}, nil, nil
	return &c
}

// tells says that rows as of r tell all of x: only a position may be lost.
func (r *run) tells(x *run) bool {
	same := r.events == x.events && r.hold == x.hold && r.undo == x.undo && r.open == x.open &&
		len(r.joined) == len(x.joined) && len(r.used) == len(x.used) && len(r.comps) == len(x.comps) && len(r.ops) == len(x.ops)
	for name, o := range x.ops {
		p := r.ops[name]
		same = same && p != nil && p.phase == o.phase && p.delivery == o.delivery && p.attempt == o.attempt && p.comp == o.comp &&
			p.cancelled == o.cancelled && p.outcome == o.outcome && p.known == o.known && (p.undo == nil) == (o.undo == nil) &&
			slices.Equal(p.tally.tries, o.tally.tries) && slices.Equal(p.forward.tries, o.forward.tries)
	}
	return same
}

// inOrder are the operations as they were scheduled.
func (r *run) inOrder() []*op {
	return slices.SortedFunc(maps.Values(r.ops), func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.name, b.name))
	})
}

func (r *run) decided() bool { return r.closing != 0 }

// held says that no forward work of the run is given to a worker.
func (r *run) held() bool { return r.hold == pb.HoldKind_HOLD_KIND_QUARANTINED }

func (o *op) undoing() bool { return o.phase >= pb.Phase_PHASE_UNDO_QUEUED }
func (o *op) waits() bool {
	return o.phase == pb.Phase_PHASE_WAITING || o.phase == pb.Phase_PHASE_UNDO_WAITING
}
func (o *op) started() bool {
	return o.phase == pb.Phase_PHASE_STARTED || o.phase == pb.Phase_PHASE_UNDO_STARTED
}
func (o *op) finished() bool {
	return o.phase == pb.Phase_PHASE_UNDO_FAILED || o.phase == pb.Phase_PHASE_UNDONE
}

// alone is an undo that runs beside everything: its step was done after all, when
// the compensation was over. listens is the time before.
func (o *op) alone() bool   { return !o.timer && o.undoing() && !o.finished() && !o.comp }
func (o *op) listens() bool { return o.phase == pb.Phase_PHASE_UNDONE && !o.comp }

func (o *op) role() pb.Role {
	if o.undoing() {
		return pb.Role_ROLE_UNDO
	}
	return pb.Role_ROLE_FORWARD
}

// bounds are the limits of the side under way, and since when they count.
func (o *op) bounds() (limits, int64) {
	if o.undoing() {
		return o.undo.limits, o.undoSince
	}
	return o.limits, o.since
}

// last says that the policy allows no attempt after this one.
func (o *op) last() bool {
	n := o.attempts
	if o.undoing() {
		n = o.undo.attempts
	}
	return n > 0 && o.attempt >= n
}

// tooLong is when a started attempt has run too long, tooLate when it has waited too
// long for a slot.
func (o *op) tooLong() (int64, pb.Limit) {
	l, since := o.bounds()
	if since+l.all < o.begun+l.run {
		return since + l.all, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE
	}
	return o.begun + l.run, pb.Limit_LIMIT_START_TO_CLOSE
}

func (o *op) tooLate() (int64, pb.Limit) {
	l, since := o.bounds()
	if l.wait > 0 && o.delivery == 0 && l.wait < l.all {
		return since + l.wait, pb.Limit_LIMIT_SCHEDULE_TO_START
	}
	return since + l.all, pb.Limit_LIMIT_SCHEDULE_TO_CLOSE
}

// deadline is when something happens to the operation by itself; 0 is never.
func (o *op) deadline() int64 {
	switch {
	case o.timer:
		return o.due
	case o.started():
		at, _ := o.tooLong()
		if o.lostAt > 0 {
			return min(at, o.lostAt)
		}
		return at
	case o.waits():
		at, _ := o.tooLate()
		return at
	case o.phase == pb.Phase_PHASE_BACKOFF || o.phase == pb.Phase_PHASE_UNDO_BACKOFF:
		return o.next
	case o.listens():
		return o.settleBy
	}
	return 0
}

func newModel() *model {
	return &model{
		runs: map[store.RunNo]*run{}, waiting: map[store.Key][]machine.Input{},
		putOff: map[store.RunNo][]machine.Input{}, touched: map[store.RunNo]bool{}, refused: map[store.RunNo]bool{},
	}
}

func (m *model) say(r *run, format string, args ...any) {
	m.said = append(m.said, fmt.Sprintf("run %d: ", r.no)+fmt.Sprintf(format, args...))
	m.touched[r.no] = true
}

func (m *model) now1(format string, args ...any) {
	m.said = append(m.said, "at once: "+fmt.Sprintf(format, args...))
}

// note appends an event that no code folds; record one that it does, while there is
// code.
func (m *model) note(r *run, format string, args ...any) int64 {
	r.events++
	r.lastTime = max(r.lastTime, m.now)
	m.say(r, "event %d: %s", r.events, fmt.Sprintf(format, args...))
	return r.events
}

func (m *model) record(r *run, format string, args ...any) int64 {
	id := m.note(r, format, args...)
	if !r.decided() {
		r.unfolded = append(r.unfolded, id)
	}
	return id
}

// find is the run of that ULID, or the newest of the id.
func (m *model) find(ref *pb.RunRef) *run {
	var found *run
	for _, r := range m.runs {
		if r.id == ref.WorkflowId && (ref.RunId == "" || r.ulid == ref.RunId) && (found == nil || found.no < r.no) {
			found = r
		}
	}
	return found
}

// startedBy is the run of the id that the request has started, usedBy the one that it
// has cancelled or terminated, joinedBy the one that was there already for a start.
func (m *model) startedBy(id, request string) *run {
	return m.of(id, func(r *run) bool { return r.request == request })
}

func (m *model) usedBy(id, request string) *run {
	return m.of(id, func(r *run) bool { return r.used[request] })
}

func (m *model) joinedBy(id, request string) *run {
	return m.of(id, func(r *run) bool { return r.joined[request] })
}

func (m *model) of(id string, is func(*run) bool) *run {
	for _, r := range m.runs {
		if r.id == id && is(r) {
			return r
		}
	}
	return nil
}
