package machine

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// The run that has the number of one whose insert was refused has done nothing: it
// is not held, whether it is in memory or not.
func TestARefusedInsertHoldsNobodyElse(t *testing.T) {
	for _, read := range []string{"evict a", "describe a"} {
		t.Run(read, func(t *testing.T) {
			r := begun(t)
			r.script("decide a: timer #1 1h", "save", "evict a")
			if r.s.ids[ID{"default", "a"}] != nil {
				t.Fatal("a is in memory")
			}
			r.s.nextRun-- // as after a restore
			no := store.MakeRunNo(0, r.s.nextRun)
			r.script("start b")
			b := r.run("b")
			if b.Row.Run != no {
				t.Fatalf("b is run %d", b.Row.Run)
			}
			r.unsaved = nil
			r.step(&Refused{Run: no, Of: b, Reason: "the number is taken"})
			r.script(read)
			r.step(&Refused{Run: no, Of: b, Reason: "the number is taken"})
			r.script("describe a", "save", "describe b")
			if got := r.story.String(); !strings.Contains(got, "answer to describe a: running (undo: none), held none") ||
				!strings.Contains(got, "no run has the workflow id b") {
				t.Error(got)
			}
			r.script("pass 1h", "save")
			if r.last("a").GetTimerFired() == nil {
				t.Error("the timer of a has not fired")
			}
		})
	}
}

// Between the refusal of a write and the word of it, the run may be stepped again,
// and that is refused too: the hold is written all the same.
func TestARunThatWasSteppedAfterItsRefusedWriteIsHeldInTheDatabase(t *testing.T) {
	for _, slow := range []bool{false, true} {
		r := begun(t)
		r.script("decide a: activity #1 Charge", "save", "done a #1 ok")
		a := r.run("a")
		r.unsaved, r.slow = nil, slow
		r.step(&Refused{Run: a.Row.Run, Of: a, Reason: "the row is bad"})
		r.step(&Refused{Run: a.Row.Run, Of: a, Reason: "the row is bad"})
		r.slow = false
		for _, read := range r.reads {
			r.step(read())
		}
		r.reads = nil
		r.script("save")
		var state pb.RunState
		if err := proto.Unmarshal(r.db[a.Row.Run].row.State, &state); err != nil {
			t.Fatal(err)
		}
		if state.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED {
			t.Errorf("slow %v: in the database it is held as %v", slow, state.Hold)
		}
	}
}
