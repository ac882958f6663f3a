package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/engined/engined/engine/store"
)

// Court judges disks on which a database was interrupted.
type Court struct {
	// Allowed are the moments that the database may show, the one that was
	// acknowledged first, one that may have landed behind it.
	Allowed []*Moment
	// New is set as long as no Open has said that the database is there.
	New bool
	// Late is the batch that may have landed, if any: it must not after a fence.
	Late *store.Batch
	// Now is the time of the fence.
	Now int64
	// Sure has all that was read held against another power cut; else that is
	// done for what was not acknowledged, and now and then.
	Sure bool
	// Thorough leaves nothing to chance that can be tried out.
	Thorough bool
	Tune     Tuning
	Plant    *Plant
	Rng      *rand.Rand
}

// Judge opens what is on the disk, as a new process would, and ends with the
// disk. It returns which of the moments was shown, and how many operations the
// opening took.
func (c *Court) Judge(ctx context.Context, d *Disk) (shown, opening int, err error) {
	p := Start(d, c.Tune, c.Plant)
	defer func() { p.End() }()
	if shown, err = c.reopen(ctx, p); err != nil {
		return 0, 0, err
	}
	opening = p.Disk.Ops()
	if c.Sure || shown > 0 || c.Rng.IntN(16) == 0 {
		// What was read once cannot be lost any more, whatever was unsynced.
		modes := []Mode{Lost, Torn}
		if !c.Thorough {
			modes = []Mode{pick(c.Rng, modes...)}
		}
		for _, m := range modes {
			if err := c.again(ctx, p.Disk.Survive(m, c.Rng), shown); err != nil {
				return 0, 0, fmt.Errorf("after it was read, and the power cut again, %v: %w", m, err)
			}
		}
	}
	if err := c.goOn(ctx, p, c.Allowed[shown]); err != nil {
		return 0, 0, fmt.Errorf("going on: %w", err)
	}
	return shown, opening, nil
}

// reopen opens the database and finds out which moment it shows.
func (c *Court) reopen(ctx context.Context, p *Process) (shown int, err error) {
	if a, err := p.Do(ctx, &Call{What: "open", New: c.New}); a != Done {
		return 0, fmt.Errorf("open: %w", err)
	}
	if n := p.Store.Info().Shards; n != Shards {
		return 0, fmt.Errorf("the database has %d shards, want %d", n, Shards)
	}
	got, err := ReadRows(p.Driver.First())
	if err != nil {
		return 0, err
	}
	var diffs []error
	for i, m := range c.Allowed {
		diff := got.Diff(m.Rows)
		if diff == "" {
			return i, c.ask(ctx, p, m, i > 0)
		}
		diffs = append(diffs, fmt.Errorf("not as after %s: %s", []string{"what was acknowledged", "what may have landed"}[i], diff))
	}
	return 0, errors.Join(diffs...)
}

// ask asks the store too for what its tables have: surely, or now and then.
func (c *Court) ask(ctx context.Context, p *Process, m *Moment, surely bool) error {
	if !surely && c.Rng.IntN(16) > 0 {
		return nil
	}
	st, err := Observe(ctx, p.Store, m.Keys)
	if err != nil {
		return err
	}
	if diff := st.Diff(m.State); diff != "" {
		return errors.New("the store does not show what its tables have: " + diff)
	}
	return nil
}

// again wants the same moment shown.
func (c *Court) again(ctx context.Context, d *Disk, shown int) error {
	p := Start(d, c.Tune, c.Plant)
	defer p.End()
	again, err := c.reopen(ctx, p)
	if err == nil && again != shown {
		err = fmt.Errorf("moment %d was shown, now it is moment %d", shown, again)
	}
	return err
}

// goOn fences, sends what a fence forbids, writes, closes, and now and then
// opens once more.
func (c *Court) goOn(ctx context.Context, p *Process, m *Moment) error {
	if a, err := p.Do(ctx, &Call{What: "fence", Shards: allShards(), Now: c.Now}); a != Done {
		return fmt.Errorf("fence: %w", err)
	}
	for i, l := range p.leases {
		want := store.Lease{Shard: l.Shard, Epoch: max(m.Rows.Shards[i].Epoch+1, c.Now), NextRun: m.Rows.Shards[i].NextRun}
		if l != want {
			return fmt.Errorf("fence: lease %+v, want %+v", l, want)
		}
	}
	if c.Late != nil {
		if a, err := p.Do(ctx, &Call{What: "commit", Batch: c.Late}); a != LeaseLost {
			return fmt.Errorf("a batch of an older epoch: %s: %w", a, err)
		}
	}
	w := Fresh(p.leases[1], 0)
	b := &store.Batch{Leases: p.leases[1:2], Writes: []*store.Write{w}}
	if a, err := p.Do(ctx, &Call{What: "commit", Batch: b}); a != Done {
		return fmt.Errorf("commit: %s: %w", a, err)
	}
	if err := has(ctx, p, w); err != nil {
		return err
	}
	if a, err := p.Do(ctx, &Call{What: "close"}); a != Done {
		return fmt.Errorf("close: %w", err)
	}
	if c.Rng.IntN(8) > 0 {
		return nil
	}
	next := Start(p.Disk.Survive(Modes[c.Rng.IntN(len(Modes))], c.Rng), c.Tune, c.Plant)
	defer next.End()
	if a, err := next.Do(ctx, &Call{What: "open"}); a != Done {
		return fmt.Errorf("open once more: %w", err)
	}
	return has(ctx, next, w)
}

func has(ctx context.Context, p *Process, w *store.Write) error {
	l, err := p.Store.Load(ctx, []store.Key{{Run: w.Run.Run}})
	if err != nil {
		return err
	}
	if l[0].Run == nil || l[0].Run.Sum() != w.Run.Sum() || len(l[0].Pending) != 1 || l[0].Pending[0].Sum() != w.Put[0].Sum() {
		return fmt.Errorf("the new run is %+v", l[0])
	}
	return nil
}

// Fresh is a write that begins a run under the lease.
func Fresh(l store.Lease, n int64) *store.Write {
	no := store.MakeRunNo(l.Shard, l.NextRun+1000+n)
	id := fmt.Sprintf("fresh-%d-%d", no, l.Epoch)
	return &store.Write{Insert: true,
		Run: store.RunRow{Run: no, Namespace: "fresh", WorkflowID: id, RunID: id, Type: "Order", Status: 1, Open: true,
			Version: 1, NextEvent: 2, Pending: 1, Started: 1, Request: id, State: []byte(id)},
		Events: &store.EventRow{Run: no, First: 1, Last: 1, Data: []byte(id)},
		Put:    []store.PendingRow{{Run: no, Op: "a1", Data: []byte(id)}}}
}
