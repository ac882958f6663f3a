package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	m.Unfolded(0, "w1", MaxUnfoldedBytes)
	if _, ok := m.Assign(1, need("W")); ok {
		t.Error("it got a run although it has answered nothing")
	}
	if offers := m.Unfolded(0, "w1", -1); len(offers) != 1 {
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
	if m.Hold(key(2), "w1", false) {
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
		suspects := map[DeliveryKey]bool{}
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
				n := need(typ)
				n.Suspect = r.IntN(3) == 0
				suspects[k] = n.Suspect
				if w, ok := m.Slot(k, n); ok {
					given[k] = w
				} else {
					waiting[k] = typ
				}
			case 4:
				delete(given, k)
				delete(waiting, k)
				take(m.Free(k))
			}
			checkSlots(t, fmt.Sprintf("seed %d, step %d", seed, step), m, book[DeliveryKey, string]{given, waiting, suspects})
		}
	}
}

// book is what a test knows: who has which worker, who waits for what, and who is
// a suspect.
type book[K comparable, W any] struct {
	has      map[K]string
	waits    map[K]W
	suspects map[K]bool
}

func checkSlots(t *testing.T, where string, m *Matcher, b book[DeliveryKey, string]) {
	used, suspect := map[string]int{}, map[string]int{}
	for k, w := range b.has {
		used[w]++
		if b.suspects[k] {
			suspect[w]++
		}
	}
	for _, w := range m.order {
		if w.used != used[w.ID] || w.used > w.Slots {
			t.Fatalf("%s: %s uses %d of %d slots, %d were given", where, w.ID, w.used, w.Slots, used[w.ID])
		}
		if w.suspects != suspect[w.ID] || w.suspects > 1 {
			t.Fatalf("%s: %s counts %d suspects, it has %d", where, w.ID, w.suspects, suspect[w.ID])
		}
		for k := range b.waits {
			if w.used < w.Slots && (w.suspects == 0 || !b.suspects[k]) {
				t.Fatalf("%s: %s has a free slot, and %v waits (suspect: %v)", where, w.ID, k, b.suspects[k])
			}
		}
	}
	if len(m.slots) != len(b.has)+len(b.waits) {
		t.Fatalf("%s: the matcher knows %d deliveries, there are %d", where, len(m.slots), len(b.has)+len(b.waits))
	}
}

// With one slot that comes free again and again, every type has its turn.
func TestNoTypeStarvesBehindAnother(t *testing.T) {
	m := connected(1, "w1")
	m.Slot(key(0), need("A"))
	types := map[DeliveryKey]string{}
	for i := 1; i <= 20; i++ {
		typ := "A"
		if i > 17 {
			typ = "B" // they came last
		}
		types[key(i)] = typ
		m.Slot(key(i), need(typ))
	}
	var got string
	for held := key(0); ; {
		offers := m.Free(held)
		if len(offers) == 0 {
			break
		}
		held = offers[0].Delivery
		got += types[held]
	}
	if len(got) != 20 || strings.Count(got[:6], "B") != 3 {
		t.Errorf("the slot went to %s, want each type in turn", got)
	}
}

// A worker that comes to a crowd is not handed all of it before anything is
// known of how much that is.
func TestACrowdIsOfferedInPortions(t *testing.T) {
	m := New()
	const crowd = 5 * maxOffered
	for i := range crowd {
		m.Assign(RunKey(i), need("W"))
	}
	offers := m.Connect(worker1("w1", 1))
	if len(offers) != maxOffered {
		t.Fatalf("%d runs were offered at once", len(offers))
	}
	// Half of them are not wanted any more, the others are pushed; then more
	// come, in their order, up to the bound on bytes.
	next, served := maxOffered, 0
	queue := offers
	for len(queue) > 0 {
		o := queue[0]
		queue = queue[1:]
		var more []Offer
		if served++; served%2 == 0 {
			more = m.Unassign(o.Run)
		} else {
			more = m.Unfolded(o.Run, "w1", MaxUnfoldedBytes/100)
		}
		for _, x := range more {
			if x.Run != RunKey(next) {
				t.Fatalf("run %d was offered, %d is next", x.Run, next)
			}
			next++
		}
		queue = append(queue, more...)
	}
	if m.workers["w1"].unfolded < MaxUnfoldedBytes || next >= crowd {
		t.Fatalf("%d runs were offered with %d bytes", next, m.workers["w1"].unfolded)
	}
	more := m.Unfolded(0, "w1", -MaxUnfoldedBytes)
	if len(more) == 0 || more[0].Run != RunKey(next) {
		t.Errorf("it has answered all, and was offered %v", more)
	}
}

func TestAnswersToAnOlderStreamDoNotLoosenTheBound(t *testing.T) {
	m := connected(1, "w1")
	m.Unfolded(0, "w1", MaxUnfoldedBytes)
	m.Connect(worker1("w1", 1)) // the same worker, on a new stream
	m.Unfolded(0, "w1", -MaxUnfoldedBytes)
	m.Unfolded(0, "w1", MaxUnfoldedBytes)
	if _, ok := m.Assign(1, need("W")); ok {
		t.Error("it got a run although it has answered nothing on its stream")
	}
}

func TestResetForgetsOneShardAlone(t *testing.T) {
	m := connected(2, "w1")
	m.Slot(key(1), need("A"))
	m.Slot(key(11), need("A"))
	m.Slot(key(2), need("A"))  // waits
	m.Slot(key(12), need("A")) // waits
	m.Assign(1, need("W"))
	m.Assign(11, need("W"))
	offers := m.Reset(func(run int64) bool { return run < 10 })
	if len(offers) != 1 || offers[0].Delivery != key(12) {
		t.Errorf("offered %v, want what waits of the other shard", offers)
	}
	if slots, runs := m.Usage("w1"); slots != 2 || runs != 1 {
		t.Errorf("w1 has %d slots in use and %d runs", slots, runs)
	}
}

// Runs against an oracle that is too simple to be wrong: a run has a worker that
// may fold it, or there is none.
func TestRunsUnderRandomUse(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := New()
		has, waits, suspects := map[RunKey]string{}, map[RunKey][]string{}, map[RunKey]bool{}
		take := func(offers []Offer) {
			for _, o := range offers {
				if _, ok := waits[o.Run]; !ok || o.Slot {
					t.Fatalf("seed %d: %v was offered, and did not wait", seed, o)
				}
				has[o.Run] = o.Worker
				delete(waits, o.Run)
			}
		}
		for step := range 200 {
			id, run := fmt.Sprint("w", r.IntN(4)), RunKey(r.IntN(12))
			switch r.IntN(6) {
			case 0:
				if !m.Connected(id) {
					take(m.Connect(worker1(id, 1)))
				}
			case 1:
				m.Disconnect(id)
				for k, w := range has {
					if w == id {
						delete(has, k)
					}
				}
			case 2, 3:
				n := need("W")
				for i := range r.IntN(3) {
					n.Excluded = append(n.Excluded, fmt.Sprint("b-w", (int(run)+i)%4))
				}
				delete(has, run)
				delete(waits, run)
				take(m.Unassign(run))
				n.Suspect = r.IntN(3) == 0
				suspects[run] = n.Suspect
				if w, ok := m.Assign(run, n); ok {
					has[run] = w
				} else {
					waits[run] = n.Excluded
				}
			case 4:
				delete(has, run)
				delete(waits, run)
				take(m.Unassign(run))
			case 5:
				bytes := int64(r.IntN(3)-1) * MaxUnfoldedBytes
				if bytes < 0 && has[run] == id {
					suspects[run] = false
				}
				take(m.Unfolded(run, id, bytes))
			}
			checkRuns(t, fmt.Sprintf("seed %d, step %d", seed, step), m, book[RunKey, []string]{has, waits, suspects})
		}
	}
}

func checkRuns(t *testing.T, where string, m *Matcher, b book[RunKey, []string]) {
	count, suspect := map[string]int{}, map[string]int{}
	for k, w := range b.has {
		count[w]++
		if b.suspects[k] {
			suspect[w]++
		}
		if slices.Contains(m.runs[k].need.Excluded, m.workers[w].Build) {
			t.Fatalf("%s: run %d is with %s, whose build it excludes", where, k, w)
		}
	}
	for _, w := range m.order {
		if w.suspects != suspect[w.ID] || w.suspects > 1 {
			t.Fatalf("%s: %s counts %d suspects, it has %d", where, w.ID, w.suspects, suspect[w.ID])
		}
		if w.runs != count[w.ID] {
			t.Fatalf("%s: %s counts %d runs, it has %d", where, w.ID, w.runs, count[w.ID])
		}
		for k, excluded := range b.waits {
			if w.unfolded < MaxUnfoldedBytes && !slices.Contains(excluded, w.Build) && (w.suspects == 0 || !b.suspects[k]) {
				t.Fatalf("%s: run %d waits, and %s could have it", where, k, w.ID)
			}
		}
	}
	if len(m.runs) != len(b.has)+len(b.waits) {
		t.Fatalf("%s: the matcher knows %d runs, there are %d", where, len(m.runs), len(b.has)+len(b.waits))
	}
}
