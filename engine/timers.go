package engine

import (
	"container/heap"

	"github.com/engined/engined/engine/machine"
)

// timers holds the wake-ups of a shard that are due soon, by time. An entry is
// never removed when it is overtaken: a wake-up in vain does no harm.
type timers []machine.Wake

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].At < t[j].At }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(machine.Wake)) }

func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}

func (t *timers) add(w machine.Wake) { heap.Push(t, w) }

// due takes the first wake-up if its time has come.
func (t *timers) due(now int64) (machine.Wake, bool) {
	if len(*t) == 0 || (*t)[0].At > now {
		return machine.Wake{}, false
	}
	return heap.Pop(t).(machine.Wake), true
}

// next is when the first is due, 0 if there is none.
func (t timers) next() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[0].At
}
