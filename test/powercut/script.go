package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Script is a long life of a database, cut into parts that each begin with the
// opening of a disk, so that any moment of it can be reached fast.
type Script struct {
	Parts []*Part
	// Moments are what the database must show after that many calls.
	Moments []*Moment
}

// Part is one process of a script.
type Part struct {
	Start *Disk // to be cloned
	First int   // the number of calls before
	Calls []*Call
	Want  []Answer
	Tune  Tuning
	End   string // "close", "kill", "cut"
	Ops   int    // on the disk
}

const (
	scriptParts   = 16
	scriptCommits = 18 // a part
)

// NewScript makes up a script, runs it once without a fault, and compares it
// with the oracle all the way.
func NewScript(ctx context.Context, seed uint64) (*Script, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := NewOracle()
	b := &scriptBuilder{Planner: NewPlanner(o, rng), s: &Script{}, disk: NewDisk()}
	if err := b.moment(ctx, true); err != nil {
		return nil, err
	}
	for i := range scriptParts {
		if err := b.part(ctx, i); err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
	}
	b.disk.Release()
	return b.s, nil
}

// Release gives back the disks.
func (s *Script) Release() {
	for _, p := range s.Parts {
		p.Start.Release()
	}
}

// Calls counts all calls.
func (s *Script) Calls() int { return len(s.Moments) - 1 }

type scriptBuilder struct {
	*Planner
	s    *Script
	disk *Disk
	cur  *Part
	proc *Process
}

// moment notes what must be there now.
func (b *scriptBuilder) moment(ctx context.Context, changed bool) error {
	m := b.s.Moments
	if !changed {
		b.s.Moments = append(m, m[len(m)-1])
		return nil
	}
	next, err := b.Moment(ctx)
	b.s.Moments = append(m, next)
	return err
}

func (b *scriptBuilder) part(ctx context.Context, i int) error {
	b.cur = &Part{Start: b.disk.Clone(), First: b.s.Calls(), End: []string{"close", "kill", "close", "cut"}[i%4]}
	b.cur.Tune = []Tuning{{Checkpoint: 40}, {Checkpoint: 40, Cache: 10}, {Checkpoint: 150}}[i%3]
	b.proc = Start(b.disk, b.cur.Tune, nil)
	err := b.do(ctx, &Call{What: "open", New: i == 0})
	if err == nil {
		err = b.do(ctx, b.Fence())
	}
	for j := 0; j < scriptCommits && err == nil; j++ {
		err = b.commit(ctx, i, j)
	}
	if err == nil && b.cur.End == "close" {
		err = b.do(ctx, &Call{What: "close"})
	}
	if err != nil {
		return err
	}
	b.cur.Ops = b.proc.Disk.Ops()
	b.s.Parts = append(b.s.Parts, b.cur)
	if b.cur.End == "cut" {
		b.disk = b.proc.Disk.Survive(Lost, b.rng)
	} else {
		b.disk = b.proc.Disk.Clone()
	}
	b.proc.End()
	return nil
}

// commit plans the j-th batch of the i-th part, and sends it.
func (b *scriptBuilder) commit(ctx context.Context, i, j int) error {
	shape := Shape{Steps: 1 + b.rng.IntN(3), Payload: 30 + b.rng.IntN(400)}
	switch j {
	case 0:
		shape.Starts = 1 + b.rng.IntN(2)
	case 3:
		shape.Spoil = i%4 != 3
	case 7:
		shape.Ends = 1
	case 9:
		c, err := b.Late(ctx)
		if err != nil {
			return err
		}
		return b.do(ctx, c)
	case 12:
		return b.do(ctx, b.Fence(allShards()[:1+b.rng.IntN(3)]...))
	case 14:
		shape.Starts, shape.Steps = 1, 4
	case 15:
		if i%5 == 2 {
			shape.Payload = 60_000
		}
	case 17:
		shape.Ends = 2
	}
	c, err := b.Commit(ctx, shape)
	if err != nil {
		return err
	}
	return b.do(ctx, c)
}

// do makes the call on the database and on the oracle.
func (b *scriptBuilder) do(ctx context.Context, c *Call) error {
	got, err := b.proc.Do(ctx, c)
	want, oracleErr := b.Apply(ctx, c)
	if got != want || oracleErr != nil {
		return fmt.Errorf("%v: %s (%v), the oracle: %s (%v)", c, got, err, want, oracleErr)
	}
	b.cur.Calls = append(b.cur.Calls, c)
	b.cur.Want = append(b.cur.Want, want)
	return b.moment(ctx, want == Done && (c.What == "fence" || c.What == "commit"))
}

// Forks runs a part without a fault. Before each operation, and once at the end,
// it calls do with a copy of the disk as it is then, the call of the part that is
// running, and how many operations were done. It stops at the first error.
func (s *Script) Forks(ctx context.Context, part *Part, plant *Plant, do func(d *Disk, call, ops int) error) error {
	p := Start(part.Start.Clone(), part.Tune, plant)
	defer func() { p.End() }()
	call, stop := 0, error(nil)
	p.Disk.Watch(func(fork *Disk, ops int) {
		if stop == nil {
			stop = do(fork, call, ops)
		}
	})
	for i, c := range part.Calls {
		call = i
		a, err := p.Do(ctx, c)
		if stop != nil {
			return stop
		}
		if a != part.Want[i] {
			return fmt.Errorf("%v: %s: %w", c, a, err)
		}
	}
	p.Disk.Watch(nil)
	return do(p.Disk.Clone(), len(part.Calls), p.Disk.Ops())
}

// ErrVoid says that what was to happen did not.
var ErrVoid = errors.New("void: the fault did not happen")

// Broke is a part that a fault has broken off, or has not.
type Broke struct {
	Proc   *Process
	Call   int // of the part: during which the fault happened
	Answer Answer
	Err    error
	Op     Op // at which
}

// Run runs a part up to the call during which the fault happens.
func (s *Script) Run(ctx context.Context, part *Part, f Fault, n int, plant *Plant) (*Broke, error) {
	b := &Broke{Proc: Start(part.Start.Clone(), part.Tune, plant)}
	b.Proc.Disk.Arm(f, n)
	for i, c := range part.Calls {
		b.Call = i
		b.Answer, b.Err = b.Proc.Do(ctx, c)
		var fired Fault
		if fired, b.Op = b.Proc.Disk.Fired(); fired != NoFault {
			if b.Answer == Broken || b.Answer == Done && part.Want[i] != Done {
				return b, fmt.Errorf("%v: %s: %w", c, b.Answer, b.Err)
			}
			return b, nil
		}
		if b.Answer != part.Want[i] {
			return b, fmt.Errorf("%v: %s: %w", c, b.Answer, b.Err)
		}
	}
	return b, ErrVoid
}
