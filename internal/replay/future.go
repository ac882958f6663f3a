package replay

import pb "github.com/engined/engined/proto/enginepb"

type opKind uint8

const (
	activityOp opKind = iota + 1
	timerOp
	compensationOp
	refusedOp // never asked for: it failed before
)

// Future is an operation and what became of it.
type Future struct {
	run  *Run
	op   string
	kind opKind
	// keep: a cancel does not end the wait, the fact does.
	keep bool
	// armed: it has an undo.
	armed bool
	// at is the decision's place among those of the input `cause`.
	at    int
	cause int64

	done    bool
	fact    *pb.Event
	err     error
	waiters list[*Coroutine]
	inScope link[*Future]
}

// Op is the name of the operation, "2.1#3".
func (f *Future) Op() string { return f.op }

// Done says whether the operation has ended.
func (f *Future) Done() bool { return f.done }

// Outcome returns the terminal fact of an operation that is done, or the error
// (*Canceled, *Misuse) by which it ended without one.
func (f *Future) Outcome() (*pb.Event, error) { return f.fact, f.err }

// open adds an operation whose decision has just been made.
func (r *Run) open(f *Future, s *Scope) {
	f.run, f.cause = r, r.cause
	r.ops[f.op] = f
	if s != nil {
		s.ops.push(&f.inScope, f)
	}
}

// resolve ends an operation and wakes those who wait for it, in the order in
// which they wait.
func (r *Run) resolve(f *Future, fact *pb.Event, err error) {
	delete(r.ops, f.op)
	f.inScope.unlink()
	f.done, f.fact, f.err = true, fact, err
	for f.waiters.first != nil {
		r.wake(f.waiters.first.of)
	}
}

// ended is an operation that ended before it was asked for.
func (r *Run) ended(op string, err error) *Future {
	return &Future{run: r, op: op, kind: refusedOp, done: true, err: err}
}

// cancelOp asks the engine to end an operation. What was asked for by this very
// fold has reached nobody: it is taken back, and its number stays used.
func (r *Run) cancelOp(f *Future, why *Canceled, source string) {
	f.inScope.unlink()
	switch {
	case f.done:
		return
	case f.cause == r.cause:
		r.withdraw(f.at)
		r.disarm(f)
	case f.kind == timerOp:
		r.decide(&pb.Event{Body: &pb.Event_TimerCancelled{TimerCancelled: &pb.TimerCancelled{Op: f.op, Source: source}}})
	default:
		r.decide(&pb.Event{Body: &pb.Event_ActivityCancelRequested{ActivityCancelRequested: &pb.ActivityCancelRequested{
			Op: f.op, Cause: why.Reason, Source: source,
		}}})
		if f.keep {
			return
		}
	}
	r.resolve(f, nil, why)
}
