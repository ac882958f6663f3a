package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func connected(slots int, ids ...string) *Matcher {
	m := New()
	for _, id := range ids {
		m.Connect(worker1(id, slots))
	}
	return m
}

func worker1(id string, slots int) Worker {
	return Worker{ID: id, Namespace: "n", Queue: "q", Build: "b-" + id, WorkflowTypes: []string{"W"}, ActivityTypes: []string{"A", "B"}, Slots: slots}
}

func need(typ string) Need { return Need{Namespace: "n", Queue: "q", Type: typ} }

func key(run int) DeliveryKey { return DeliveryKey{Run: int64(run), Op: "#1", Delivery: 1} }

func TestRunsGoToTheWorkerThatHoldsTheFewest(t *testing.T) {
	m := connected(1, "w1", "w2")
	var got []string
	for i := range 4 {
		w, ok := m.Assign(RunKey(i), need("W"))
		if !ok {
			t.Fatalf("run %d waits", i)
		}
		got = append(got, w)
	}
	if want := []string{"w1", "w2", "w1", "w2"}; !slices.Equal(got, want) {
		t.Errorf("runs went to %v, want %v", got, want)
	}
}

func TestNobodyOvertakesThoseWhoWait(t *testing.T) {
	m := connected(1, "w1")
	if _, ok := m.Slot(key(1), need("A")); !ok {
		t.Fatal("the free slot was not given")
	}
	for i := 2; i <= 4; i++ {
		if _, ok := m.Slot(key(i), need("A")); ok {
			t.Fatalf("delivery %d got a slot that is taken", i)
		}
	}
	m.Free(key(3)) // leaves the line
	for _, want := range []int{2, 4} {
		offers := m.Free(key(want - 1))
		if want == 4 {
			offers = m.Free(key(2))
		}
		if len(offers) != 1 || offers[0].Delivery != key(want) {
			t.Fatalf("offered %v, want delivery %d", offers, want)
		}
	}
}

func TestANewcomerWaitsBehindTheLineAlsoWhenASlotIsFree(t *testing.T) {
	m := connected(0, "w1") // no slots: A waits
	m.Slot(key(1), need("A"))
	w := worker1("w2", 1)
	w.ActivityTypes = []string{"B"}
	m.Connect(w)
	if _, ok := m.Slot(key(2), need("A")); ok {
		t.Error("it overtook the one that waits")
	}
	if _, ok := m.Slot(key(3), need("B")); !ok {
		t.Error("another need was made to wait behind it")
	}
}

func TestExcludedBuildsAndDrainingWorkersGetNothing(t *testing.T) {
	m := connected(1, "w1", "w2")
	n := need("W")
	n.Excluded = []string{"b-w1"}
	if w, _ := m.Assign(1, n); w != "w2" {
		t.Errorf("the run went to %q, want w2", w)
	}
	n.Excluded = append(n.Excluded, "b-w2")
	if w, ok := m.Assign(2, n); ok {
		t.Errorf("the run went to %s of an excluded build", w)
	}
	if offers := m.Connect(worker1("w3", 1)); len(offers) != 1 || offers[0].Run != 2 {
		t.Errorf("a build that fits came, and was offered %v", offers)
	}
	m.Drain("w1")
	if w, _ := m.Slot(key(1), need("A")); w == "w1" {
		t.Error("a draining worker was given an activity")
	}
}

func TestAWorkerThatDoesNotAnswerGetsNoNewRuns(t *testing.T) {
	m := connected(1, "w1")
	m.Unfolded("w1", MaxUnfoldedBytes)
	if _, ok := m.Assign(1, need("W")); ok {
		t.Error("it got a run although it has answered nothing")
	}
	if offers := m.Unfolded("w1", -1); len(offers) != 1 {
		t.Errorf("it answered, and was offered %v", offers)
	}
}

func TestADisconnectedWorkerLeavesNothingBehind(t *testing.T) {
	m := connected(2, "w1")
	m.Assign(1, need("W"))
	m.Slot(key(1), need("A"))
	m.Disconnect("w1")
	if len(m.runs) != 0 || len(m.slots) != 0 {
		t.Errorf("%d runs and %d slots are left", len(m.runs), len(m.slots))
	}
	if m.Hold(key(2), "w1") {
		t.Error("a slot of a worker that is gone was held")
	}
}

// Whatever is asked in whatever order: no worker has more than its slots, every
// delivery is in one place, and nobody waits while somebody could serve them.
func TestSlotsUnderRandomUse(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := New()
		given := map[DeliveryKey]string{}
		waiting := map[DeliveryKey]string{}
		take := func(offers []Offer) {
			for _, o := range offers {
				if waiting[o.Delivery] == "" {
					t.Fatalf("seed %d: %v was offered a slot, and did not wait", seed, o.Delivery)
				}
				delete(waiting, o.Delivery)
				given[o.Delivery] = o.Worker
			}
		}
		for step := range 300 {
			id := fmt.Sprint("w", r.IntN(4))
			k := key(r.IntN(12))
			switch r.IntN(5) {
			case 0:
				if !m.Connected(id) {
					take(m.Connect(worker1(id, 1+r.IntN(3))))
				}
			case 1:
				m.Disconnect(id)
				for d, w := range given {
					if w == id {
						delete(given, d)
					}
				}
			case 2, 3:
				if given[k] != "" || waiting[k] != "" {
					continue
				}
				typ := []string{"A", "B"}[r.IntN(2)]
				if w, ok := m.Slot(k, need(typ)); ok {
					given[k] = w
				} else {
					waiting[k] = typ
				}
			case 4:
				delete(given, k)
				delete(waiting, k)
				take(m.Free(k))
			}
			checkSlots(t, fmt.Sprintf("seed %d, step %d", seed, step), m, given, waiting)
		}
	}
}

func checkSlots(t *testing.T, where string, m *Matcher, given, waiting map[DeliveryKey]string) {
	used := map[string]int{}
	for _, w := range given {
		used[w]++
	}
	for _, w := range m.order {
		if w.used != used[w.ID] || w.used > w.Slots {
			t.Fatalf("%s: %s uses %d of %d slots, %d were given", where, w.ID, w.used, w.Slots, used[w.ID])
		}
		if w.used < w.Slots && len(waiting) > 0 {
			t.Fatalf("%s: %s has a free slot, and %v wait", where, w.ID, waiting)
		}
	}
	if len(m.slots) != len(given)+len(waiting) {
		t.Fatalf("%s: the matcher knows %d deliveries, there are %d", where, len(m.slots), len(given)+len(waiting))
	}
}
