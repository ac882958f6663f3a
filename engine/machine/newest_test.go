package machine

import (
	"strings"
	"testing"

	pb "github.com/engined/engined/proto/enginepb"
)

// A start that was given a run which was there is remembered by a row.
func TestAStartThatWasGivenARunIsRememberedOverALoad(t *testing.T) {
	r := begun(t)
	r.script("start a request=other conflict=use", "save", "crash")
	r.story.Reset()
	r.script("start a request=other", "save")
	if got := r.story.String(); !strings.Contains(got, "answer to start a: started false") {
		t.Error(got)
	}
}

// Who asks by the id asks for the newest run, also when an older one alone is in
// memory: a worker's late word has brought it there.
func TestTheNewestRunIsNotTakenForAnOlderOne(t *testing.T) {
	for _, ask := range []string{"describe a", "await a", "follow a after=2"} {
		r := begun(t)
		old := r.run("a").Row.Run
		r.script("terminate a", "start a request=again", "save", "decide a: timer #1 1h", "save", "evict a")
		r.step(&Woken{Run: old})
		if len(r.s.runs) != 1 || r.s.runs[old] == nil {
			t.Fatal("void: the old run is not alone in memory")
		}
		r.story.Reset()
		r.script(ask, "save")
		if got := r.story.String(); strings.Contains(got, "terminated") || strings.Contains(got, "open false") {
			t.Errorf("%s: %s", ask, got)
		}
	}
}

// A read that was under way when a write of the run was refused may have found less
// than there is.
func TestAReadOlderThanARefusalIsReadAgain(t *testing.T) {
	r := newRig(t)
	r.script("worker w1")
	load := r.s.Step(r.now, &Describe{Ref: &pb.RunRef{Namespace: "default", WorkflowId: "a"}, To: "late"}).Loads[0]
	old := r.find(load.Key)
	r.script("start a", "save", "decide a: timer #1 1h")
	r.slow = true // it is not read again before
	r.script("refuse a")
	out := r.s.Step(r.now, &RowsRead{Load: load, Answer: old})
	if len(out.Loads) != 1 || len(out.Replies) > 0 {
		t.Errorf("an old read was taken: %d loads, %d replies", len(out.Loads), len(out.Replies))
	}
}
