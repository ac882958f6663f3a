// Package chaos plans the faults of the example's services by a seed.
//
// It owns the kinds of faults and who meets which one when. It must not know how
// a fault is made to happen: the services do that, and count what happened.
package chaos

// Kind is a kind of fault. Its text stands in the services' ledgers.
type Kind string

// The kinds of faults. None is the absence of one.
const (
	None Kind = ""
	// Refuse: the service refuses for good, as if its trade did not allow it.
	Refuse Kind = "refused by the seed"
	// Slow: the answer takes its time.
	Slow Kind = "slow"
	// LoseRequest: the connection is cut before the service has seen the call.
	LoseRequest Kind = "request lost"
	// DieBefore: the process kills itself before it does the work.
	DieBefore Kind = "died before the work"
	// LoseAnswer: the work is committed, and the connection cut.
	LoseAnswer Kind = "answer lost after the work"
	// DieAfter: the work is committed, and the process kills itself.
	DieAfter Kind = "died after the work"
	// Late: the connection is cut, and the call is delivered later.
	Late Kind = "delivered late"
	// LateAfterUndo: the same, with nothing else of the call getting through, and
	// the delivery after the call was undone.
	LateAfterUndo Kind = "delivered after its undo"
)

// Wanted are the kinds of which a run must have seen at least one each.
func Wanted() []Kind {
	return []Kind{Refuse, Slow, LoseRequest, DieBefore, LoseAnswer, DieAfter, Late, LateAfterUndo}
}
