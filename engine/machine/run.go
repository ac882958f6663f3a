package machine

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Run is one run in memory: its rows, and who holds it.
type Run struct {
	// Row holds the searchable part. The driver fills Version, Pending and
	// State when it writes.
	Row     store.RunRow
	State   *pb.RunState
	Entries map[string]*Entry
	// Driver is the driver's own.
	Driver any

	// holder is who folds the run.
	holder holder
	// behind counts the inputs that code has not answered. Of a run that was read
	// it is known when its history is; until then it is 1 for any number.
	behind int64
	// fresh is the only event of a run that was just started: its history
	// needs no reading.
	fresh *pb.Event
	// closing is the event that decided the outcome, while in memory.
	closing   *pb.Event
	waiters   []waiter
	followers []follower
	// fold is what speaks against the run's code, accused the parts of the run that
	// State.Deaths speak against, where that is known.
	fold    suspicion
	accused []*suspicion
	// quarantined: it is held for these deaths.
	quarantined bool
	// excluded are the builds that could not go on with the run.
	excluded []string
	// older is the run that had the id before, while in memory: until it is
	// durable no read tells of it.
	older *Run
	// newest: it is known that the id has no run which is newer and not in memory.
	newest bool
	// requests are those that cancelled or terminated the run, and starts are those
	// that found it there and took it, for the same reason: their dedup rows may
	// not be durable.
	requests []string
	starts   []string
	// refused: the database would not write it, and it was thrown away.
	refused bool
	undos   undos
	// changed is where its change stands in the output of the step, if it has one.
	changed int
	// used orders the runs for eviction.
	used int64
}

// holder is one assignment of a run to a worker. Its zero value: nobody.
type holder struct {
	phase  holderPhase
	worker string
	epoch  int64
	// backlog waits for the history that is being read.
	backlog []*pb.Event
	// unfolded are the inputs that the worker has and has not answered.
	unfolded []unfolded
	// reserved are the bytes of the history that is being read for it.
	reserved int64
}

type holderPhase uint8

const (
	holderNone    holderPhase = iota
	holderWaiting             // for a worker
	holderReading             // the history, for the worker
	holderReady               // inputs are pushed as they come
)

type unfolded struct{ id, bytes int64 }

// Entry is an open operation of a run: one pending row.
type Entry struct {
	Op string
	P  *pb.Pending
	// Stored is the driver's: a row of it is, or is being, written by a write
	// before the one that is open now.
	Stored bool
	// lostAt is when the worker that is gone will have lost the delivery; 0
	// while it is there.
	lostAt int64
	// resent: the task of the delivery was sent more than once, or may have been.
	resent bool
	// losses counts the deliveries in a row that were lost with their workers,
	// suspicion the deaths of workers.
	losses    int
	suspicion suspicion
	// placed is where it stands among the entries that the step puts, if it does.
	placed  int
	tracked tracked
}

func (e *Entry) activity() *pb.PendingActivity { return e.P.GetActivity() }

// Wake is the time by which the row must be in memory; 0 is always.
func (e *Entry) Wake() int64 {
	switch b := e.P.Body.(type) {
	case *pb.Pending_Timer:
		return b.Timer.Due
	case *pb.Pending_Grace:
		return b.Grace.Due
	case *pb.Pending_Activity:
		switch b.Activity.Phase {
		case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
			return b.Activity.NextTime
		case pb.Phase_PHASE_ARMED, pb.Phase_PHASE_UNDO_FAILED, pb.Phase_PHASE_UNDO_QUEUED:
			return never
		case pb.Phase_PHASE_UNDONE:
			if listens(b.Activity) {
				return b.Activity.SettleBy
			}
			return never
		}
	}
	return 0
}

// never is a time that does not come.
const never = int64(^uint64(0) >> 1)

// nextWake is when the entry next wants a Woken, 0 if never.
func (e *Entry) nextWake() int64 {
	a := e.activity()
	if a == nil {
		return e.Wake()
	}
	at := never
	switch a.Phase {
	case pb.Phase_PHASE_BACKOFF, pb.Phase_PHASE_UNDO_BACKOFF:
		at = a.NextTime
	case pb.Phase_PHASE_WAITING, pb.Phase_PHASE_UNDO_WAITING:
		at, _ = waitLimit(a)
	case pb.Phase_PHASE_STARTED, pb.Phase_PHASE_UNDO_STARTED:
		at, _ = runLimit(a)
		if e.lostAt > 0 {
			at = min(at, e.lostAt)
		}
	case pb.Phase_PHASE_UNDONE:
		at = e.Wake()
	}
	if at == never {
		return 0
	}
	return at
}

// entries returns the run's entries in a fixed order: as they were scheduled.
func (r *Run) entries() []*Entry {
	return slices.SortedFunc(maps.Values(r.Entries), inOrder)
}

// inOrder compares entries by when they were scheduled.
func inOrder(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.scheduled(), b.scheduled()), cmp.Compare(a.Op, b.Op))
}

func (e *Entry) scheduled() int64 {
	if a := e.activity(); a != nil {
		return a.ScheduledEvent
	}
	return e.P.GetTimer().GetStartedEvent()
}

// ID names a workflow: at most one open run has it.
type ID struct{ Namespace, WorkflowID string }

func (r *Run) id() ID { return ID{r.Row.Namespace, r.Row.WorkflowID} }

// decided says that the outcome is known and no code is folded any more.
func (r *Run) decided() bool { return r.State.ClosingEvent != 0 }

// record appends an input to the history and pushes it to the run's code.
func (s *Shard) record(r *Run, e *pb.Event) *pb.Event {
	s.append(r, e)
	r.State.LastInput = e.Id
	if !r.decided() {
		r.behind++
		s.push(r, e)
	}
	return e
}

// note appends an engine's fact that no code will fold.
func (s *Shard) note(r *Run, e *pb.Event) *pb.Event {
	s.append(r, e)
	return e
}

func (s *Shard) append(r *Run, e *pb.Event) {
	e.Id = r.Row.NextEvent
	r.Row.NextEvent++
	// A run's time never goes back, also where the clock did.
	e.Time = max(s.now, r.State.LastTime)
	r.State.LastTime = e.Time
	r.State.HistoryBytes += int64(proto.Size(e))
	c := s.change(r)
	c.Touched = true
	c.Events = append(c.Events, e)
	if history.Closes(e) {
		r.closing = e
	}
}

// Attention says that the run has inputs which wait for code, told by no
// pending row.
func (r *Run) Attention() bool {
	return !r.decided() && r.State.LastInput != r.State.Processed
}
