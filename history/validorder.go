package history

import (
	"cmp"
	"slices"

	pb "github.com/engined/engined/proto/enginepb"
)

// input checks V4 and V5 for a kind that is an input.
func (v *validator) input(e *pb.Event) error {
	if e.Cause != 0 {
		return v.broken(RuleCause, "%s is an input and has cause %d", Kind(e), e.Cause)
	}
	if u := e.GetUpdateAccepted(); u != nil {
		if !v.isInput(u.After) {
			return v.broken(RuleFoldOrder, "it is folded after event %d, which is no input before it", u.After)
		}
		v.causes.insert(e.Id, u.After)
	}
	if j := e.GetJoined(); j != nil {
		if !v.isInput(j.First) || !v.isInput(j.Last) || j.First > j.Last {
			return v.broken(RuleFoldOrder, "it joins %d to %d, which are no inputs before it", j.First, j.Last)
		}
		v.causes.insert(e.Id, j.Last)
	}
	v.between = v.between || !atOnce(e)
	return nil
}

// atOnce says whether the event can be what a decision brought about in the
// moment it was taken.
func atOnce(e *pb.Event) bool {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityCancelled:
		return true
	case *pb.Event_CompensationEnded:
		return b.CompensationEnded.GetOp() != ""
	}
	return false
}

func (v *validator) isInput(id int64) bool {
	return id > 0 && id <= int64(len(v.inputs)) && v.inputs[id-1]
}

// cause checks V4 to V6 for a kind that is a decision.
func (v *validator) cause(e *pb.Event) error {
	if e.Cause == 0 && e.GetWorkflowCancelled() != nil {
		return nil
	}
	if !v.isInput(e.Cause) {
		return v.broken(RuleCause, "%s has cause %d, which is no input before it", Kind(e), e.Cause)
	}
	if v.lastBy == e.Cause {
		if v.between {
			return v.broken(RuleTogether, "other events stand between it and the decision of cause %d before it", e.Cause)
		}
		return nil
	}
	if v.lastBy != 0 && v.causes.compare(e.Cause, v.lastBy) < 0 {
		return v.broken(RuleFoldOrder, "cause %d is folded before %d, the cause of the decision before it", e.Cause, v.lastBy)
	}
	v.lastBy, v.between = e.Cause, false
	return nil
}

// foldOrder is where the inputs stand that are folded out of the order of
// their ids: each is folded right after another one, and after those that were
// put there before it.
type foldOrder map[int64][]int64

func (o foldOrder) insert(id, after int64) { o[id] = append(slices.Clone(o.path(after)), id) }

// path orders inputs: by their first element, then the second, and so on; one
// that is the beginning of another comes first.
func (o foldOrder) path(id int64) []int64 {
	if p, ok := o[id]; ok {
		return p
	}
	return []int64{id}
}

func (o foldOrder) compare(a, b int64) int {
	if len(o) == 0 {
		return cmp.Compare(a, b)
	}
	return slices.Compare(o.path(a), o.path(b))
}
