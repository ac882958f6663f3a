package powercut

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
)

// Oracle is what the database must be: a store in memory that was told of every
// call that the database has answered with yes.
type Oracle struct {
	mem    *memstore.Store
	shards [Shards]store.Lease
	given  []store.Lease // by the last fence
	keys   Keys
}

// NewOracle knows of a new database.
func NewOracle() *Oracle {
	o := &Oracle{mem: memstore.New(Shards)}
	for i := range o.shards {
		o.shards[i] = store.Lease{Shard: store.ShardID(i), NextRun: 1}
	}
	return o
}

// Apply makes the call. It returns what the memory store answers.
func (o *Oracle) Apply(ctx context.Context, c *Call) (Answer, error) {
	switch c.What {
	case "fence":
		leases, err := o.mem.Fence(ctx, c.Shards, c.Now)
		if err != nil {
			return Broken, err
		}
		o.given = leases
		for _, l := range leases {
			l.NextRun += store.ReservedRuns
			o.shards[l.Shard] = l
		}
	case "commit":
		return answerOf(c.What, o.mem.Commit(ctx, c.Batch)), nil
	}
	return Done, nil
}

// Meet has the oracle know what a batch is about, should it ever be there.
func (o *Oracle) Meet(b *store.Batch) {
	add := func(list *[]store.Key, k store.Key) {
		if !slices.Contains(*list, k) {
			*list = append(*list, k)
		}
	}
	for _, w := range b.Writes {
		if w.Insert {
			add(&o.keys.Runs, store.Key{Run: w.Run.Run, Request: w.Run.Request})
		}
		for i := range w.Dedup {
			if d := &w.Dedup[i]; d.Request != w.Run.Request {
				add(&o.keys.Requests, store.Key{Run: d.Run, Request: d.Request})
			}
		}
	}
}

// Moment is what a database must show after some calls, and what to ask for.
type Moment struct {
	Rows  *Rows
	State *State
	Keys  Keys
}

// Moment is what the database must show now.
func (o *Oracle) Moment(ctx context.Context) (*Moment, error) {
	st, err := Observe(ctx, o.mem, o.keys)
	if err != nil {
		return nil, err
	}
	return &Moment{rowsOf(st, o.shards), st, o.keys.clone()}, nil
}

// Planner makes up batches that fit what the oracle knows.
type Planner struct {
	*Oracle
	rng  *rand.Rand
	now  int64
	next [Shards]int64 // run counters given out; a fence moves them on
}

// NewPlanner plans for the oracle.
func NewPlanner(o *Oracle, rng *rand.Rand) *Planner {
	return &Planner{Oracle: o, rng: rng, now: 1000}
}

// Fence plans a fence of the shards, or of all of them.
func (p *Planner) Fence(ids ...store.ShardID) *Call {
	if len(ids) == 0 {
		ids = allShards()
	}
	p.now += int64(p.rng.IntN(3))
	return &Call{What: "fence", Shards: ids, Now: p.now}
}

// Shape is what a batch is like.
type Shape struct {
	Starts, Steps, Ends int // runs that begin, go on, close
	Payload             int // bytes of its largest rows
	Spoil               bool
}

// Commit plans a batch.
func (p *Planner) Commit(ctx context.Context, s Shape) (*Call, error) {
	b := &store.Batch{}
	for range s.Starts {
		b.Writes = append(b.Writes, p.start(s.Payload))
	}
	open, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	for i := range s.Steps + s.Ends {
		if i >= len(open) {
			break
		}
		b.Writes = append(b.Writes, p.step(&open[i], i >= s.Steps, s.Payload))
	}
	if len(b.Writes) == 0 {
		b.Writes = append(b.Writes, p.start(s.Payload))
	}
	if s.Spoil {
		p.spoil(b)
	}
	for _, w := range b.Writes {
		if l := p.lease(w.Run.Run.Shard()); !slices.Contains(b.Leases, l) {
			b.Leases = append(b.Leases, l)
		}
	}
	p.Meet(b)
	about := fmt.Sprintf("%+v:", s)
	for _, w := range b.Writes {
		about += fmt.Sprintf(" run %d/%d v%d", w.Run.Run.Shard(), w.Run.Run&(1<<store.ShardBits-1), w.Run.Version)
	}
	return &Call{What: "commit", About: about, Batch: b}, nil
}

// Late plans a batch under leases that a fence has ended.
func (p *Planner) Late(ctx context.Context) (*Call, error) {
	c, err := p.Commit(ctx, Shape{Starts: 1})
	if err == nil {
		c.Batch.Leases[0].Epoch--
		c.About = "late " + c.About
	}
	return c, err
}

func (p *Planner) lease(s store.ShardID) store.Lease {
	l := p.shards[s]
	l.NextRun -= store.ReservedRuns
	return l
}

// number gives a run number that was never given.
func (p *Planner) number() store.RunNo {
	s := store.ShardID(p.rng.IntN(Shards))
	p.next[s] = max(p.next[s]+1, p.lease(s).NextRun)
	return store.MakeRunNo(s, p.next[s])
}

func (p *Planner) start(payload int) *store.Write {
	no := p.number()
	r := store.RunRow{
		Run: no, Namespace: []string{"default", "other"}[p.rng.IntN(2)], WorkflowID: fmt.Sprintf("order-%d", no),
		RunID: fmt.Sprintf("ulid-%d", no), Type: "Order", Status: 1, Open: true, Attention: p.rng.IntN(4) == 0,
		Version: 1, NextEvent: 1, Started: p.now * 1000, Request: fmt.Sprintf("start-%d", no),
	}
	w := &store.Write{Insert: true}
	p.events(w, &r, 1+p.rng.IntN(3), payload)
	for _, op := range []string{"a1", "t2"}[:p.rng.IntN(3)] {
		w.Put = append(w.Put, p.pending(&r, op, payload))
	}
	r.Pending = int64(len(w.Put))
	p.dedup(w, &r, r.Request, payload)
	r.State = p.bytes(20 + p.rng.IntN(60))
	w.Run = r
	return w
}

// open are the open runs, in random order.
func (p *Planner) open(ctx context.Context) ([]store.Loaded, error) {
	all, err := p.mem.Load(ctx, p.keys.Runs)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l store.Loaded) bool { return l.Run == nil || !l.Run.Open })
	p.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// step plans how a run goes on.
func (p *Planner) step(l *store.Loaded, end bool, payload int) *store.Write {
	r, w := *l.Run, &store.Write{}
	r.Version++
	r.Attention = !end && p.rng.IntN(4) == 0
	if end || p.rng.IntN(6) > 0 { // else only its row changes
		p.events(w, &r, 1+p.rng.IntN(3), payload)
	}
	for _, row := range l.Pending {
		switch n := p.rng.IntN(4); {
		case end || n == 0:
			w.Del = append(w.Del, row.Op)
		case n == 1:
			w.Put = append(w.Put, p.pending(&r, row.Op, payload))
		}
	}
	if !end && p.rng.IntN(2) == 0 {
		w.Put = append(w.Put, p.pending(&r, fmt.Sprintf("a%d", r.Version+10), payload))
	}
	r.Pending = int64(len(l.Pending) - len(w.Del))
	for _, row := range w.Put {
		if !slices.ContainsFunc(l.Pending, func(have store.PendingRow) bool { return have.Op == row.Op }) {
			r.Pending++
		}
	}
	if end {
		r.Open, r.Status, r.Closed = false, 2, p.now*1000+r.Version
	}
	if p.rng.IntN(12) == 0 {
		p.dedup(w, &r, fmt.Sprintf("signal-%d", r.Version), payload)
	}
	r.State = p.bytes(20 + p.rng.IntN(60))
	w.Run = r
	return w
}

func (p *Planner) events(w *store.Write, r *store.RunRow, n, payload int) {
	w.Events = &store.EventRow{Run: r.Run, First: r.NextEvent, Last: r.NextEvent + int64(n) - 1, Data: p.bytes(payload)}
	r.NextEvent += int64(n)
}

func (p *Planner) pending(r *store.RunRow, op string, payload int) store.PendingRow {
	return store.PendingRow{Run: r.Run, Op: op, Wake: int64(p.rng.IntN(3) * p.rng.IntN(1e6)), Data: p.bytes(min(payload, 500))}
}

func (p *Planner) dedup(w *store.Write, r *store.RunRow, request string, payload int) {
	w.Dedup = append(w.Dedup, store.DedupRow{Namespace: r.Namespace, WorkflowID: r.WorkflowID,
		Request: request, Run: r.Run, Expires: p.now + 7, Data: p.bytes(min(payload, 100))})
}

// bytes are random, so that none are like those that were there before.
func (p *Planner) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(p.rng.Uint32())
	}
	return b
}

// spoil makes the last write one that is refused, with all before it.
func (p *Planner) spoil(b *store.Batch) {
	w := b.Writes[len(b.Writes)-1]
	switch p.rng.IntN(3) {
	case 0:
		w.Run.Pending++
	case 1:
		w.Del = append(w.Del, "not there")
	case 2:
		w.Run.Version, w.Insert = w.Run.Version+1, false
	}
}
