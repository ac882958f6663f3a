package machine

import (
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// Output is what a step asks of its driver.
type Output struct {
	// Changes are in the order in which they must reach the database.
	Changes []*Change
	Sends   []Send
	Loads   []Load
	Wakes   []Wake
	// Outcomes are those of the attempts that were settled, for who counts them.
	Outcomes []pb.Outcome
	// Acks and Replies rest on nothing of the shard's that is not durable.
	Acks    []Ack
	Replies []Reply
	// Exhausted: the run numbers of the lease are nearly all given. The shard must be
	// fenced and loaded again, or soon no run is started any more.
	Exhausted bool
}

func (o *Output) reset() {
	clear(o.Changes)
	clear(o.Sends)
	clear(o.Loads)
	clear(o.Replies)
	o.Acks, o.Outcomes = o.Acks[:0], o.Outcomes[:0]
	o.Changes, o.Sends, o.Loads = o.Changes[:0], o.Sends[:0], o.Loads[:0]
	o.Wakes, o.Replies = o.Wakes[:0], o.Replies[:0]
	o.Exhausted = false
}

// Change is what a step makes of one run's rows.
type Change struct {
	Run    *Run
	Insert bool
	// Touched: the run's row is to be written. Without it the change only
	// carries effects, or a new position that a write under way may take along.
	Touched bool
	Events  []*pb.Event
	// Put and Del are entries; each is in one of them at most.
	Put   []*Entry
	Del   []*Entry
	Dedup []store.DedupRow
	// After is released when the change, and all before it of the run, is durable.
	After []Effect
	// Acks are worker messages that are dealt with when this is durable. They
	// do not hurry the write.
	Acks []Ack
}

// Effect waits for durability.
type Effect interface{ effect() }

// Dispatch sends a task.
type Dispatch struct {
	Worker string
	Task   *pb.Task
	// First: the delivery has never been sent before.
	First bool
}

// CancelTask tells a worker to cancel an activity.
type CancelTask struct {
	Worker string
	Cancel *pb.CancelTask
}

// Reply answers a caller: with Value, or with Err.
type Reply struct {
	To    Caller
	Value any
	Err   error
	// Joined: the caller asked for a start, and got a run that was there already.
	Joined bool
}

// ReadHistory asks for the run's events 1..Upto, answered by HistoryRead.
type ReadHistory struct {
	Run   store.RunNo
	Stamp Stamp
	Upto  int64
}

func (Dispatch) effect()    {}
func (CancelTask) effect()  {}
func (Reply) effect()       {}
func (ReadHistory) effect() {}

// Ack says that a worker's message is dealt with.
type Ack struct {
	Worker string
	// Stream is that of the message: another of the same worker counts anew.
	Stream int64
	Seq    int64
}

// Send goes to a worker at once; one field is set.
type Send struct {
	Worker string
	Assign *pb.Assign
	Input  *pb.Input
	Drop   *pb.Drop
}

// Load asks for rows, answered by RowsRead.
type Load struct {
	Key    store.Key
	ticket int64
}

// Wake asks for a Woken at or after At (engine time in ns).
type Wake struct {
	At  int64
	Run store.RunNo
	Op  string
	// Stored: the row tells of it too, so that it may be forgotten until it is
	// due soon.
	Stored bool
}

// Settled answers an Await of a run whose outcome was decided before it came into
// memory: its result stands in event State.ClosingEvent.
type Settled struct {
	Row   store.RunRow
	State *pb.RunState
}

// change returns the run's change in this step.
func (s *Shard) change(r *Run) *Change {
	// A step of a whole shard changes thousands of runs: each knows its own.
	if i := r.changed; i < len(s.out.Changes) && s.out.Changes[i].Run == r {
		return s.out.Changes[i]
	}
	c := &Change{Run: r}
	r.changed = len(s.out.Changes)
	s.out.Changes = append(s.out.Changes, c)
	return c
}

func (s *Shard) after(r *Run, e Effect) {
	c := s.change(r)
	c.After = append(c.After, e)
}

// put marks the entry to be written, and asks for its next wake-up.
func (s *Shard) put(r *Run, e *Entry) {
	c := s.change(r)
	c.Touched = true
	if !c.puts(e) {
		e.placed = len(c.Put)
		c.Put = append(c.Put, e)
	}
	r.track(e)
	s.wake(r, e)
}

// wake asks for the entry's next wake-up, if it has one.
func (s *Shard) wake(r *Run, e *Entry) {
	if at := e.nextWake(); at > 0 {
		s.out.Wakes = append(s.out.Wakes, Wake{At: at, Run: r.Row.Run, Op: e.Op, Stored: at == e.Wake()})
	}
}

// drop removes the entry. The driver knows whether its row was ever written.
func (s *Shard) drop(r *Run, e *Entry) {
	delete(r.Entries, e.Op)
	c := s.change(r)
	c.Touched = true
	if c.puts(e) {
		last := len(c.Put) - 1
		c.Put[e.placed] = c.Put[last]
		c.Put[e.placed].placed = e.placed
		c.Put = c.Put[:last]
	}
	c.Del = append(c.Del, e)
	r.track(e)
}

// puts says that the entry is to be written. A step may put thousands: each knows
// its place.
func (c *Change) puts(e *Entry) bool { return e.placed < len(c.Put) && c.Put[e.placed] == e }

func (s *Shard) reply(r *Run, to Caller, v any) {
	if to != nil {
		s.after(r, Reply{To: to, Value: v})
	}
}

func (s *Shard) fail(to Caller, err error) {
	if to != nil {
		s.out.Replies = append(s.out.Replies, Reply{To: to, Err: err})
	}
}

func (s *Shard) send(m Send) { s.out.Sends = append(s.out.Sends, m) }
