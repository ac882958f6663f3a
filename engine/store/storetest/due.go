package storetest

import (
	"fmt"

	"github.com/engined/engined/engine/store"
)

var dueTests = []test{
	{"by time, run and op; up to and including the time", dueOrder},
	{"page by page", duePages},
	{"a change of the wake time moves the row", dueMoves},
	{"attention stands at 0, before the ops of its run", dueAttention},
	{"other shards are left out", dueShards},
}

func dueOrder(b *bench) {
	one, two := b.row(1, "one"), b.row(1, "two")
	b.commit(step(&two, change{put: []string{"b", "a"}, wake: 10}), step(&one, change{put: []string{"z"}, wake: 10}))
	b.commit(step(&one, change{put: []string{"y"}, wake: 20}), step(&two, change{put: []string{"always"}}))
	all := []store.Wake{{Run: two.Run, Op: "always"}, {At: 10, Run: one.Run, Op: "z"},
		{At: 10, Run: two.Run, Op: "a"}, {At: 10, Run: two.Run, Op: "b"}, {At: 20, Run: one.Run, Op: "y"}}
	for until, n := range map[int64]int{-5: 1, 0: 1, 9: 1, 10: 4, 19: 4, 20: 5, 1 << 62: 5} {
		same(b, fmt.Sprint("until ", until), b.due(1, until, store.Wake{}, 10), all[:n])
	}
	b.commit(step(&two, change{del: []string{"a", "b", "always"}, close: true}))
	same(b, "after a delete", b.due(1, 20, store.Wake{}, 10), []store.Wake{all[1], all[4]})
}

func duePages(b *bench) {
	var want []store.Wake
	for i := range 7 {
		row := b.row(2, fmt.Sprint("order-", i))
		ops := []string{"a", "b", "c"}
		b.commit(step(&row, change{put: ops, mark: i%2 == 0}))
		if i%2 == 0 {
			want = append(want, store.Wake{Run: row.Run})
		}
		for _, op := range ops {
			want = append(want, store.Wake{Run: row.Run, Op: op})
		}
	}
	for at := range int64(4) {
		row := b.row(2, fmt.Sprint("late-", at))
		b.commit(step(&row, change{put: []string{"t", "u"}, wake: 100 + at}))
		want = append(want, store.Wake{At: 100 + at, Run: row.Run, Op: "t"}, store.Wake{At: 100 + at, Run: row.Run, Op: "u"})
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []store.Wake
		var after store.Wake
		for {
			page := b.due(2, 1000, after, limit)
			if len(page) > limit {
				b.Fatalf("a page of %d, the limit is %d", len(page), limit)
			}
			if len(page) == 0 || len(got) > len(want) { // the second is a store that goes in circles
				break
			}
			got = append(got, page...)
			after = page[len(page)-1]
		}
		same(b, fmt.Sprint("pages of ", limit), got, want)
	}
	same(b, "limit 0", len(b.due(2, 1000, store.Wake{}, 0)), 0)
}

func dueMoves(b *bench) {
	row := b.row(0, "order")
	b.commit(step(&row, change{put: []string{"a", "b"}, wake: 10}))
	b.commit(step(&row, change{again: []string{"a"}, wake: 30}))
	b.commit(step(&row, change{again: []string{"b"}, wake: 5}))
	same(b, "due", b.due(0, 100, store.Wake{}, 9), []store.Wake{{At: 5, Run: row.Run, Op: "b"}, {At: 30, Run: row.Run, Op: "a"}})
}

func dueAttention(b *bench) {
	one, two := b.row(0, "one"), b.row(0, "two")
	b.commit(step(&one, change{put: []string{"a"}, mark: true}), step(&two, change{put: []string{"a"}, mark: true}))
	marked := []store.Wake{{Run: one.Run}, {Run: one.Run, Op: "a"}, {Run: two.Run}, {Run: two.Run, Op: "a"}}
	same(b, "due", b.due(0, 0, store.Wake{}, 9), marked)
	b.commit(step(&one, change{}))
	same(b, "unmarked", b.due(0, 0, store.Wake{}, 9), marked[1:])
	b.commit(step(&two, change{close: true, mark: true}))
	same(b, "closed, but marked", b.due(0, 0, store.Wake{}, 9), marked[1:])
}

func dueShards(b *bench) {
	var rows [Shards]store.RunRow
	for i := range rows {
		rows[i] = b.row(store.ShardID(i), fmt.Sprint("order-", i))
		b.commit(step(&rows[i], change{put: []string{"a"}, mark: true}))
	}
	for i := range rows {
		want := []store.Wake{{Run: rows[i].Run}, {Run: rows[i].Run, Op: "a"}}
		same(b, fmt.Sprint("shard ", i), b.due(store.ShardID(i), 0, store.Wake{}, 9), want)
	}
	same(b, "a shard that is none", len(b.due(store.MaxShards-1, 0, store.Wake{}, 9)), 0)
}
