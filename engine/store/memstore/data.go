package memstore

import (
	"bytes"
	"slices"
	"sync"

	"github.com/engined/engined/engine/store"
)

// data is what was committed. All of it is guarded by mu.
type data struct {
	mu     sync.Mutex
	check  store.Checker
	shards []shard
	runs   map[store.RunNo]*run
	// ids has the runs of each workflow id, in ascending order: a number that
	// is given later is greater.
	ids   map[id][]store.RunNo
	open  map[id]store.RunNo
	dedup map[request]store.DedupRow
	// late has batches whose outcome is unknown and which land at the next
	// fence of one of their shards.
	late  []*store.Batch
	stats Stats
}

type shard struct{ epoch, nextRun int64 }

type id struct{ namespace, workflow string }

type request struct {
	id
	request string
}

// run is a run's row with its other rows.
type run struct {
	row     store.RunRow
	events  []store.EventRow
	pending map[string]store.PendingRow
}

func newData(shards int) *data {
	d := &data{
		shards: make([]shard, shards),
		runs:   map[store.RunNo]*run{},
		ids:    map[id][]store.RunNo{},
		open:   map[id]store.RunNo{},
		dedup:  map[request]store.DedupRow{},
	}
	for i := range d.shards {
		d.shards[i].nextRun = 1
	}
	return d
}

func (d *data) fence(s store.ShardID, now int64) store.Lease {
	sh := &d.shards[s]
	sh.epoch = max(sh.epoch+1, now)
	for no := range d.runs {
		if no.Shard() == s {
			sh.nextRun = max(sh.nextRun, int64(no)&(1<<store.ShardBits-1)+1)
		}
	}
	l := store.Lease{Shard: s, Epoch: sh.epoch, NextRun: sh.nextRun}
	sh.nextRun += store.ReservedRuns
	return l
}

// landLate applies the waiting batches that write to one of the shards. One
// that cannot be applied any more never lands.
func (d *data) landLate(shards []store.ShardID) {
	keep := d.late[:0]
	for _, b := range d.late {
		hit := slices.ContainsFunc(b.Leases, func(l store.Lease) bool { return slices.Contains(shards, l.Shard) })
		if !hit {
			keep = append(keep, b)
			continue
		}
		_ = d.apply(b) // refused or fenced off: it has not landed, and that is an outcome too
	}
	clear(d.late[len(keep):])
	d.late = keep
}

func idOf(r *store.RunRow) id { return id{r.Namespace, r.WorkflowID} }

// The copies: rows go in and out by value, so that nobody outside holds the
// store's bytes. Empty bytes and none are the same.

func copyBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func copyRun(r *store.RunRow) store.RunRow {
	c := *r
	c.State = copyBytes(r.State)
	return c
}

func copyEvents(e store.EventRow) store.EventRow {
	e.Data = copyBytes(e.Data)
	return e
}

func copyPending(p store.PendingRow) store.PendingRow {
	p.Data = copyBytes(p.Data)
	return p
}

func copyDedup(r store.DedupRow) store.DedupRow {
	r.Data = copyBytes(r.Data)
	return r
}

func copyBatch(b *store.Batch) *store.Batch {
	c := &store.Batch{Leases: slices.Clone(b.Leases), Writes: make([]*store.Write, len(b.Writes))}
	for i, w := range b.Writes {
		n := &store.Write{Run: copyRun(&w.Run), Insert: w.Insert, Del: slices.Clone(w.Del)}
		if w.Events != nil {
			e := copyEvents(*w.Events)
			n.Events = &e
		}
		for _, p := range w.Put {
			n.Put = append(n.Put, copyPending(p))
		}
		for _, r := range w.Dedup {
			n.Dedup = append(n.Dedup, copyDedup(r))
		}
		c.Writes[i] = n
	}
	return c
}
