package engine

import (
	"container/heap"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
)

// timers holds the wake-ups of a shard that are due soon, by time: one for each
// entry of a run. A wake-up in vain does no harm; one that is kept for an entry
// which has ended has its run read again, for nothing.
type timers struct {
	soon alarms
	by   map[alarmKey]*alarm
}

type alarmKey struct {
	run store.RunNo
	op  string
}

type alarm struct {
	machine.Wake
	place int // in the heap
}

// set wakes an entry at another time than before.
func (t *timers) set(w machine.Wake) {
	key := alarmKey{w.Run, w.Op}
	if a := t.by[key]; a != nil {
		a.At = w.At
		heap.Fix(&t.soon, a.place)
		return
	}
	if t.by == nil {
		t.by = map[alarmKey]*alarm{}
	}
	a := &alarm{Wake: w}
	t.by[key] = a
	heap.Push(&t.soon, a)
}

// add wakes an entry also then: what is read may be older than what was set.
func (t *timers) add(w machine.Wake) {
	if a := t.by[alarmKey{w.Run, w.Op}]; a == nil || w.At < a.At {
		t.set(w)
	}
}

// drop forgets an entry that has ended.
func (t *timers) drop(run store.RunNo, op string) {
	if a := t.by[alarmKey{run, op}]; a != nil {
		heap.Remove(&t.soon, a.place)
		delete(t.by, alarmKey{run, op})
	}
}

// due takes the first wake-up if its time has come.
func (t *timers) due(now int64) (machine.Wake, bool) {
	if len(t.soon) == 0 || t.soon[0].At > now {
		return machine.Wake{}, false
	}
	a := heap.Pop(&t.soon).(*alarm)
	delete(t.by, alarmKey{a.Run, a.Op})
	return a.Wake, true
}

// next is when the first is due, 0 if there is none.
func (t *timers) next() int64 {
	if len(t.soon) == 0 {
		return 0
	}
	return t.soon[0].At
}

// alarms is the heap.
type alarms []*alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].At < h[j].At }

func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *alarms) Push(x any) {
	a := x.(*alarm)
	a.place = len(*h)
	*h = append(*h, a)
}

func (h *alarms) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
