package storetest

import (
	"fmt"

	"github.com/engined/engined/engine/store"
)

var historyTests = []test{
	{"from the row that holds the event behind", historyFrom},
	{"whole rows up to the bytes, at least one", historyBytes},
	{"a run without events, or none", historyNothing},
}

// longHistory writes event rows of 1, 2, 3, ... events and 100 bytes each.
func longHistory(b *bench, rows int) (row store.RunRow, want []store.EventRow) {
	row = b.row(1, "long")
	noise := b.row(1, "noise")
	for i := range rows {
		w := step(&row, change{events: int64(i + 1), payload: 100})
		b.commit(w, step(&noise, change{events: 1}))
		want = append(want, *w.Events)
	}
	return row, want
}

func historyFrom(b *bench) {
	row, want := longHistory(b, 6)
	for after := int64(-1); after < row.NextEvent+2; after++ {
		rest := want
		for len(rest) > 0 && rest[0].Last <= after {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			rest = nil
		}
		same(b, fmt.Sprint("after ", after), b.history(row.Run, after, 1<<20), rest)
	}
}

func historyBytes(b *bench) {
	row, want := longHistory(b, 6)
	for maxBytes, n := range map[int]int{-1: 1, 0: 1, 99: 1, 100: 1, 199: 1, 200: 2, 301: 3, 599: 5, 600: 6, 1 << 30: 6} {
		same(b, fmt.Sprint("bytes ", maxBytes), b.history(row.Run, 0, maxBytes), want[:n])
	}
	var got []store.EventRow
	for after := int64(0); ; {
		page := b.history(row.Run, after, 250)
		if len(page) == 0 || len(got) > len(want) { // the second is a store that goes in circles
			break
		}
		got = append(got, page...)
		after = page[len(page)-1].Last
	}
	same(b, "page by page", got, want)
}

func historyNothing(b *bench) {
	row := b.row(1, "order")
	b.commit(step(&row, change{}))
	same(b, "no events", b.history(row.Run, 0, 100), nil)
	same(b, "no run", b.history(row.Run+1, 0, 100), nil)
	w := step(&row, change{events: 2})
	b.commit(w)
	same(b, "events", b.history(row.Run, 1, 100), []store.EventRow{*w.Events})
	same(b, "all seen", b.history(row.Run, 2, 100), nil)
}
