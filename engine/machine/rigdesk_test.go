package machine

import (
	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
)

// rigDesk is the rig's Desk, on the real matcher.
type rigDesk rig

func matchNeed(n Need, excluded []string) match.Need {
	return match.Need{Namespace: n.Namespace, Queue: n.Queue, Type: n.Type, Prefer: n.Prefer, Excluded: excluded, Suspect: n.Suspect}
}

func matchKey(d DeliveryKey) match.DeliveryKey {
	return match.DeliveryKey{Run: int64(d.Run), Op: d.Op, Role: int32(d.Role), Delivery: d.Delivery}
}

func (d *rigDesk) Assign(run store.RunNo, n Need, excluded []string) (string, bool) {
	return d.m.Assign(match.RunKey(run), matchNeed(n, excluded))
}
func (d *rigDesk) Unassign(run store.RunNo) { (*rig)(d).offer(d.m.Unassign(match.RunKey(run))) }
func (d *rigDesk) Slot(k DeliveryKey, n Need) (string, bool) {
	return d.m.Slot(matchKey(k), matchNeed(n, nil))
}
func (d *rigDesk) Hold(k DeliveryKey, worker string, suspect bool) bool {
	return d.m.Hold(matchKey(k), worker, suspect)
}
func (d *rigDesk) Leave(run store.RunNo) {
	(*rig)(d).offer(d.m.Reset(func(no int64) bool { return no == int64(run) }))
}
func (d *rigDesk) Free(k DeliveryKey, worker string) {
	if worker == anyone {
		(*rig)(d).offer(d.m.Free(matchKey(k)))
	} else {
		(*rig)(d).offer(d.m.Answered(matchKey(k), worker))
	}
}
func (d *rigDesk) Unfolded(run store.RunNo, worker string, bytes int64) {
	(*rig)(d).offer(d.m.Unfolded(match.RunKey(run), worker, bytes))
}
