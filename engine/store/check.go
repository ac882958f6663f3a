package store

import (
	"errors"
	"fmt"
)

// Checker refuses batches whose rows contradict each other: what can be seen
// without a database stands here once, so that every implementation refuses the
// same write with the same index. What needs the stored rows (is the run there,
// is the id taken, does the version follow) is the implementation's to check.
//
// The zero value is ready. It keeps its maps between calls, and so is not for
// concurrent use.
type Checker struct {
	leased map[ShardID]struct{}
	runs   map[RunNo]struct{}
	ops    map[string]struct{}
}

// Check returns nil or a *RefusedError that names the first bad write.
func (c *Checker) Check(b *Batch) error {
	c.reset()
	for _, l := range b.Leases {
		c.leased[l.Shard] = struct{}{}
	}
	for i, w := range b.Writes {
		if w == nil {
			return &RefusedError{Index: i, Err: errors.New("the write is nil")}
		}
		if err := c.write(w); err != nil {
			return &RefusedError{Index: i, Run: w.Run.Run, Err: err}
		}
	}
	return nil
}

func (c *Checker) reset() {
	if c.leased == nil {
		c.leased = map[ShardID]struct{}{}
		c.runs = map[RunNo]struct{}{}
		c.ops = map[string]struct{}{}
	}
	clear(c.leased)
	clear(c.runs)
}

func (c *Checker) write(w *Write) error {
	r := &w.Run
	if r.Run <= 0 {
		return errors.New("a run number is greater than 0")
	}
	if _, ok := c.leased[r.Run.Shard()]; !ok {
		return fmt.Errorf("the batch has no lease of shard %d", r.Run.Shard())
	}
	if _, ok := c.runs[r.Run]; ok {
		return errors.New("the batch writes the run twice")
	}
	c.runs[r.Run] = struct{}{}
	if w.Insert != (r.Version == 1) || r.Version < 1 {
		return fmt.Errorf("version %d with insert %t: only the first version is inserted", r.Version, w.Insert)
	}
	if r.NextEvent < 1 || r.Pending < 0 {
		return fmt.Errorf("next event %d, pending %d: out of range", r.NextEvent, r.Pending)
	}
	if err := checkEvents(w); err != nil {
		return err
	}
	return c.pending(w)
}

func checkEvents(w *Write) error {
	e := w.Events
	if e == nil {
		if w.Insert && w.Run.NextEvent != 1 {
			return fmt.Errorf("next event %d of a new run without events", w.Run.NextEvent)
		}
		return nil
	}
	switch {
	case e.Run != w.Run.Run:
		return fmt.Errorf("the event row is of run %d", e.Run)
	case e.First < 1 || e.Last < e.First:
		return fmt.Errorf("events %d to %d: out of range", e.First, e.Last)
	case e.Last != w.Run.NextEvent-1:
		return fmt.Errorf("events up to %d, but the next event is %d", e.Last, w.Run.NextEvent)
	case w.Insert && e.First != 1:
		return fmt.Errorf("the first event of a new run is %d", e.First)
	}
	return nil
}

func (c *Checker) pending(w *Write) error {
	clear(c.ops)
	for i := range w.Put {
		p := &w.Put[i]
		if p.Run != w.Run.Run {
			return fmt.Errorf("pending row %q is of run %d", p.Op, p.Run)
		}
		if p.Wake < 0 {
			return fmt.Errorf("pending row %q wakes at %d: before time began", p.Op, p.Wake)
		}
		if err := c.op(p.Op); err != nil {
			return err
		}
	}
	for _, op := range w.Del {
		if err := c.op(op); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checker) op(op string) error {
	if op == "" {
		return errors.New("a pending row without an op")
	}
	if _, ok := c.ops[op]; ok {
		return fmt.Errorf("pending row %q is written twice", op)
	}
	c.ops[op] = struct{}{}
	return nil
}

// CheckShards returns an error when a shard is named twice or is none of the
// database's.
func CheckShards(ids []ShardID, shards int) error {
	seen := make(map[ShardID]struct{}, len(ids))
	for _, id := range ids {
		if int(id) >= shards {
			return fmt.Errorf("shard %d: the database has shards 0 to %d", id, shards-1)
		}
		if _, ok := seen[id]; ok {
			return fmt.Errorf("shard %d is named twice", id)
		}
		seen[id] = struct{}{}
	}
	return nil
}
