package replay

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/engined/engined/proto/enginepb"
)

// differencesMax is how many differences a Mismatch tells.
const differencesMax = 10

// Mismatch says that the code asks for something else than it did when the
// history was recorded. The run is held with it; nothing is lost.
type Mismatch struct {
	Workflow string
	// Cause is the input at whose fold the two differ first.
	Cause *pb.Event
	// Differences are in the order of the history, then of the code.
	Differences []Difference
}

// Difference is one operation on which history and code differ. One of the two
// events may be nil.
type Difference struct {
	Recorded, Asked *pb.Event
	// Waits is the place where the coroutine waits instead, if that is known.
	Waits string
}

// Error is the whole text, a line a difference, and what to do.
func (m *Mismatch) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the code of %s does not fit the history at %s:\n", m.Workflow, describe(m.Cause))
	for i, d := range m.Differences {
		if i == differencesMax {
			fmt.Fprintf(&b, "  and %d more\n", len(m.Differences)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", d)
	}
	b.WriteString("hint: the code was changed under a running workflow. Deploy a build that still has the old code for it, or undo the change; the run is held until then, and nothing is lost")
	return b.String()
}

func (d Difference) String() string {
	switch {
	case d.Recorded == nil:
		return "history: nothing; code: " + describe(d.Asked)
	case d.Asked != nil:
		return "history: " + describe(d.Recorded) + "; code: " + describe(d.Asked) +
			covers(identify(d.Recorded), identify(d.Asked))
	case d.Waits != "":
		return "history: " + describe(d.Recorded) + "; code: nothing, it waits at " + d.Waits
	default:
		return "history: " + describe(d.Recorded) + "; code: nothing"
	}
}

// compare returns the difference between what was recorded for an input and what
// the code asks for now, or nil. Order counts within a coroutine only, and there
// the running numbers tell it.
func (r *Run) compare(cause *pb.Event, recorded, asked []*pb.Event) error {
	if r.sameInOrder(recorded, asked) {
		return nil
	}
	now := make(map[slot]*pb.Event, len(asked))
	for _, e := range asked {
		now[identify(e).slot] = e
	}
	m := &Mismatch{Workflow: r.started.GetType(), Cause: cause}
	for _, e := range recorded {
		id := identify(e)
		other := now[id.slot]
		delete(now, id.slot)
		if other == nil {
			m.Differences = append(m.Differences, Difference{Recorded: e, Waits: r.waitsInstead(id.op)})
		} else if !r.same(id, identify(other)) {
			m.Differences = append(m.Differences, Difference{Recorded: e, Asked: other})
		}
	}
	for _, e := range asked {
		if s := identify(e).slot; now[s] == e {
			m.Differences = append(m.Differences, Difference{Asked: e})
		}
	}
	if len(m.Differences) == 0 {
		return nil
	}
	return m
}

// sameInOrder is the common case, without a map.
func (r *Run) sameInOrder(recorded, asked []*pb.Event) bool {
	return slices.EqualFunc(recorded, asked, func(a, b *pb.Event) bool {
		x, y := identify(a), identify(b)
		return x.slot == y.slot && r.same(x, y)
	})
}

func (r *Run) same(recorded, asked identity) bool {
	return recorded.kind == asked.kind && r.sameName(recorded.name, asked.name) &&
		r.sameName(recorded.undo, asked.undo) && sameOps(recorded.ops, asked.ops)
}

// sameName says whether two activity types are the same, one perhaps an older
// name of the other. Nothing is no name: it has no alias.
func (r *Run) sameName(recorded, asked string) bool {
	if recorded == asked {
		return true
	}
	return recorded != "" && asked != "" && r.cfg.SameActivity != nil && r.cfg.SameActivity(recorded, asked)
}

// sameOps says whether two lists have the same operations. They stand in the
// order in which they were armed, which is that of decisions: it says nothing.
func sameOps(recorded, asked []string) bool {
	if slices.Equal(recorded, asked) {
		return true
	}
	return len(recorded) == len(asked) && slices.Equal(slices.Sorted(slices.Values(recorded)), slices.Sorted(slices.Values(asked)))
}

// waitsInstead is where the coroutine of an operation waits, or ""; that of the
// end is the root.
func (r *Run) waitsInstead(op string) string {
	path, _, _ := strings.Cut(op, "#")
	for k := r.alive.first; k != nil; k = k.next {
		if k.of.path == path {
			return k.of.waits
		}
	}
	return ""
}
