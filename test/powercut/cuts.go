package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/engined/engined/engine/store"
)

// Tally counts what was tried and what came of it.
type Tally struct {
	mu sync.Mutex
	n  map[string]int
}

// Add counts one of each.
func (t *Tally) Add(what ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	for _, w := range what {
		t.n[w]++
	}
}

// Get returns a count.
func (t *Tally) Get(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[what]
}

// String lists the counts, one a line.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for what, n := range t.n {
		lines = append(lines, fmt.Sprintf("%-46s %8d", what, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Cuts cuts the power in a script.
type Cuts struct {
	*Script
	Tally
	Plant *Plant
	// Thorough tries out what is else left to chance: every second cut, every
	// mode, after each kill a sync that fails.
	Thorough bool

	seen sync.Map // by the sum of a disk: which moment it was found to show
}

// Part cuts the power before and after every operation of a part: it judges, in
// every mode, what would survive if it went just then. Those who wait for an
// answer do not get it.
func (c *Cuts) Part(ctx context.Context, part *Part) error {
	ops := 0
	err := c.Forks(ctx, part, c.Plant, func(d *Disk, call, n int) error {
		defer d.Release()
		ops = n
		rng := rand.New(rand.NewPCG(uint64(part.First), uint64(n)))
		landed, err := c.modes(ctx, part, d, call, rng)
		if err != nil || !landed {
			return err
		}
		// The process dies here and the machine lives on.
		c.Add("kills")
		court := c.court(part, call, rng)
		if _, _, err := court.Judge(ctx, d.Clone()); err != nil {
			return c.story(part, d, call, n, fmt.Errorf("killed: %w", err))
		}
		if !c.Thorough && rng.IntN(3) > 0 {
			return nil
		}
		if err := c.killed(ctx, court, d); err != nil {
			return c.story(part, d, call, n, fmt.Errorf("killed: %w", err))
		}
		return nil
	})
	if err == nil && ops != part.Ops {
		err = fmt.Errorf("%w: %d of %d operations were cut at", ErrVoid, ops, part.Ops)
	}
	return err
}

// killed lets a sync fail while the database is opened after a kill. Whether the
// next process comes at once, and finds a page cache that takes what is not on
// the disk for written, or after a power cut: the database is whole.
func (c *Cuts) killed(ctx context.Context, court *Court, d *Disk) error {
	p := Start(d.Clone(), court.Tune, court.Plant)
	defer p.End()
	p.Disk.Arm(FailSync, 1+court.Rng.IntN(4))
	a, err := p.Do(ctx, &Call{What: "open", New: court.New})
	fired, op := p.Disk.Fired()
	switch {
	case fired != FailSync && a == Done:
		c.Add("syncs that fail, after a kill: none was due")
		return nil
	case fired != FailSync || a != Unknown:
		return fmt.Errorf("a sync fails in the opening (%v): %s: %w", op, a, err)
	}
	c.Add("syncs that fail, after a kill", fmt.Sprintf("syncs that fail, after a kill: %s of %s", op.Kind, short(op.Name)))
	return c.afterFailure(ctx, court, p.Disk, op)
}

// afterFailure judges a disk on which a sync has failed, for the process that
// starts at once and for those that start after a power cut.
func (c *Cuts) afterFailure(ctx context.Context, court *Court, d *Disk, op Op) error {
	court.Sure = true
	if _, _, err := court.Judge(ctx, d.Clone()); err != nil {
		return fmt.Errorf("a sync failed (%v), and the next process starts at once: %w", op, err)
	}
	modes := []Mode{Lost, Whole, Torn}
	if !c.Thorough {
		modes = []Mode{pick(court.Rng, modes...)}
	}
	for _, m := range modes {
		if _, _, err := court.Judge(ctx, d.Survive(m, court.Rng)); err != nil {
			return fmt.Errorf("a sync failed (%v), and the power went, %v: %w", op, m, err)
		}
	}
	return nil
}

// modes judges the disk in all modes. It tells whether in one of them a call has
// landed that was not answered.
func (c *Cuts) modes(ctx context.Context, part *Part, d *Disk, call int, rng *rand.Rand) (landed bool, err error) {
	for _, m := range []Mode{Lost, Whole, Torn} {
		c.Add("cuts", "cuts: "+m.String(), "cuts in "+c.what(part, call))
		shown, err := c.judge(ctx, c.court(part, call, rng), d.Survive(m, rng))
		if err != nil {
			return false, c.story(part, d, call, 0, fmt.Errorf("%v: %w", m, err))
		}
		landed = landed || shown > 0
	}
	return landed, nil
}

func (c *Cuts) what(part *Part, call int) string {
	if call == len(part.Calls) {
		return "nothing"
	}
	return part.Calls[call].What
}

// story tells where the power went.
func (c *Cuts) story(part *Part, d *Disk, call, n int, err error) error {
	running := "nothing"
	if call < len(part.Calls) {
		running = part.Calls[call].String()
	}
	return fmt.Errorf("the power goes after operation %d of the part from call %d on (%v), in %s: %w", n, part.First, part.Tune, running, err)
}

// court knows what the database may show if the call gets no answer.
func (c *Cuts) court(part *Part, call int, rng *rand.Rand) *Court {
	at := part.First + call
	court := &Court{Allowed: c.Moments[at : at+1], New: at == 0, Now: 5000, Tune: part.Tune, Plant: c.Plant, Thorough: c.Thorough, Rng: rng}
	if call == len(part.Calls) || c.Moments[at] == c.Moments[at+1] {
		return court
	}
	court.Allowed = c.Moments[at : at+2]
	if part.Calls[call].What == "commit" {
		court.Late = part.Calls[call].Batch
	}
	return court
}

// judge judges a disk, and sometimes cuts the power again while the database is
// opened. A disk that was judged before is not opened again.
func (c *Cuts) judge(ctx context.Context, court *Court, d *Disk) (shown int, err error) {
	sum := d.Sum()
	if known, ok := c.seen.Load(sum); ok {
		d.Release()
		shown := slices.Index(court.Allowed, known.(*Moment))
		if shown < 0 {
			return 0, errors.New("a disk of the same content was found to show another moment")
		}
		c.Add("cuts that left a disk seen before")
		return shown, nil
	}
	again := d.Clone()
	defer again.Release()
	shown, opening, err := court.Judge(ctx, d)
	if err != nil {
		return 0, err
	}
	if shown > 0 {
		c.Add("cuts after which an unanswered call stood")
	}
	c.seen.Store(sum, court.Allowed[shown])
	switch {
	case c.Thorough:
		for n := 1; n <= opening && err == nil; n++ {
			err = c.second(ctx, court, again, n)
		}
	case opening > 3 && court.Rng.IntN(4) == 0:
		err = c.second(ctx, court, again, 1+court.Rng.IntN(opening))
	}
	return shown, err
}

// second cuts the power at the n-th operation of the opening, and judges.
func (c *Cuts) second(ctx context.Context, court *Court, d *Disk, n int) error {
	p := Start(d.Clone(), court.Tune, court.Plant)
	defer p.End()
	p.Disk.Arm(Cut, n)
	a, err := p.Do(ctx, &Call{What: "open", New: court.New})
	fired, op := p.Disk.Fired()
	if fired != Cut {
		return fmt.Errorf("second cut, at operation %d of the opening: %w", n, ErrVoid)
	}
	if a != Unknown {
		return fmt.Errorf("second cut, at operation %d of the opening (%v): it says %s (%w)", n, op, a, err)
	}
	m := Modes[court.Rng.IntN(len(Modes))]
	c.Add("second cuts, while opening", fmt.Sprintf("second cuts: %s of %s", op.Kind, short(op.Name)))
	if _, _, err := court.Judge(ctx, p.Disk.Survive(m, court.Rng)); err != nil {
		return fmt.Errorf("second cut, at operation %d of the opening (%v); %v: %w", n, op, m, err)
	}
	return nil
}

// Dead lets the disk die at the n-th operation of a part and hears what the
// store says to that. Where it dares to say what stands, it is held to its word.
func (c *Cuts) Dead(ctx context.Context, part *Part, n int) error {
	b, err := c.Run(ctx, part, Cut, n, c.Plant)
	defer func() { b.Proc.End() }()
	if err != nil {
		return err
	}
	call := part.Calls[b.Call]
	c.Add("dead disks", fmt.Sprintf("dead disks: at %s of %s", b.Op.Kind, short(b.Op.Name)), "dead disks: "+call.What+" said "+string(b.Answer))
	tell := func(err error) error {
		return c.story(part, b.Proc.Disk, b.Call, n-1, fmt.Errorf("the disk died at %v; the answer was %s (%v): %w", b.Op, b.Answer, b.Err, err))
	}
	if b.Proc.Store != nil {
		// Whoever lives without a disk must not say that anything is done.
		if a, _ := b.Proc.Do(ctx, &Call{What: "fence", Shards: allShards(), Now: 1}); a == Done {
			return tell(errors.New("after that a fence succeeds"))
		}
	}
	rng := rand.New(rand.NewPCG(uint64(part.First), uint64(n)))
	court := c.court(part, b.Call, rng)
	switch {
	case b.Answer == Done:
		court.Allowed = court.Allowed[len(court.Allowed)-1:]
	case !b.Answer.ran():
		court.Allowed = court.Allowed[:1]
	default:
		return nil // it stands or it does not: Part has judged that
	}
	// Of the operation at which the disk died nothing was done.
	for _, m := range []Mode{Lost, Gone} {
		c.Add("dead disks judged by the answer")
		if _, _, err := court.Judge(ctx, b.Proc.Disk.Survive(m, rng)); err != nil {
			return tell(fmt.Errorf("%v: %w", m, err))
		}
	}
	return nil
}

// allSyncs lets every sync of a part fail, one at a time.
func (c *Cuts) allSyncs(ctx context.Context, part *Part) error {
	for n := 1; n <= part.Ops; n++ {
		at, err := c.SyncFails(ctx, part, n)
		if err != nil {
			return err
		}
		n = at
	}
	return nil
}

// SyncFails lets the next sync from the n-th operation of a part on fail once.
// The store must end, or go on as if nothing were: a copy of the log into the
// database is made again. It tells which operation failed.
func (c *Cuts) SyncFails(ctx context.Context, part *Part, n int) (at int, err error) {
	b, err := c.Run(ctx, part, FailSync, n, c.Plant)
	defer func() { b.Proc.End() }()
	if errors.Is(err, ErrVoid) {
		return part.Ops, nil // there is no more
	}
	tell := func(err error) error {
		return c.story(part, b.Proc.Disk, b.Call, b.Op.N, fmt.Errorf("the sync failed; the answer was %s (%v): %w", b.Answer, b.Err, err))
	}
	if err != nil {
		return 0, tell(err)
	}
	call := part.Calls[b.Call]
	c.Add("syncs that fail", fmt.Sprintf("syncs that fail: %s of %s", b.Op.Kind, short(b.Op.Name)), "syncs that fail: "+call.What+" said "+string(b.Answer))
	at, rng := b.Op.N, rand.New(rand.NewPCG(uint64(part.First), uint64(n)))
	switch {
	case b.Answer == Unknown && (call.What == "open" || call.What == "close"):
	case b.Answer == Fatal:
		for _, next := range []*Call{{What: "fence", Shards: allShards(), Now: 1}, {What: "commit", Batch: &store.Batch{}}} {
			if a, err := b.Proc.Do(ctx, next); a != Fatal {
				return at, tell(fmt.Errorf("%v after the end: %s (%w)", next, a, err))
			}
		}
	case b.Answer == Done:
		return at, c.goesOn(ctx, part, b, rng)
	default:
		return at, tell(errors.New("that is not what a failed sync is"))
	}
	if err := c.afterFailure(ctx, c.court(part, b.Call, rng), b.Proc.Disk, b.Op); err != nil {
		return at, tell(err)
	}
	if call.What == "open" || call.What == "close" {
		return at, nil
	}
	// It may also end in good order.
	_, _ = b.Proc.Do(ctx, &Call{What: "close"})
	if err := c.afterFailure(ctx, c.court(part, b.Call, rng), b.Proc.Disk, b.Op); err != nil {
		return at, tell(fmt.Errorf("the store was closed: %w", err))
	}
	return at, nil
}

// goesOn makes the calls that are left, and cuts the power at one of them.
func (c *Cuts) goesOn(ctx context.Context, part *Part, b *Broke, rng *rand.Rand) error {
	next := b.Call + 1
	for stop := next + rng.IntN(len(part.Calls)-b.Call); next < stop; next++ {
		if a, err := b.Proc.Do(ctx, part.Calls[next]); a != part.Want[next] {
			return fmt.Errorf("%v after a failed sync (%v): %s: %w", part.Calls[next], b.Op, a, err)
		}
	}
	court := c.court(part, next, rng)
	court.Allowed = court.Allowed[:1]
	if err := c.afterFailure(ctx, court, b.Proc.Disk, b.Op); err != nil {
		return c.story(part, b.Proc.Disk, next, b.Proc.Disk.Ops(), err)
	}
	return nil
}
