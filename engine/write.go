package engine

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// write is the open write of one run: all that steps have changed of it since
// the last one was taken by the committer. A run has one at most, so changes
// of a run reach the database in the order of its steps.
type write struct {
	shard *shard
	of    *machine.Shard
	run   *machine.Run
	row   store.Write
	// touched: there are rows to write, not only effects to release.
	touched bool
	// dirty entries are still to be encoded; index finds their rows in row.Put.
	dirty   []*machine.Entry
	entries []*machine.Entry
	index   map[*machine.Entry]int
	after   []machine.Effect
	acks    []machine.Ack
	urgent  bool
	born    int64
	events  []*pb.Event // still to be encoded
	tally   tally
	// stale: encoded rows are older than the run.
	stale bool
	// dropped: the shard has given it up; nothing of it is released.
	dropped bool
	// done: committed, and its effects released.
	done atomic.Bool
}

// add merges a step's change.
func (w *write) add(c *machine.Change) {
	w.touched = w.touched || c.Touched
	w.row.Insert = w.row.Insert || c.Insert
	w.events = append(w.events, c.Events...)
	w.tally.add(c.Events)
	for _, e := range c.Put {
		w.put(e)
	}
	for _, e := range c.Del {
		w.del(e)
	}
	w.row.Dedup = append(w.row.Dedup, c.Dedup...)
	w.after = append(w.after, c.After...)
	w.acks = append(w.acks, c.Acks...)
}

func (w *write) put(e *machine.Entry) {
	if _, ok := w.index[e]; ok {
		w.dirty = append(w.dirty, e)
		return
	}
	if w.index == nil {
		w.index = map[*machine.Entry]int{}
	}
	w.index[e] = len(w.row.Put)
	w.row.Put = append(w.row.Put, store.PendingRow{Run: w.run.Row.Run, Op: e.Op})
	w.entries = append(w.entries, e)
	w.dirty = append(w.dirty, e)
}

// del removes an entry. One whose row no earlier write has is simply not
// written.
func (w *write) del(e *machine.Entry) {
	if i, ok := w.index[e]; ok {
		last := len(w.row.Put) - 1
		w.row.Put[i], w.entries[i] = w.row.Put[last], w.entries[last]
		w.index[w.entries[i]] = i
		w.row.Put, w.entries = w.row.Put[:last], w.entries[:last]
		delete(w.index, e)
	}
	if e.Stored {
		w.row.Del = append(w.row.Del, e.Op)
	}
}

// encode turns what is new into rows. It runs on the shard's goroutine, once
// for all steps of a turn.
func (w *write) encode() error {
	if !w.touched {
		return nil
	}
	r := w.run
	for _, e := range w.dirty {
		i, ok := w.index[e]
		if !ok {
			continue
		}
		data, err := marshal.MarshalAppend(w.row.Put[i].Data[:0], e.P)
		if err != nil {
			return fmt.Errorf("run %s: encode operation %s: %w", r.Row.RunID, e.Op, err)
		}
		w.row.Put[i].Data, w.row.Put[i].Wake = data, e.Wake()
	}
	w.dirty = w.dirty[:0]
	if len(w.events) > 0 {
		if err := w.encodeEvents(); err != nil {
			return fmt.Errorf("run %s: %w", r.Row.RunID, err)
		}
	}
	state, err := marshal.MarshalAppend(w.row.Run.State[:0], r.State)
	if err != nil {
		return fmt.Errorf("run %s: encode its state: %w", r.Row.RunID, err)
	}
	version := w.row.Run.Version
	if version == 0 {
		r.Row.Version++
		version = r.Row.Version
	}
	w.row.Run = r.Row
	w.row.Run.Version = version
	w.row.Run.State = state
	w.row.Run.Pending = int64(len(r.Entries))
	w.row.Run.Attention = r.Attention()
	return nil
}

// encodeEvents appends to the row's batch: two encoded batches, one after the
// other, are the encoding of both together.
func (w *write) encodeEvents() error {
	ev := w.row.Events
	if ev == nil {
		ev = &store.EventRow{Run: w.run.Row.Run, First: w.events[0].Id, Data: make([]byte, 0, 640)}
		w.row.Events = ev
	}
	data, err := history.Append(ev.Data, w.events)
	if err != nil {
		return err
	}
	ev.Data, ev.Last = data, w.events[len(w.events)-1].Id
	w.events = w.events[:0]
	return nil
}

// Deterministic, so that equal states are equal bytes: the simulator's traces
// rest on it.
var marshal = proto.MarshalOptions{Deterministic: true}
