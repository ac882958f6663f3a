package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
)

var oracleTests = func() (tests []test) {
	for seed := range uint64(4) {
		tests = append(tests, test{fmt.Sprintf("random batches, seed %d", seed), func(b *bench) { compare(b, seed) }})
	}
	return tests
}()

// oracle drives the store and the memory store with the same calls.
type oracle struct {
	*bench
	rng      *rand.Rand
	model    *memstore.Store
	known    []store.RunNo
	requests []string
	// landed and refused count the outcomes, so that a generator that makes
	// only one kind is noticed.
	landed, refused int
}

const (
	oracleSteps = 250
	oracleIDs   = 12 // few, so that they collide
)

func compare(b *bench, seed uint64) {
	o := &oracle{bench: b, rng: rand.New(rand.NewPCG(seed, 7)), model: memstore.New(Shards),
		requests: []string{"none"}}
	// As the bench has fenced the store.
	leases, err := o.model.Fence(b.Context(), []store.ShardID{0, 1, 2, 3}, b.now)
	if err != nil {
		b.Fatal(err)
	}
	same(b, "first leases", b.leases[:], leases)
	for i := range oracleSteps {
		switch n := o.rng.IntN(40); {
		case n == 0:
			o.fenceBoth()
		case n == 1:
			o.reopen()
		default:
			o.commitBoth(i)
		}
		if i%10 == 0 {
			o.compareReads()
		}
	}
	o.reopen()
	o.compareReads()
	if o.landed < oracleSteps/5 || o.refused < oracleSteps/10 {
		b.Fatalf("%d batches landed, %d were refused: the test compares too little", o.landed, o.refused)
	}
}

func (o *oracle) fenceBoth() {
	o.Helper()
	o.now += int64(o.rng.IntN(3))
	ids := []store.ShardID{0, 1, 2, 3}
	o.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:1+o.rng.IntN(len(ids))]
	got, err := o.s.Fence(o.Context(), ids, o.now)
	want, modelErr := o.model.Fence(o.Context(), ids, o.now)
	if err != nil || modelErr != nil {
		o.Fatalf("Fence: %v; the model: %v", err, modelErr)
	}
	same(o.bench, "leases", got, want)
	for _, l := range got {
		o.leases[l.Shard], o.next[l.Shard] = l, l.NextRun
	}
}

func (o *oracle) commitBoth(i int) {
	o.Helper()
	var writes []*store.Write
	rows := map[store.RunNo]*store.RunRow{} // as the batch leaves them
	for range 1 + o.rng.IntN(8) {
		writes = append(writes, o.randomWrite(rows))
	}
	batch := o.batch(writes...)
	if o.rng.IntN(25) == 0 {
		o.leases[0].Epoch-- // an old lease, until the next fence
		batch = o.batch(writes...)
		o.leases[0].Epoch++
	}
	got, want := o.s.Commit(o.Context(), batch), o.model.Commit(o.Context(), batch)
	if outcome(got) != outcome(want) {
		o.Fatalf("step %d: Commit = %v\nthe model: %v", i, got, want)
	}
	if want != nil {
		o.refused++
		return
	}
	o.landed++
	for _, w := range writes {
		if w.Insert {
			o.known = append(o.known, w.Run.Run)
		}
	}
}

// outcome is what of a commit's error must be the same.
func outcome(err error) string {
	var (
		refused *store.RefusedError
		lost    *store.LeaseLostError
	)
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused):
		return fmt.Sprintf("write %d, run %d refused", refused.Index, refused.Run)
	case errors.As(err, &lost):
		return fmt.Sprintf("lost %v", lost.Shards)
	}
	return err.Error()
}

// randomWrite starts a run or goes on with one; now and then it is not as it
// should be.
func (o *oracle) randomWrite(rows map[store.RunNo]*store.RunRow) *store.Write {
	row := o.pick(rows)
	c := change{events: int64(o.rng.IntN(3)), wake: int64(o.rng.IntN(4) * o.rng.IntN(30)),
		close: o.rng.IntN(3) == 0, mark: o.rng.IntN(4) == 0, payload: 1 + o.rng.IntN(300)}
	have := o.ops(row.Run)
	for _, op := range []string{"a", "b", "c", "d"} {
		there := slices.Contains(have, op)
		switch n := o.rng.IntN(4); {
		case n == 0 && there:
			c.del = append(c.del, op)
		case n == 1 && there:
			c.again = append(c.again, op)
		case n == 2 && !there:
			c.put = append(c.put, op)
		}
	}
	if o.rng.IntN(6) == 0 {
		c.dedup = append(c.dedup, fmt.Sprint("dedup-", o.rng.IntN(200)))
		o.requests = append(o.requests, c.dedup...)
	}
	w := step(row, c)
	if o.rng.IntN(20) == 0 {
		o.spoil(w)
	}
	return w
}

// pick returns a run that the batch has not written yet, as it stands.
func (o *oracle) pick(rows map[store.RunNo]*store.RunRow) *store.RunRow {
	if len(o.known) > 0 && o.rng.IntN(3) > 0 {
		no := o.known[o.rng.IntN(len(o.known))]
		if rows[no] == nil {
			loaded, err := o.model.Load(o.Context(), []store.Key{{Run: no}})
			if err != nil {
				o.Fatal(err)
			}
			if r := loaded[0].Run; r.Open || o.rng.IntN(4) == 0 {
				rows[no] = r
				return r
			}
		}
	}
	// Many ids, of which some are taken: most new runs are good.
	id := o.rng.IntN(oracleIDs * (1 + len(o.known)/4))
	row := o.row(store.ShardID(id%Shards), fmt.Sprint("id-", id))
	row.Namespace = []string{"default", "other"}[id%2]
	row.Type = []string{"Order", "Refund"}[o.rng.IntN(2)]
	row.Request = fmt.Sprint("req-", o.rng.IntN(20))
	row.Started = int64(o.rng.IntN(50))
	o.requests = append(o.requests, row.Request)
	rows[row.Run] = &row
	return &row
}

func (o *oracle) ops(no store.RunNo) (ops []string) {
	loaded, err := o.model.Load(o.Context(), []store.Key{{Run: no}})
	if err != nil {
		o.Fatal(err)
	}
	for _, p := range loaded[0].Pending {
		ops = append(ops, p.Op)
	}
	return ops
}

func (o *oracle) spoil(w *store.Write) {
	switch o.rng.IntN(9) {
	case 0:
		w.Run.Version++
	case 1:
		w.Run.NextEvent++
	case 2:
		w.Run.Pending += int64(o.rng.IntN(3) - 1)
	case 3:
		w.Del = append(w.Del, "z")
	case 4:
		w.Put = append(w.Put, store.PendingRow{Run: w.Run.Run, Op: "a"})
	case 5:
		w.Insert = !w.Insert
	case 6:
		w.Run.Type = "Changed"
	case 7:
		w.Run.Run = store.MakeRunNo(0, 1)
	case 8:
		if w.Events != nil {
			w.Events.First++
		}
	}
}

// compareReads reads everything, and random parts of it.
func (o *oracle) compareReads() {
	o.Helper()
	var keys []store.Key
	request := func() string { return o.requests[o.rng.IntN(len(o.requests))] }
	for _, no := range o.known {
		keys = append(keys, store.Key{Run: no}, store.Key{Run: no, Request: request()})
		both(o, "History", func(s store.Store, n int) ([]store.EventRow, error) {
			return s.History(o.Context(), no, int64(n%7), n)
		}, o.rng.IntN(1000))
	}
	for id := range oracleIDs * 2 {
		for _, namespace := range []string{"default", "other"} {
			key := store.Key{Namespace: namespace, WorkflowID: fmt.Sprint("id-", id), Request: request()}
			keys = append(keys, key)
			if len(o.known) > 0 {
				key.RunID = fmt.Sprintf("ulid-%d", o.known[o.rng.IntN(len(o.known))])
				keys = append(keys, key)
			}
		}
	}
	both(o, "Load", func(s store.Store, _ int) ([]store.Loaded, error) { return s.Load(o.Context(), keys) }, 0)
	for shard := range Shards {
		after := store.Wake{At: int64(o.rng.IntN(5) * o.rng.IntN(20))}
		if len(o.known) > 0 {
			after.Run, after.Op = o.known[o.rng.IntN(len(o.known))], []string{"", "a", "c"}[o.rng.IntN(3)]
		}
		until := int64(o.rng.IntN(100))
		both(o, fmt.Sprintf("Due of %d after %+v until %d", shard, after, until), func(s store.Store, limit int) ([]store.Wake, error) {
			out, err := s.Due(o.Context(), store.ShardID(shard), until, after, limit)
			return append([]store.Wake{}, out...), err
		}, 1+o.rng.IntN(40))
	}
	for range 8 {
		q := o.randomQuery()
		both(o, fmt.Sprintf("List %+v", q), func(s store.Store, _ int) ([]store.RunRow, error) { return s.List(o.Context(), q) }, 0)
	}
}

func (o *oracle) randomQuery() (q store.Query) {
	if o.rng.IntN(2) == 0 {
		q.Namespace = []string{"default", "other"}[o.rng.IntN(2)]
	}
	if o.rng.IntN(4) == 0 {
		q.WorkflowID = fmt.Sprint("id-", o.rng.IntN(oracleIDs))
	}
	if o.rng.IntN(3) == 0 {
		q.Type = "Order"
	}
	if o.rng.IntN(3) == 0 {
		q.Status = int32(1 + o.rng.IntN(2))
	}
	if o.rng.IntN(2) == 0 {
		q.BeforeStarted = int64(o.rng.IntN(50))
		q.BeforeRun = store.MakeRunNo(1, 5)
	}
	q.Limit = o.rng.IntN(20)
	return q
}

// both makes the call on the store and on the model and compares the answers.
func both[T any](o *oracle, what string, call func(store.Store, int) (T, error), n int) {
	o.Helper()
	got, err := call(o.s, n)
	want, modelErr := call(o.model, n)
	if err != nil || modelErr != nil {
		o.Fatalf("%s: %v; the model: %v", what, err, modelErr)
	}
	same(o.bench, what, got, want)
}
