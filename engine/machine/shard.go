package machine

import (
	"fmt"
	"math/rand/v2"

	"github.com/engined/engined/engine/store"
)

// Config is what a shard is made of.
type Config struct {
	Lease store.Lease
	// Incarnation is drawn at random for each load of the shard.
	Incarnation uint64
	// Seed feeds the jitter of retries.
	Seed uint64
	Desk Desk
	// Grace is how long a worker that is gone may take to come back before
	// its activities count as lost.
	Grace int64
	// RestartGrace is the same for workers that were here before the shard was
	// loaded: all of them must find the way back first. 0 is Grace.
	RestartGrace int64
	// Orphans: the workers of deliveries that were started before this load
	// cannot come back.
	Orphans bool
}

// Shard is the state of one shard. It is not safe for concurrent use.
type Shard struct {
	cfg     Config
	rand    *rand.Rand
	nextRun int64
	runs    map[store.RunNo]*Run
	// ids holds, for each workflow id of which a run is in memory, the newest;
	// Run.older leads to those before.
	ids   map[ID]*Run
	loads loads
	// refusals counts how often the database would not write a run, by its ULID.
	refusals map[string]int
	// epoch counts the assignments of all runs: a stamp is never given twice,
	// also not to a run that left memory and came back.
	epoch int64
	// deaths are those of workers that may still come back; quarantined are the runs that
	// were held for deaths since the shard was loaded.
	deaths      []death
	suspicions  int64
	quarantined map[store.RunNo]bool

	now  int64
	tick int64
	out  Output
}

// NewShard returns a shard with nothing in memory; runs are read as inputs ask
// for them.
func NewShard(cfg Config) *Shard {
	return &Shard{
		cfg:      cfg,
		rand:     rand.New(rand.NewPCG(cfg.Seed, cfg.Incarnation)),
		nextRun:  cfg.Lease.NextRun,
		runs:     map[store.RunNo]*Run{},
		ids:      map[ID]*Run{},
		loads:    newLoads(),
		refusals: map[string]int{}, quarantined: map[store.RunNo]bool{},
	}
}

// Incarnation returns the number of this load of the shard.
func (s *Shard) Incarnation() uint64 { return s.cfg.Incarnation }

// Lease returns the lease that the shard writes under.
func (s *Shard) Lease() store.Lease { return s.cfg.Lease }

// Step takes one input at engine time now. The output is valid until the next
// Step.
func (s *Shard) Step(now int64, in Input) *Output {
	s.now = now
	s.tick++
	s.out.reset()
	switch in := in.(type) {
	case *Start:
		s.start(in)
	case *Decided:
		s.decidedBy(in)
	case *Done:
		s.done(in)
	case *held:
		s.stillHeld(in)
	case *Woken:
		s.woken(in)
	case *Await:
		s.await(in)
	case *Follow:
		s.follow(in)
	case *Abandon:
		s.abandon(in)
	case *Cancel:
		s.cancel(in)
	case *Terminate:
		s.terminate(in)
	case *Describe:
		s.describe(in)
	case *Fault:
		s.fault(in)
	case *RunOffered:
		s.runOffered(in)
	case *SlotOffered:
		s.slotOffered(in)
	case *WorkerGone:
		s.workerGone(in)
	case *WorkerBack:
		s.workerBack(in)
	case *RowsRead:
		s.rowsRead(in)
	case *HistoryRead:
		s.historyRead(in)
	case *Refused:
		s.refused(in)
	default:
		panic(fmt.Sprintf("machine: input %T has no rule", in))
	}
	s.tellFollowers()
	return &s.out
}

// touch returns the run in memory and marks it as used, or nil.
func (s *Shard) touch(no store.RunNo) *Run {
	r := s.runs[no]
	if r != nil {
		r.used = s.tick
	}
	return r
}

// Need describes what a run or an activity wants of a worker.
type Need struct {
	Namespace string
	Queue     string
	Type      string
	// Prefer names the worker that should get it if it can.
	Prefer string
	// Suspect: workers died with it. It gets one that has no other suspect.
	Suspect bool
}

// anyone stands for whichever worker has a delivery, or none.
const anyone = ""

// Desk knows the workers. Its calls never block and are answered at once; what
// it cannot give now it offers later, by RunOffered and SlotOffered.
type Desk interface {
	// Assign finds a worker for a run's code, not of a build in excluded; or
	// lets the run wait for one.
	Assign(run store.RunNo, n Need, excluded []string) (worker string, ok bool)
	// Unassign ends the assignment or the wait.
	Unassign(run store.RunNo)
	// Slot takes a slot for a delivery, or lets it wait for one.
	Slot(d DeliveryKey, n Need) (worker string, ok bool)
	// Hold takes a slot for a delivery that the worker has already; false if
	// the worker is not here.
	Hold(d DeliveryKey, worker string, suspect bool) bool
	// Free ends a delivery's slot if the worker has it, or, for anyone, its slot
	// or its wait.
	Free(d DeliveryKey, worker string)
	// Leave ends all that a run has: its assignment, its slots, its waits.
	Leave(run store.RunNo)
	// Unfolded counts the bytes of inputs of a run that its worker has not
	// answered yet: more of them, or (negative) fewer, and then the run is no
	// suspect any more.
	Unfolded(run store.RunNo, worker string, bytes int64)
}
