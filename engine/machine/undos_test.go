package machine

import (
	"fmt"
	"runtime"
	"testing"

	pb "github.com/engined/engined/proto/enginepb"
)

// An undo looks at none of the others: what a step allocates does not grow with
// what is compensated.
func TestAnUndoCostsTheSameAmongFewAndMany(t *testing.T) {
	few, many := undoBytes(t, 50), undoBytes(t, 2000)
	if many > few+few/2+256 {
		t.Errorf("an undo allocates %d bytes among 50, and %d among 2000", few, many)
	}
}

// undoBytes is what a step allocates that takes the success of an undo, in a run
// that undoes n steps, one after the other.
func undoBytes(t *testing.T, n int) uint64 {
	r := chained(t, n)
	r.script("decide a: fail")
	const steps = 20
	var before, after runtime.MemStats
	total := uint64(0)
	for i := n; i > n-steps; i-- {
		in := r.undoDone(fmt.Sprint("#", i))
		runtime.ReadMemStats(&before)
		out := r.s.Step(r.now, in)
		runtime.ReadMemStats(&after)
		total += after.TotalAlloc - before.TotalAlloc
		r.apply(out)
	}
	if c := r.run("a").State.Compensations[0]; c.Undone != steps {
		t.Fatalf("%d of %d are undone", c.Undone, steps)
	}
	return total / steps
}

// chained is a rig with a run "a" that has done n steps, one after the other.
func chained(t *testing.T, n int) *rig {
	r := begun(t)
	for i := 1; i <= n; i++ {
		op := fmt.Sprint("#", i)
		r.script("decide a: activity " + op + " Charge undo=Refund")
		r.step(r.stepDone(op))
		r.unsaved = nil
		r.story.Reset()
	}
	return r
}

func (r *rig) stepDone(op string) *Done {
	run := r.run("a")
	e := run.Entries[op]
	return &Done{Origin: r.origin(e.activity().Worker), Done: &pb.Done{Delivery: delivery(run, e), Outcome: pb.Outcome_OUTCOME_COMPLETED}}
}

func (r *rig) undoDone(op string) *Done {
	if p := r.run("a").Entries[op].activity().Phase; p != pb.Phase_PHASE_UNDO_STARTED {
		r.t.Fatalf("the undo of %s is %s", op, phaseText(p))
	}
	return r.stepDone(op)
}

func BenchmarkUndo(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint("among=", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				r := chained(&testing.T{}, n)
				r.script("decide a: fail")
				for i := n; i > n-50; i-- {
					in := r.undoDone(fmt.Sprint("#", i))
					b.StartTimer()
					out := r.s.Step(r.now, in)
					b.StopTimer()
					r.apply(out)
				}
			}
		})
	}
}
