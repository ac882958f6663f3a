package match

import (
	"slices"
	"testing"
)

func suspect(typ string) Need {
	n := need(typ)
	n.Suspect = true
	return n
}

func TestNoWorkerHasTwoSuspects(t *testing.T) {
	m := connected(5, "w1", "w2")
	w1, _ := m.Assign(1, suspect("W"))
	w2, ok := m.Slot(key(2), suspect("A"))
	if !ok || w1 == w2 {
		t.Fatalf("the run is with %s, the activity with %q", w1, w2)
	}
	if w, ok := m.Slot(key(3), suspect("A")); ok {
		t.Fatalf("a third suspect was given %s", w)
	}
	if w, ok := m.Assign(4, suspect("W")); ok {
		t.Fatalf("a fourth suspect was given %s", w)
	}
	if _, ok := m.Slot(key(5), need("A")); !ok {
		t.Error("who is no suspect waits behind one, and a slot is free")
	}
	if _, ok := m.Assign(5, need("W")); !ok {
		t.Error("a run that is no suspect waits")
	}
	// The run has answered: what waits for w1 gets it, one of them.
	offers := m.Unfolded(1, w1, -1)
	if len(offers) != 1 || offers[0].Worker != w1 || offers[0].Run != 4 {
		t.Fatalf("the suspect has answered, and %+v was offered", offers)
	}
	if n := m.Disconnect(w1); n != 1 {
		t.Errorf("%d suspects were on %s", n, w1)
	}
	offers = m.Free(key(2))
	if len(offers) != 1 || offers[0].Delivery != key(3) {
		t.Errorf("the suspect has answered, and %+v was offered", offers)
	}
}

// A suspect keeps its place: it is overtaken only by what it cannot have.
func TestASuspectIsOnlyOvertakenWhileItMust(t *testing.T) {
	m := connected(2, "w1")
	m.Slot(key(1), suspect("A"))
	m.Slot(key(2), need("A"))
	m.Slot(key(3), suspect("A"))
	m.Slot(key(4), need("A"))
	m.Slot(key(5), suspect("A"))
	m.Slot(key(6), need("A"))
	var got []int64
	next := func(offers []Offer) {
		for _, o := range offers {
			got = append(got, o.Delivery.Run)
		}
	}
	next(m.Free(key(2))) // 3 may not have it: 4 overtakes
	next(m.Free(key(1))) // now 3
	next(m.Free(key(4))) // 5 may not: 6
	next(m.Free(key(6)))
	next(m.Free(key(3)))
	if want := []int64{4, 3, 6, 5}; !slices.Equal(got, want) {
		t.Errorf("the slots went to %v, want %v", got, want)
	}
	// And it overtakes nobody.
	m = connected(1, "w1")
	m.Slot(key(1), need("A"))
	m.Slot(key(2), need("A"))
	m.Slot(key(3), suspect("A"))
	if offers := m.Free(key(1)); offers[0].Delivery != key(2) {
		t.Errorf("offered %v", offers)
	}
}

func TestASuspectThatWasOfferedASlotIsStillOneWhenItTakesIt(t *testing.T) {
	m := connected(0, "w1")
	m.Slot(key(1), suspect("A"))
	m.Slot(key(2), suspect("A"))
	if offers := m.Connect(worker1("w1", 2)); len(offers) != 1 {
		t.Fatalf("offered %v", offers)
	}
	// It is cleared while the offer is under way; its flag goes with its slot.
	if !m.Hold(key(1), "w1", false) {
		t.Fatal("the slot was not held")
	}
	if n := m.workers["w1"].suspects; n != 1 {
		t.Errorf("w1 counts %d suspects", n)
	}
	if offers := m.Free(key(1)); len(offers) != 1 || offers[0].Delivery != key(2) {
		t.Errorf("offered %v", offers)
	}
}

func TestSuspectsWaitInTheQueuesThatPeopleSee(t *testing.T) {
	m := connected(2, "w1")
	m.Slot(key(1), suspect("A"))
	m.Slot(key(2), suspect("A"))
	if l := m.Load(); l.WaitingSlots != 1 {
		t.Errorf("%d wait", l.WaitingSlots)
	}
	q := m.Queues("n")[0]
	if i := slices.IndexFunc(q.Types, func(x QueueType) bool { return x.Name == "A" }); q.Types[i].Waiting != 1 {
		t.Errorf("types %+v", q.Types)
	}
}
