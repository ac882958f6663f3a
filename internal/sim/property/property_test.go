package property

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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
	temper := rapid.IntRange(0, 7).Draw(t, "temper")
	w.sagas = temper%2 == 1
	w.do(drawn{"start", 0, 0, 0, 0})
	t.Repeat(map[string]func(*rapid.T){"happens": func(t *rapid.T) {
		w.do(steps.Draw(t, "step"))
		w.judge(t)
	}})
	w.calm()
	if temper >= 6 {
		w.heal()
	}
	w.judge(t)
}

// judge fails with the story, if the core did anything that it must not.
func (w *world) judge(t rapid.TB) {
	t.Helper()
	if len(w.wrong) == 0 {
		return
	}
	text := w.text()
	for _, x := range w.wrong {
		text += "!! " + x + "\n"
	}
	t.Fatalf("the core and the model differ:\n%s", text)
}

func TestTheCoreDoesWhatTheModelSays(t *testing.T) {
	first := *seed
	if again := flag.Lookup("rapid.seed").Value.String(); again != "0" {
		first, _ = strconv.ParseUint(again, 10, 64) // as a failure has told
	}
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	set(t, "rapid.steps", "40")
	set(t, "rapid.checks", fmt.Sprint(*rounds))
	set(t, "rapid.nofailfile", "true")
	// Much is thrown away, and little kept.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	begun, done, failed, void := time.Now(), 0, 0, 0
	for round := uint64(0); round == 0 || time.Since(begun) < *budget; round++ {
		set(t, "rapid.seed", fmt.Sprint(first+round))
		if !t.Run(fmt.Sprint("seed=", first+round), rapid.MakeCheck(sequence)) {
			failed++
			break // the counts are those of the search for the shortest story now
		}
		done += *rounds
	}
	for _, what := range wanted {
		if counts[what]+events[what] == 0 {
			void++
			t.Errorf("void: no %s ever happened", what)
		}
	}
	line, err := json.Marshal(map[string]any{
		"layer": "property", "seed": first, "runs": done, "counts": counts, "events": events,
		"void": void, "failed": failed, "seconds": int(time.Since(begun).Seconds()),
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

// What was found once, as the shortest story that showed it.
func TestWhatWasFound(t *testing.T) {
	for name, story := range map[string][]drawn{
		"a start that joined a run is forgotten with the memory of it": {
			{"start", 0, 1, 1, 0}, {"commit", 0, 0, 0, 0}, {"reload", 0, 0, 0, 0}, {"start", 0, 1, 0, 0},
		},
		"an old run that alone is in memory is taken for the newest": {
			{"terminate", 0, 0, 0, 0}, {"start", 0, 1, 0, 0}, {"decide", 0, 0, 0, 55}, {"commit", 0, 0, 0, 0}, {"reload", 0, 0, 0, 0},
			{"spurious", 0, 0, 0, 0}, {"await", 0, 0, 0, 0}, {"describe", 0, 0, 0, 0}, {"follow", 0, 0, 0, 0},
		},
		"a read that is older than a refused write is taken for new": {
			{"slow reads", 0, 0, 0, 0}, {"describe", 1, 0, 0, 0}, {"start", 1, 0, 0, 0}, {"read", 0, 1, 0, 0}, {"read", 1, 0, 0, 0},
			{"commit", 0, 0, 0, 0}, {"decide", 1, 0, 0, 7}, {"refused", 0, 0, 0, 0}, {"read", 0, 0, 0, 0},
		},
		"a read that is older than an eviction is taken for new, when the run is back by its number": {
			{"decide", 0, 0, 0, 0}, {"slow reads", 0, 0, 0, 0}, {"cancel", 1, 0, 0, 0}, {"start", 1, 0, 0, 0}, {"read", 0, 1, 0, 0},
			{"read", 1, 0, 0, 0}, {"commit", 0, 0, 0, 0}, {"decide", 1, 0, 0, 55}, {"commit", 0, 0, 0, 0}, {"evict", 1, 0, 0, 0},
			{"spurious", 1, 0, 0, 0}, {"read", 1, 0, 0, 0}, {"read", 0, 0, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.do(drawn{"start", 0, 0, 0, 0})
			for _, x := range story {
				w.do(x)
			}
			w.calm()
			w.heal()
			w.judge(t)
		})
	}
}
