package storetest

import (
	"fmt"
	"slices"

	"github.com/engined/engined/engine/store"
)

var listTests = []test{
	{"filters join", listFilters},
	{"newest first, page by page", listPages},
}

func listFilters(b *bench) {
	var rows []store.RunRow // oldest first
	for i := range 24 {
		row := b.row(store.ShardID(i%Shards), fmt.Sprint("id-", i%5))
		row.Namespace = []string{"default", "other"}[i%2]
		row.Type = []string{"Order", "Refund", "Mail"}[i%3]
		row.Started = int64(1000 + i/2) // two of each time
		w := step(&row, change{events: 1, put: []string{"a"}})
		row.Status, row.Open, row.Closed = int32(1+i%4), false, 9
		w.Run = row
		b.commit(w)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y store.RunRow) int {
		if x.Started != y.Started {
			return int(y.Started - x.Started)
		}
		return int(y.Run>>store.ShardBits - x.Run>>store.ShardBits)
	})
	for _, q := range []store.Query{
		{}, {Namespace: "default"}, {Namespace: "none"}, {WorkflowID: "id-3"}, {Type: "Mail"}, {Status: 2},
		{Namespace: "other", Type: "Order"}, {Namespace: "default", WorkflowID: "id-1"}, {Type: "Order", Status: 3},
		{Namespace: "other", WorkflowID: "id-3", Type: "Order", Status: 4},
		{Namespace: "default", BeforeStarted: 1005}, {Type: "Refund", BeforeStarted: 1007, BeforeRun: rows[12].Run},
	} {
		var want []store.RunRow
		for _, r := range rows {
			if (q.Namespace == "" || q.Namespace == r.Namespace) && (q.WorkflowID == "" || q.WorkflowID == r.WorkflowID) &&
				(q.Type == "" || q.Type == r.Type) && (q.Status == 0 || q.Status == r.Status) &&
				(q.BeforeStarted == 0 || r.Started < q.BeforeStarted || r.Started == q.BeforeStarted && r.Run < q.BeforeRun) {
				want = append(want, r)
			}
		}
		same(b, fmt.Sprintf("%+v", q), b.list(q), want)
		if len(want) > 2 {
			q.Limit = 2
			same(b, fmt.Sprintf("%+v", q), b.list(q), want[:2])
		}
	}
}

func listPages(b *bench) {
	var want []store.RunRow
	for i := range 20 {
		row := b.row(0, fmt.Sprint("id-", i))
		row.Started = int64(1 + i/3)
		b.commit(step(&row, change{events: 1}))
		want = append(want, row)
	}
	slices.Reverse(want)
	for limit := 1; limit < 8; limit++ {
		var got []store.RunRow
		q := store.Query{Namespace: "default", Limit: limit}
		for {
			page := b.list(q)
			if len(page) > limit {
				b.Fatalf("a page of %d, the limit is %d", len(page), limit)
			}
			if len(page) == 0 || len(got) > len(want) { // the second is a store that goes in circles
				break
			}
			got = append(got, page...)
			last := page[len(page)-1]
			q.BeforeStarted, q.BeforeRun = last.Started, last.Run
		}
		same(b, fmt.Sprint("pages of ", limit), got, want)
	}
}
