package sim

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
)

// Plan is what a seed is made of. All of it is drawn from the seed by NewPlan, and
// may be made smaller by Shrink.
type Plan struct {
	Seed    uint64
	Shards  int
	Workers int
	Slots   int
	Clients int
	// IDs are the workflow ids that clients share, Ops what each of them asks.
	IDs, Ops int
	// Resident bounds the runs in an engine's memory.
	Resident int
	// Every is the mean time between two faults of processes and streams, in
	// ns; Faults are those that happen.
	Every  int64
	Faults []string
	// Chances, by operation.
	CommitUnknown, CommitRefused, CommitFatal, CommitUnavailable float64
	ReadFails, Slow                                              float64
	RequestLost, AnswerLost, RequestTwice                        float64
	// Code: how often a worker of a bad build cannot go on with a run.
	BadBuild float64
	// Steps bound the safety phase.
	Steps int
}

// Faults are those of processes and streams.
var Faults = []string{
	"kill engine", "cut power", "stop engine", "freeze engine", "two engines", "clock back", "clock forth",
	"kill worker", "freeze worker", "drain worker", "cut stream", "half-open stream", "disk full", "flood",
}

// NewPlan draws a plan.
func NewPlan(seed uint64) Plan {
	rnd := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed: seed, Shards: 1 + rnd.IntN(3), Workers: 1 + rnd.IntN(3), Slots: 1 + rnd.IntN(4),
		Clients: 1 + rnd.IntN(3), IDs: 1 + rnd.IntN(4), Ops: 4 + rnd.IntN(12), Resident: 2 + rnd.IntN(12),
		Every: int64(100e6) << rnd.IntN(7), Steps: 600 + rnd.IntN(1800),
	}
	// Each seed has some of the faults, so that each is met alone and in company.
	for _, f := range Faults {
		if rnd.IntN(3) == 0 {
			p.Faults = append(p.Faults, f)
		}
	}
	some := func(chance float64) float64 {
		if rnd.IntN(3) > 0 {
			return 0
		}
		return chance * rnd.Float64()
	}
	p.CommitUnknown, p.CommitRefused, p.CommitFatal, p.CommitUnavailable = some(0.1), some(0.03), some(0.01), some(0.1)
	p.ReadFails, p.Slow = some(0.05), some(0.1)
	p.RequestLost, p.AnswerLost, p.RequestTwice = some(0.2), some(0.2), some(0.2)
	p.BadBuild = some(0.3)
	return p
}

func (p Plan) String() string {
	b, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// smaller lists plans that are the same, but for one thing less.
func (p Plan) smaller() []Plan {
	var all []Plan
	add := func(change func(q *Plan)) {
		q := p
		q.Faults = slices.Clone(p.Faults)
		change(&q)
		if q.String() != p.String() {
			all = append(all, q)
		}
	}
	for i := range p.Faults {
		add(func(q *Plan) { q.Faults = slices.Delete(q.Faults, i, i+1) })
	}
	for _, chance := range []func(q *Plan) *float64{
		func(q *Plan) *float64 { return &q.CommitUnknown }, func(q *Plan) *float64 { return &q.CommitRefused },
		func(q *Plan) *float64 { return &q.CommitFatal }, func(q *Plan) *float64 { return &q.CommitUnavailable },
		func(q *Plan) *float64 { return &q.ReadFails }, func(q *Plan) *float64 { return &q.Slow },
		func(q *Plan) *float64 { return &q.RequestLost }, func(q *Plan) *float64 { return &q.AnswerLost },
		func(q *Plan) *float64 { return &q.RequestTwice }, func(q *Plan) *float64 { return &q.BadBuild },
	} {
		add(func(q *Plan) { *chance(q) = 0 })
	}
	for _, n := range []func(q *Plan) *int{
		func(q *Plan) *int { return &q.Ops }, func(q *Plan) *int { return &q.IDs }, func(q *Plan) *int { return &q.Clients },
		func(q *Plan) *int { return &q.Workers }, func(q *Plan) *int { return &q.Shards }, func(q *Plan) *int { return &q.Slots },
	} {
		add(func(q *Plan) { *n(q) = max(*n(q)/2, 1) })
		add(func(q *Plan) { *n(q) = max(*n(q)-1, 1) })
	}
	return all
}
