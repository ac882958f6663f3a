package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/engined/engined/engine/store"
)

// Lives are the lives of one database under a seed: processes that open it, write
// and are interrupted, one after the other.
type Lives struct {
	*Planner
	Tally *Tally
	Plant *Plant

	rng     *rand.Rand
	disk    *Disk // what the next process finds
	tune    Tuning
	created bool
	open    *Call        // that was not answered, until the next process shows what became of it
	late    *store.Batch // that no fence has ended yet
	story   []string
	// Of the process that lives:
	proc  *Process
	fault Fault // armed, and not yet met
	ended bool
	// unheard is set if the last answer was that nothing was written, and the
	// power gone already.
	unheard bool
}

// Live runs the lives of a seed. The error tells their story.
func Live(ctx context.Context, seed uint64, tally *Tally, plant *Plant) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	l := &Lives{Planner: NewPlanner(NewOracle(), rng), Tally: tally, Plant: plant, rng: rng, disk: NewDisk()}
	defer func() { l.disk.Release() }()
	l.tune = Tuning{Checkpoint: pick(rng, 0, 5, 20, 40, 150), Cache: pick(rng, 0, 0, 5, 10, 50)}
	lives := 2 + rng.IntN(4)
	for i := range lives {
		fault := NoFault
		if i < lives-1 {
			fault = pick(rng, Cut, Cut, Cut, Cut, FailSync, FailWrite, Full, NoFault)
		}
		l.tell("life %d, %v", i+1, fault)
		if err := l.live(ctx, fault); err != nil {
			return fmt.Errorf("seed %d, %+v: %w\n%s", seed, l.tune, err, strings.Join(l.story, "\n"))
		}
	}
	tally.Add("seeds")
	return nil
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (l *Lives) tell(format string, args ...any) {
	l.story = append(l.story, fmt.Sprintf("  "+format, args...))
}

// live is the life of one process.
func (l *Lives) live(ctx context.Context, fault Fault) error {
	l.proc, l.fault, l.ended, l.unheard = Start(l.disk, l.tune, l.Plant), fault, false, false
	l.disk = l.disk.Clone() // should it go on without a word
	calls := l.rng.IntN(20)
	at := l.rng.IntN(calls+2) - 1 // -1: in the opening
	if at < 0 {
		l.arm()
	}
	err := l.opening(ctx)
	for i := 0; err == nil && !l.ended && i < calls; i++ {
		if i == at {
			l.arm()
		}
		err = l.write(ctx)
	}
	if err == nil && !l.ended && at == calls {
		l.arm()
	}
	for i := 0; err == nil && !l.ended && l.fault != NoFault; i++ {
		if i < 40 {
			err = l.write(ctx)
			continue
		}
		// Nothing but a close has what it waits for.
		a, closing := l.proc.Do(ctx, &Call{What: "close"})
		l.tell("close: %s (%v)", a, closing)
		if l.ended = true; !l.met() {
			err = ErrVoid
		}
	}
	if err == nil {
		err = l.end(ctx)
	}
	if err != nil {
		for _, op := range l.proc.Disk.Trace(25) {
			l.tell("   %v", op)
		}
	}
	l.proc.End()
	return err
}

func (l *Lives) arm() {
	if l.fault != NoFault {
		n, arm := 1+l.rng.IntN(60), l.proc.Disk.Arm
		if l.rng.IntN(2) == 0 {
			arm = l.proc.Disk.ArmRare
		}
		arm(l.fault, n)
		l.tell("%v armed, %d operations from here", l.fault, n)
	}
}

// met notes whether the fault has happened.
func (l *Lives) met() bool {
	f, op := l.proc.Disk.Fired()
	if f != NoFault && l.fault != NoFault {
		l.fault = NoFault
		l.Tally.Add("faults: "+f.String(), fmt.Sprintf("faults: %v at %s of %s", f, op.Kind, short(op.Name)))
		l.tell("%v at %v", f, op)
		l.ended = l.ended || f == Cut
	}
	return f != NoFault
}

// opening opens the database, and holds what it shows against the oracle.
func (l *Lives) opening(ctx context.Context) error {
	a, err := l.proc.Do(ctx, &Call{What: "open", New: !l.created})
	met := l.met()
	l.tell("open: %s (%v)", a, err)
	if a != Done {
		l.ended = true
		if !met {
			return fmt.Errorf("open: %w", err)
		}
		return nil
	}
	if l.ended {
		return errors.New("open succeeds without power")
	}
	l.created = true
	landed, err := l.settle(ctx)
	if err != nil {
		return err
	}
	if landed || l.rng.IntN(4) == 0 {
		l.Tally.Add("lives whose reads were held against another power cut")
		if err := l.lasts(ctx, l.proc.Disk.Survive(pick(l.rng, Lost, Torn), l.rng)); err != nil {
			return fmt.Errorf("after it was read, and the power cut again: %w", err)
		}
	}
	if l.rng.IntN(8) == 0 && l.shards[0].Epoch > 0 {
		return nil // on with the old leases
	}
	return l.do(ctx, l.Fence())
}

// settle finds out what became of the call without an answer.
func (l *Lives) settle(ctx context.Context) (landed bool, err error) {
	got, err := ReadRows(l.proc.Driver.First())
	if err != nil {
		return false, err
	}
	m, err := l.Moment(ctx)
	if err != nil {
		return false, err
	}
	diff := got.Diff(m.Rows)
	if diff != "" && l.open != nil {
		if _, err := l.Apply(ctx, l.open); err != nil {
			return false, err
		}
		if m, err = l.Moment(ctx); err != nil {
			return false, err
		}
		if also := got.Diff(m.Rows); also != "" {
			return false, fmt.Errorf("not as acknowledged: %s\nnor as after the call without an answer: %s", diff, also)
		}
		landed, diff = true, ""
		l.Tally.Add("calls without an answer that stood")
		l.tell("the call without an answer stands")
	} else if l.open != nil {
		l.Tally.Add("calls without an answer that were gone")
	}
	if diff != "" {
		return false, fmt.Errorf("not as acknowledged: %s", diff)
	}
	l.open = nil
	if l.rng.IntN(4) > 0 {
		return landed, nil
	}
	st, err := Observe(ctx, l.proc.Store, m.Keys)
	if err != nil {
		return landed, err
	}
	if diff := st.Diff(m.State); diff != "" {
		return landed, fmt.Errorf("the store does not show what its tables have: %s", diff)
	}
	return landed, nil
}

// lasts wants a disk to show what the oracle has.
func (l *Lives) lasts(ctx context.Context, d *Disk) error {
	m, err := l.Moment(ctx)
	if err != nil {
		d.Release()
		return err
	}
	p := Start(d, l.tune, l.Plant)
	defer p.End()
	c := &Court{Allowed: []*Moment{m}, Rng: l.rng}
	_, err = c.reopen(ctx, p)
	return err
}

// write makes one call.
func (l *Lives) write(ctx context.Context) error {
	switch n := l.rng.IntN(20); {
	case n == 0:
		return l.do(ctx, l.Fence(allShards()[:1+l.rng.IntN(Shards)]...))
	case n == 1:
		c, err := l.Late(ctx)
		if err != nil {
			return err
		}
		return l.do(ctx, c)
	case n == 2 && l.late != nil:
		c := &Call{What: "commit", About: "what had no answer, again", Batch: l.late}
		l.late = nil
		return l.do(ctx, c)
	}
	s := Shape{Starts: l.rng.IntN(3), Steps: l.rng.IntN(5), Ends: l.rng.IntN(2), Payload: l.rng.IntN(500), Spoil: l.rng.IntN(10) == 0}
	if l.rng.IntN(12) == 0 {
		s.Payload = 1 << (12 + l.rng.IntN(6))
	}
	c, err := l.Commit(ctx, s)
	if err != nil {
		return err
	}
	return l.do(ctx, c)
}

// do makes a call and holds the answer against the oracle's.
func (l *Lives) do(ctx context.Context, c *Call) error {
	a, err := l.proc.Do(ctx, c)
	met := l.met()
	l.tell("%v: %s (%v)", c, a, err)
	l.Tally.Add("calls: " + c.What + " " + string(a))
	switch a {
	case Done, Refused, LeaseLost:
		want, err := l.Apply(ctx, c)
		if a != want || err != nil {
			return fmt.Errorf("%v: %s, the oracle: %s (%w)", c, a, want, err)
		}
		if c.What == "fence" && !slices.Equal(l.proc.leases, l.given) {
			return fmt.Errorf("fence: leases %v, the oracle's %v", l.proc.leases, l.given)
		}
		return nil
	case Unavailable:
		if !met {
			return fmt.Errorf("%v: unavailable without a fault: %w", c, err)
		}
		if l.ended {
			l.open, l.late, l.unheard = c, c.Batch, true
		}
		return nil
	case Unknown, Fatal:
		if !met {
			return fmt.Errorf("%v: %s without a fault: %w", c, a, err)
		}
		l.open, l.late = c, c.Batch
		return l.isOver(ctx)
	}
	return fmt.Errorf("%v: %s: %w", c, a, err)
}

// isOver wants a store that has ended to say so.
func (l *Lives) isOver(ctx context.Context) error {
	l.ended = true
	for _, c := range []*Call{{What: "fence", Shards: allShards(), Now: l.now}, {What: "commit", Batch: &store.Batch{}}} {
		if a, err := l.proc.Do(ctx, c); a != Fatal {
			return fmt.Errorf("%v after the end: %s (%w)", c, a, err)
		}
	}
	return nil
}

// end is how the process ends, and what of the disk the next one finds.
func (l *Lives) end(ctx context.Context) error {
	f, _ := l.proc.Disk.Fired()
	how := pick(l.rng, "close", "kill", "cut", "cut")
	switch {
	case f == Cut:
		how = "cut"
	case how == "close" && l.proc.Store == nil:
		how = "kill"
	}
	if how == "close" {
		if a, err := l.proc.Do(ctx, &Call{What: "close"}); a != Done && !l.met() {
			return fmt.Errorf("close: %w", err)
		}
	}
	l.disk.Release()
	if how != "cut" {
		l.tell("%s", how)
		l.Tally.Add("ends: " + how)
		l.disk = l.proc.Disk.Clone()
		return nil
	}
	m := pick(l.rng, Modes...)
	if l.unheard && (m == Lost || m == Gone) {
		l.open = nil // nothing of the last operation was done: the answer holds
	}
	l.tell("cut: %v", m)
	l.Tally.Add("ends: cut", "ends: cut, "+m.String())
	l.disk = l.proc.Disk.Survive(m, l.rng)
	return nil
}
