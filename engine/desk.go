package engine

import (
	"sync"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/match"
	"github.com/engined/engined/engine/store"
	pb "github.com/engined/engined/proto/enginepb"
)

// desk lets all shards share one match.Matcher. Its lock is a leaf: nothing is
// stepped and nothing blocks under it, and what it offers to those who wait is
// posted to their shards.
type desk struct {
	mu sync.Mutex
	m  *match.Matcher
	e  *Engine
}

func newDesk(e *Engine) *desk { return &desk{m: match.New(), e: e} }

func needOf(n machine.Need, excluded []string) match.Need {
	return match.Need{Namespace: n.Namespace, Queue: n.Queue, Type: n.Type, Prefer: n.Prefer, Excluded: excluded, Suspect: n.Suspect}
}

func keyOf(d machine.DeliveryKey) match.DeliveryKey {
	return match.DeliveryKey{Run: int64(d.Run), Op: d.Op, Role: int32(d.Role), Delivery: d.Delivery}
}

// Assign implements machine.Desk, as do the methods below.
func (d *desk) Assign(run store.RunNo, n machine.Need, excluded []string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Assign(match.RunKey(run), needOf(n, excluded))
}

func (d *desk) Unassign(run store.RunNo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer(d.m.Unassign(match.RunKey(run)))
}

func (d *desk) Slot(k machine.DeliveryKey, n machine.Need) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Slot(keyOf(k), needOf(n, nil))
}

func (d *desk) Hold(k machine.DeliveryKey, worker string, suspect bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Hold(keyOf(k), worker, suspect)
}

func (d *desk) Free(k machine.DeliveryKey, worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if worker == "" {
		d.offer(d.m.Free(keyOf(k)))
	} else {
		d.offer(d.m.Answered(keyOf(k), worker))
	}
}

func (d *desk) Leave(run store.RunNo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer(d.m.Reset(func(no int64) bool { return no == int64(run) }))
}

func (d *desk) Unfolded(run store.RunNo, worker string, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer(d.m.Unfolded(match.RunKey(run), worker, bytes))
}

func (d *desk) connect(w match.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer(d.m.Connect(w))
}

// disconnect tells how many suspects the worker had.
func (d *desk) disconnect(worker string) (suspects int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Disconnect(worker)
}

func (d *desk) drain(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.m.Drain(worker)
}

func (d *desk) load() match.Load {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Load()
}

func (d *desk) queues(namespace string) []match.Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Queues(namespace)
}

func (d *desk) usage(worker string) (slots, runs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Usage(worker)
}

// known says whether a worker that is here could do it, free or not.
func (d *desk) known(n match.Need, workflow bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.m.Known(n, workflow) > 0
}

// reset forgets what the runs of a shard have here.
func (d *desk) reset(id store.ShardID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer(d.m.Reset(func(run int64) bool { return store.RunNo(run).Shard() == id }))
}

// offer posts to the shards of those who waited.
func (d *desk) offer(offers []match.Offer) {
	for _, o := range offers {
		if !o.Slot {
			run := store.RunNo(o.Run)
			d.e.shards[run.Shard()].post(&machine.RunOffered{Run: run, Worker: o.Worker})
			continue
		}
		k := machine.DeliveryKey{
			Run: store.RunNo(o.Delivery.Run), Op: o.Delivery.Op,
			Role: pb.Role(o.Delivery.Role), Delivery: o.Delivery.Delivery,
		}
		d.e.shards[k.Run.Shard()].post(&machine.SlotOffered{Delivery: k, Worker: o.Worker})
	}
}
