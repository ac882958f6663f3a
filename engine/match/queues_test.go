package match

import (
	"slices"
	"testing"
)

func TestQueuesTellWhoServesAndWhatWaits(t *testing.T) {
	m := connected(1, "w1", "w2")
	m.Drain("w2")
	m.Slot(key(1), need("A"))
	m.Slot(key(2), need("A"))
	other := need("X")
	m.Slot(key(3), other)
	m.Assign(7, Need{Namespace: "n", Queue: "nobody", Type: "W"})
	m.Assign(8, Need{Namespace: "elsewhere", Queue: "q", Type: "W"})
	got := m.Queues("n")
	if len(got) != 2 || got[0].Name != "nobody" || got[1].Name != "q" {
		t.Fatalf("queues %+v", got)
	}
	if want := []QueueType{{Name: "W", Workflow: true, Waiting: 1}}; !slices.Equal(got[0].Types, want) || got[0].Workers != 0 {
		t.Errorf("the queue that nobody serves: %+v", got[0])
	}
	q := got[1]
	want := []QueueType{
		{Name: "X", Waiting: 1}, {Name: "W", Workflow: true, Workers: 1}, {Name: "A", Workers: 1, Waiting: 1}, {Name: "B", Workers: 1},
	}
	if q.Workers != 2 || q.Slots != 2 || q.Used != 1 || !slices.Equal(q.Types, want) {
		t.Errorf("queue q: %+v, want its types %+v", q, want)
	}
}

func TestKnownCountsWhoCouldAlsoWhileTheyAreBusy(t *testing.T) {
	m := connected(0, "w1", "w2")
	if n := m.Known(need("A"), false); n != 2 {
		t.Errorf("%d know A", n)
	}
	if n := m.Known(need("A"), true); n != 0 {
		t.Errorf("%d know a workflow A", n)
	}
	n := need("W")
	n.Excluded = []string{"b-w1"}
	m.Drain("w2")
	if n := m.Known(n, true); n != 0 {
		t.Errorf("%d know W, one of them excluded, one draining", n)
	}
}
