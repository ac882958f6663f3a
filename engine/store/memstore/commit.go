package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/engined/engined/engine/store"
)

var errHook = errors.New("refused by the hook")

// Commit writes the batch, unless Hook says otherwise.
func (s *Store) Commit(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return &store.UnavailableError{Err: err}
	}
	var v Verdict
	if s.Hook != nil && s.closed.Load() == nil {
		v = s.Hook(b).of(b)
	}
	mu, err := s.lock(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer mu.Unlock()
	switch v.outcome {
	case leaseLost:
		return &store.LeaseLostError{Shards: v.shards}
	case refused:
		return &store.RefusedError{Index: v.index(b), Run: v.run, Err: errHook}
	case unavailable:
		return &store.UnavailableError{Err: v.err}
	case cutBefore:
		s.end(ErrCut)
		return ErrCut
	}
	return s.land(b, v)
}

// land handles the verdicts under which the batch has to be good in itself.
func (s *Store) land(b *store.Batch, v Verdict) error {
	d := s.data
	switch v.outcome {
	case unknownNotLanded:
		return store.ErrUnknown
	case unknownLandsLater:
		d.late = append(d.late, copyBatch(b))
		return store.ErrUnknown
	}
	err := d.apply(b)
	switch {
	case v.outcome == cutAfter:
		s.end(ErrCut)
		return ErrCut
	case err != nil:
		return err
	case v.outcome == unknownLanded:
		return store.ErrUnknown
	}
	return nil
}

// apply writes the batch, all or nothing.
func (d *data) apply(b *store.Batch) error {
	if err := d.check.Check(b); err != nil {
		return err
	}
	var lost []store.ShardID
	for _, l := range b.Leases {
		if int(l.Shard) >= len(d.shards) || d.shards[l.Shard].epoch != l.Epoch {
			lost = append(lost, l.Shard)
		}
	}
	if lost != nil {
		slices.Sort(lost)
		return &store.LeaseLostError{Shards: slices.Compact(lost)}
	}
	t := tx{data: d}
	for i, w := range b.Writes {
		if err := t.write(w); err != nil {
			t.rollback()
			return &store.RefusedError{Index: i, Run: w.Run.Run, Err: err}
		}
	}
	d.stats.Commits++
	d.stats.Rows += t.rows
	d.stats.Bytes += t.bytes
	return nil
}

// tx is one batch on its way in. Each change leaves behind how to undo it.
type tx struct {
	*data
	undo        []func()
	rows, bytes int64
}

func (t *tx) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
}

func (t *tx) wrote(bytes int) {
	t.rows++
	t.bytes += int64(bytes)
}

func (t *tx) write(w *store.Write) error {
	r, err := t.run(w)
	if err != nil {
		return err
	}
	if err := t.events(r, w.Events); err != nil {
		return err
	}
	for i := range w.Put {
		t.put(r, w.Put[i])
	}
	for _, op := range w.Del {
		if err := t.del(r, op); err != nil {
			return err
		}
	}
	if n := int64(len(r.pending)); n != w.Run.Pending {
		return fmt.Errorf("the row counts %d pending rows, there are %d", w.Run.Pending, n)
	}
	for i := range w.Dedup {
		if err := t.remember(w.Dedup[i]); err != nil {
			return err
		}
	}
	return nil
}

// run writes the run's own row.
func (t *tx) run(w *store.Write) (*run, error) {
	no, key := w.Run.Run, idOf(&w.Run)
	r, there := t.runs[no]
	switch {
	case w.Insert && there:
		return nil, errors.New("the run is there already")
	case !w.Insert && !there:
		return nil, errors.New("the run is not there")
	}
	if holder, taken := t.open[key]; w.Run.Open && taken && holder != no {
		return nil, fmt.Errorf("the workflow id is held by run %d", holder)
	}
	if w.Insert {
		r = t.insert(w)
	} else if err := t.update(r, w); err != nil {
		return nil, err
	}
	t.hold(key, no, w.Run.Open)
	t.wrote(runBytes(&w.Run))
	return r, nil
}

func (t *tx) insert(w *store.Write) *run {
	no, key := w.Run.Run, idOf(&w.Run)
	r := &run{row: copyRun(&w.Run), pending: map[string]store.PendingRow{}}
	t.runs[no] = r
	before := t.ids[key]
	at, _ := slices.BinarySearch(before, no)
	t.ids[key] = slices.Insert(slices.Clone(before), at, no)
	t.undo = append(t.undo, func() {
		delete(t.runs, no)
		if t.ids[key] = before; before == nil {
			delete(t.ids, key)
		}
	})
	return r
}

func (t *tx) update(r *run, w *store.Write) error {
	old, next := r.row, &w.Run
	if old.Version != next.Version-1 {
		return fmt.Errorf("version %d would follow version %d", next.Version, old.Version)
	}
	first := next.NextEvent
	if w.Events != nil {
		first = w.Events.First
	}
	if old.NextEvent != first {
		return fmt.Errorf("event %d would follow event %d", first, old.NextEvent-1)
	}
	if old.Namespace != next.Namespace || old.WorkflowID != next.WorkflowID || old.RunID != next.RunID ||
		old.Type != next.Type || old.Started != next.Started || old.Request != next.Request {
		return errors.New("what a run was started with does not change")
	}
	r.row = copyRun(next)
	t.undo = append(t.undo, func() { r.row = old })
	return nil
}

// hold makes the run the holder of its id, or not.
func (t *tx) hold(key id, no store.RunNo, open bool) {
	holder := t.open[key]
	switch {
	case open && holder != no:
		t.open[key] = no
		t.undo = append(t.undo, func() { delete(t.open, key) })
	case !open && holder == no:
		delete(t.open, key)
		t.undo = append(t.undo, func() { t.open[key] = no })
	}
}

func (t *tx) events(r *run, e *store.EventRow) error {
	if e == nil {
		return nil
	}
	r.events = append(r.events, copyEvents(*e))
	t.undo = append(t.undo, func() { r.events = r.events[:len(r.events)-1] })
	t.wrote(3*8 + len(e.Data))
	return nil
}

func (t *tx) put(r *run, p store.PendingRow) {
	old, there := r.pending[p.Op]
	r.pending[p.Op] = copyPending(p)
	t.undo = append(t.undo, func() {
		if there {
			r.pending[p.Op] = old
		} else {
			delete(r.pending, p.Op)
		}
	})
	t.wrote(2*8 + len(p.Op) + len(p.Data))
}

func (t *tx) del(r *run, op string) error {
	old, there := r.pending[op]
	if !there {
		return fmt.Errorf("pending row %q is not there", op)
	}
	delete(r.pending, op)
	t.undo = append(t.undo, func() { r.pending[op] = old })
	t.wrote(0)
	return nil
}

func (t *tx) remember(r store.DedupRow) error {
	key := request{id{r.Namespace, r.WorkflowID}, r.Request}
	if _, there := t.dedup[key]; there {
		return fmt.Errorf("request %q is there already", r.Request)
	}
	t.dedup[key] = copyDedup(r)
	t.undo = append(t.undo, func() { delete(t.dedup, key) })
	t.wrote(2*8 + len(r.Namespace) + len(r.WorkflowID) + len(r.Request) + len(r.Data))
	return nil
}

func runBytes(r *store.RunRow) int {
	const fixed = 7*8 + 4 + 2
	return fixed + len(r.Namespace) + len(r.WorkflowID) + len(r.RunID) + len(r.Type) + len(r.Request) + len(r.State)
}
