package property

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
)

var (
	budget = flag.Duration("budget", 0, "how long to go on with new seeds; 0 is the short form")
	seed   = flag.Uint64("seed", 1, "the seed of the first round; 0 is from the clock")
	rounds = flag.Int("sequences", sequences, "how many sequences a round has")
)

// counts are how often each kind of thing happened, events what came of them.
var counts, events = map[string]int{}, map[string]int{}

// wanted are the things without which a round says nothing.
var wanted = strings.Fields(`Start Cancel Terminate Await Follow Abandon Describe Decided Done Fault RunOffered SlotOffered
	WorkerGone WorkerBack Woken RowsRead HistoryRead Refused commit load evict tick
	ActivityCancelled ActivityCompleted ActivityFailed ActivityTimedOut TimerFired LateAnswer UndoCompleted UndoFailed
	CompensationEnded SagaCommitted SagaCompensate WorkflowCancelled WorkflowCompleted WorkflowFailed WorkflowTerminated`)

// sequence is one story: whatever is drawn, the core does what the model says.
func sequence(t *rapid.T) {
	w := newWorld()
	w.do(drawn{"start", 0, 0, 0, 0})
	t.Repeat(map[string]func(*rapid.T){"happens": func(t *rapid.T) {
		w.do(steps.Draw(t, "step"))
		w.judge(t)
	}})
	w.calm()
	w.judge(t)
}

func (w *world) judge(t *rapid.T) {
	if len(w.wrong) == 0 {
		return
	}
	text := w.text()
	for _, x := range w.wrong {
		text += "\n!! " + x
	}
	t.Fatalf("the core and the model differ:\n%s", text)
}

// calm writes what is left, and looks at what must be true then.
func (w *world) calm() {
	w.slow, w.hesitant, w.desk.slow = false, false, false
	for range 10 {
		w.commit(len(w.unsaved))
		w.follow()
	}
	w.valid()
	for no, n := range w.desk.bytes {
		if r := w.m.runs[no]; n < 0 || n > 0 && (r == nil || len(r.holder.given) == 0) {
			w.broken("the desk counts %d bytes of run %d, which nobody has to answer", n, no)
		}
	}
	for _, r := range w.m.memory() {
		// Who folds it need not be whom the desk gave it to: an offer may have been late.
		given := w.desk.runs[r.no] != nil || w.desk.find(r.holder.worker) != nil
		if len(r.unfolded) > 0 && !r.held() && !given && len(w.m.putOff[r.no]) == 0 && !w.wakes0(r.no) {
			w.broken("run %d has inputs that nobody is given", r.no)
		}
	}
}

// wakes0 says that the run itself will be looked at.
func (w *world) wakes0(no store.RunNo) bool {
	return slices.ContainsFunc(w.wakes, func(x machine.Wake) bool { return x.Run == no && x.Op == "" })
}

func TestTheCoreDoesWhatTheModelSays(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	set(t, "rapid.steps", "36")
	set(t, "rapid.checks", fmt.Sprint(*rounds))
	set(t, "rapid.nofailfile", "true")
	// Much is thrown away, and little kept.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	begun, done := time.Now(), 0
	for round := uint64(0); round == 0 || time.Since(begun) < *budget; round++ {
		set(t, "rapid.seed", fmt.Sprint(first+round))
		t.Logf("seed %d", first+round)
		rapid.Check(t, sequence)
		done += *rounds
	}
	for _, what := range wanted {
		if counts[what]+events[what] == 0 {
			t.Errorf("void: no %s ever happened", what)
		}
	}
	line, err := json.Marshal(map[string]any{
		"layer": "property", "seed": first, "runs": done, "counts": counts, "events": events, "void": 0, "failed": 0, "seconds": int(time.Since(begun).Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
}

func set(t *testing.T, name, value string) {
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}
