package match

import (
	"cmp"
	"slices"
)

// Queue tells how a task queue stands.
type Queue struct {
	Namespace string
	Name      string
	// Workers serve it, draining ones too; Slots and Used are their sums.
	Workers, Slots, Used int
	// Types are what its workers know and what is waited for, the types that no
	// worker knows first.
	Types []QueueType
}

// QueueType is a workflow or activity type of a queue.
type QueueType struct {
	Name     string
	Workflow bool
	// Workers that are not draining know it; Waiting is how many runs wait for a
	// worker, or deliveries for a slot.
	Workers, Waiting int
}

type queueKey struct{ namespace, name string }

// Queues lists the queues of a namespace, in the order of their names: those
// that a worker serves, or that something waits for.
func (m *Matcher) Queues(namespace string) []Queue {
	t := queueTable{}
	for _, w := range m.order {
		if w.Namespace == namespace {
			t.serve(w)
		}
	}
	for p, l := range m.runWait {
		if p.namespace == namespace && !l.empty() {
			t.typ(p, true).Waiting += len(l.at)
		}
	}
	for _, lines := range []map[pool]*line[DeliveryKey]{m.slotWait, m.suspectWait} {
		for p, l := range lines {
			if p.namespace == namespace && !l.empty() {
				t.typ(p, false).Waiting += len(l.at)
			}
		}
	}
	return t.list()
}

// queueTable gathers; queues and types are found by name.
type queueTable map[queueKey]*queueRow

type queueRow struct {
	Queue
	types map[QueueType]*QueueType // by name and kind alone
}

func (t queueTable) row(k queueKey) *queueRow {
	r := t[k]
	if r == nil {
		r = &queueRow{Queue: Queue{Namespace: k.namespace, Name: k.name}, types: map[QueueType]*QueueType{}}
		t[k] = r
	}
	return r
}

func (t queueTable) typ(p pool, workflow bool) *QueueType {
	r := t.row(queueKey{p.namespace, p.queue})
	k := QueueType{Name: p.typ, Workflow: workflow}
	x := r.types[k]
	if x == nil {
		x = &QueueType{Name: p.typ, Workflow: workflow}
		r.types[k] = x
	}
	return x
}

func (t queueTable) serve(w *worker) {
	r := t.row(queueKey{w.Namespace, w.Queue})
	r.Workers++
	r.Slots += w.Slots
	r.Used += w.used
	if w.draining {
		return
	}
	for _, name := range w.WorkflowTypes {
		t.typ(pool{w.Namespace, w.Queue, name}, true).Workers++
	}
	for _, name := range w.ActivityTypes {
		t.typ(pool{w.Namespace, w.Queue, name}, false).Workers++
	}
}

func (t queueTable) list() []Queue {
	var all []Queue
	for _, r := range t {
		for _, x := range r.types {
			r.Types = append(r.Types, *x)
		}
		slices.SortFunc(r.Types, func(a, b QueueType) int {
			return cmp.Or(compareBool(a.Workers > 0, b.Workers > 0), compareBool(!a.Workflow, !b.Workflow), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, r.Queue)
	}
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// Load sums up over all namespaces.
type Load struct {
	Workers, Slots, Used      int
	WaitingRuns, WaitingSlots int
}

// Load tells how busy all workers together are.
func (m *Matcher) Load() Load {
	l := Load{Workers: len(m.order)}
	for _, w := range m.order {
		l.Slots += w.Slots
		l.Used += w.used
	}
	for _, x := range m.runWait {
		l.WaitingRuns += len(x.at)
	}
	for _, x := range m.slotWait {
		l.WaitingSlots += len(x.at)
	}
	for _, x := range m.suspectWait {
		l.WaitingSlots += len(x.at)
	}
	return l
}

// Known counts the workers that could do what is needed, whether or not they
// have a place for it now.
func (m *Matcher) Known(n Need, workflow bool) int {
	count := 0
	for _, w := range m.order {
		known := w.activity
		if workflow {
			known = w.workflows
		}
		if !w.draining && w.Namespace == n.Namespace && w.Queue == n.Queue && known[n.Type] && !slices.Contains(n.Excluded, w.Build) {
			count++
		}
	}
	return count
}
