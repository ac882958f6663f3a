package engine

import (
	"sync/atomic"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// CommitBuckets are the upper bounds of the histogram of commits.
var CommitBuckets = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second,
}

// Stats are what an operator watches. Counts are since the engine was opened; those
// of runs and commits are of what is durable.
type Stats struct {
	RunsStarted int64
	// RunsClosed counts decided outcomes by status.
	RunsClosed map[pb.Status]int64

	Commits int64
	// Rows counts runs written: a row of each, with its events and operations.
	Rows int64
	// CommitTime sums up; CommitCounts[i] is how many took at most
	// CommitBuckets[i] and more than the bound before; the last, all longer ones.
	CommitTime   time.Duration
	CommitCounts [len(CommitBuckets) + 1]int64
	// Failures of commits by how they ended.
	Refused, LeasesLost, Unavailable, Unknown int64

	// Tasks handed to workers, a repeated hand-over of one delivery included.
	Tasks int64
	// Outcomes of attempts, as they were settled: answered, lost, or out of time.
	Outcomes map[pb.Outcome]int64
	// Unreadable counts reads of runs that failed, as of rows that are damaged.
	Unreadable int64
	// WorkersLost counts streams that broke or fell silent.
	WorkersLost int64

	// At present:
	Workers, Slots, SlotsUsed int
	// WaitingRuns wait for a worker, WaitingTasks for a slot.
	WaitingRuns, WaitingTasks int
	// Held runs by kind, and runs whose compensation has failed: those that were in
	// memory since the engine was opened.
	Held       map[pb.HoldKind]int
	UndoFailed int
	// Resident runs are in memory; Mailbox counts inputs that wait for a shard.
	Resident, Mailbox int
}

// counters are the counting half of Stats.
type counters struct {
	started, commits, rows, commitTime       atomic.Int64
	refused, leaseLost, unavailable, unknown atomic.Int64
	tasks, lost, unreadable                  atomic.Int64
	closed                                   [16]atomic.Int64 // by status
	outcomes                                 [32]atomic.Int64 // by outcome
	took                                     [len(CommitBuckets) + 1]atomic.Int64
}

func (c *counters) commit(writes int, took time.Duration) {
	c.commits.Add(1)
	c.rows.Add(int64(writes))
	c.commitTime.Add(int64(took))
	i := 0
	for i < len(CommitBuckets) && took > CommitBuckets[i] {
		i++
	}
	c.took[i].Add(1)
}

func (c *counters) outcome(o pb.Outcome) {
	if o >= 0 && int(o) < len(c.outcomes) {
		c.outcomes[o].Add(1)
	}
}

// tally is what a write of a run adds to the counters when it is durable.
type tally struct {
	started bool
	closed  pb.Status
}

func (t *tally) add(events []*pb.Event) {
	for _, e := range events {
		switch {
		case e.GetWorkflowStarted() != nil:
			t.started = true
		case history.Closes(e):
			t.closed = history.ClosingStatus(e)
		}
	}
}

func (c *counters) durable(t tally) {
	if t.started {
		c.started.Add(1)
	}
	if t.closed > 0 && int(t.closed) < len(c.closed) {
		c.closed[t.closed].Add(1)
	}
}

// Stats reads the counters and looks at what there is now.
func (e *Engine) Stats() Stats {
	c := &e.counters
	s := Stats{
		RunsStarted: c.started.Load(), RunsClosed: map[pb.Status]int64{},
		Commits: c.commits.Load(), Rows: c.rows.Load(), CommitTime: time.Duration(c.commitTime.Load()),
		Refused: c.refused.Load(), LeasesLost: c.leaseLost.Load(), Unavailable: c.unavailable.Load(), Unknown: c.unknown.Load(),
		Tasks: c.tasks.Load(), Outcomes: map[pb.Outcome]int64{}, Held: map[pb.HoldKind]int{}, WorkersLost: c.lost.Load(), Unreadable: c.unreadable.Load(),
	}
	for i := range c.closed {
		if n := c.closed[i].Load(); n > 0 {
			s.RunsClosed[pb.Status(i)] = n
		}
	}
	for i := range c.outcomes {
		if n := c.outcomes[i].Load(); n > 0 {
			s.Outcomes[pb.Outcome(i)] = n
		}
	}
	for i := range c.took {
		s.CommitCounts[i] = c.took[i].Load()
	}
	l := e.desk.load()
	s.Workers, s.Slots, s.SlotsUsed, s.WaitingRuns, s.WaitingTasks = l.Workers, l.Slots, l.Used, l.WaitingRuns, l.WaitingSlots
	for _, sh := range e.shards {
		sh.count(&s)
		s.Mailbox += sh.box.len()
	}
	return s
}
