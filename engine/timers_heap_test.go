package engine

import (
	"testing"

	"github.com/engined/engined/engine/machine"
)

func TestAnEntryIsWokenOnceAndNotWhenItHasEnded(t *testing.T) {
	var ts timers
	ts.set(machine.Wake{At: 30, Run: 1, Op: "a"})
	ts.set(machine.Wake{At: 10, Run: 1, Op: "b"})
	ts.set(machine.Wake{At: 20, Run: 2, Op: "a"})
	ts.set(machine.Wake{At: 5, Run: 1, Op: "a"})  // sooner
	ts.add(machine.Wake{At: 50, Run: 2, Op: "a"}) // what is read is older
	ts.set(machine.Wake{At: 40, Run: 1, Op: "b"}) // later
	ts.add(machine.Wake{At: 35, Run: 3, Op: ""})
	ts.drop(3, "")
	ts.drop(4, "a") // never there
	var woken []machine.Wake
	for w, ok := ts.due(100); ok; w, ok = ts.due(100) {
		woken = append(woken, w)
	}
	want := []machine.Wake{{At: 5, Run: 1, Op: "a"}, {At: 20, Run: 2, Op: "a"}, {At: 40, Run: 1, Op: "b"}}
	if len(woken) != len(want) {
		t.Fatalf("woken %v, want %v", woken, want)
	}
	for i := range want {
		if woken[i] != want[i] {
			t.Errorf("woken %v, want %v", woken[i], want[i])
		}
	}
	if ts.next() != 0 || len(ts.by) != 0 {
		t.Errorf("left: %v", ts.by)
	}
}
