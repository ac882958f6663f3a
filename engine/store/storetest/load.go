package storetest

import (
	"fmt"
	"sync"

	"github.com/engined/engined/engine/store"
)

var loadTests = []test{
	{"by number", loadByNumber},
	{"by id, the newest run", loadByID},
	{"by id and ULID, that run", loadByULID},
	{"by request, the run that it started", loadByRequest},
	{"what is not there is nil", loadNothing},
	{"one answer for each key, in order", loadMany},
	{"all is read at one moment", loadSnapshot},
}

func loadByNumber(b *bench) {
	one, two := b.row(1, "one"), b.row(1, "two")
	w := step(&two, change{events: 1, put: []string{"b", "c", "a", "B"}})
	b.commit(step(&one, change{events: 1, put: []string{"z"}}), w)
	got := b.load(store.Key{Run: two.Run, Namespace: "other", WorkflowID: "one"})[0]
	same(b, "run", got.Run, &two)
	same(b, "pending, by op", got.Pending, []store.PendingRow{w.Put[3], w.Put[2], w.Put[0], w.Put[1]})
}

func loadByID(b *bench) {
	key := store.Key{Namespace: "default", WorkflowID: "again"}
	var last store.RunRow
	for i := range 3 {
		last = b.row(1, "again")
		b.commit(step(&last, change{events: 1, put: []string{fmt.Sprint(i)}}))
		got := b.load(key)[0]
		same(b, "run", got.Run, &last)
		same(b, "pending", got.Pending[0].Op, fmt.Sprint(i))
		b.commit(step(&last, change{events: 1, del: []string{fmt.Sprint(i)}, close: true}))
		same(b, "closed run", b.load(key)[0].Run, &last)
	}
	other := b.row(1, "again")
	other.Namespace = "other"
	b.commit(step(&other, change{events: 1}))
	same(b, "run", b.load(key)[0].Run, &last)
	key.Namespace = "other"
	same(b, "run of the other namespace", b.load(key)[0].Run, &other)
}

func loadByULID(b *bench) {
	rows := make([]store.RunRow, 3)
	for i := range rows {
		rows[i] = b.row(1, "again")
		b.commit(step(&rows[i], change{events: 1, close: true}))
	}
	for i := range rows {
		key := store.Key{Namespace: "default", WorkflowID: "again", RunID: rows[i].RunID}
		same(b, "run", b.load(key)[0].Run, &rows[i])
	}
	same(b, "run of another ULID", b.load(store.Key{Namespace: "default", WorkflowID: "again", RunID: "none"})[0].Run, nil)
}

func loadByRequest(b *bench) {
	rows := make([]store.RunRow, 3)
	for i := range rows {
		rows[i] = b.row(2, "again")
		rows[i].Request = fmt.Sprintf("start-%d", i)
		b.commit(step(&rows[i], change{events: 1, close: true, dedup: []string{fmt.Sprintf("signal-%d", i)}}))
	}
	for i := range rows {
		key := store.Key{Namespace: "default", WorkflowID: "again", Request: rows[i].Request}
		got := b.load(key)[0]
		same(b, "newest", got.Run, &rows[2])
		same(b, "by request", got.ByRequest, &rows[i])
		same(b, "dedup", got.Dedup, nil)
		got = b.load(store.Key{Run: rows[0].Run, Request: rows[i].Request})[0]
		same(b, "run", got.Run, &rows[0])
		same(b, "by request, with the id of the run", got.ByRequest, &rows[i])

		key.Request = fmt.Sprintf("signal-%d", i)
		got = b.load(key)[0]
		same(b, "by request", got.ByRequest, nil)
		if got.Dedup == nil || got.Dedup.Run != rows[i].Run || got.Dedup.Expires != 77 {
			b.Fatalf("dedup of %s = %+v", key.Request, got.Dedup)
		}
	}
	got := b.load(store.Key{Namespace: "default", WorkflowID: "elsewhere", Request: "start-1"})[0]
	same(b, "another id's request", got, store.Loaded{})
}

func loadNothing(b *bench) {
	row := b.row(0, "order")
	b.commit(step(&row, change{events: 1}))
	for _, k := range []store.Key{
		{Run: row.Run + 1}, {Run: row.Run + 1, Request: row.Request},
		{Namespace: "default", WorkflowID: "Order"}, {Namespace: "", WorkflowID: "order"}, {},
	} {
		same(b, fmt.Sprintf("%+v", k), b.load(k)[0], store.Loaded{})
	}
	got := b.load(store.Key{Namespace: "default", WorkflowID: "order", Request: "none"})[0]
	same(b, "request that is not there", got, store.Loaded{Run: &row})
	same(b, "no keys", len(b.load()), 0)
}

func loadMany(b *bench) {
	var keys []store.Key
	var want []store.RunNo
	for i := range 50 {
		row := b.row(store.ShardID(i%Shards), fmt.Sprint("order-", i))
		b.commit(step(&row, change{events: 1}))
		k := store.Key{Run: row.Run}
		if i%2 == 0 {
			k = store.Key{Namespace: "default", WorkflowID: row.WorkflowID}
		}
		keys, want = append(keys, k, store.Key{Run: 99}, k), append(want, row.Run, 0, row.Run)
	}
	for i, l := range b.load(keys...) {
		if l.Run == nil && want[i] == 0 {
			continue
		}
		if l.Run == nil || l.Run.Run != want[i] {
			b.Fatalf("answer %d = %+v, want run %d", i, l.Run, want[i])
		}
	}
}

// loadSnapshot reads two runs that every batch writes together, while they are
// being written.
func loadSnapshot(b *bench) {
	const commits = 200
	one, two := b.row(0, "one"), b.row(1, "two")
	b.commit(step(&one, change{events: 1}), step(&two, change{events: 1}))
	keys := []store.Key{{Run: one.Run}, {Namespace: "default", WorkflowID: "two"}}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for seen := int64(0); ; {
				got, err := b.s.Load(b.Context(), keys)
				if err != nil {
					b.Errorf("Load: %v", err)
					return
				}
				v := got[0].Run.Version
				if v != got[1].Run.Version || v < seen || int64(len(got[0].Pending)) != got[0].Run.Pending {
					b.Errorf("after version %d: versions %d and %d, %d pending rows of %d",
						seen, v, got[1].Run.Version, len(got[0].Pending), got[0].Run.Pending)
					return
				}
				seen = v
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range commits {
		c := change{events: 1, put: []string{"a"}}
		if i%2 == 1 {
			c = change{events: 1, del: []string{"a"}}
		}
		b.commit(step(&one, c), step(&two, c))
	}
	close(done)
	readers.Wait()
	b.has(two.Run, &two)
}
