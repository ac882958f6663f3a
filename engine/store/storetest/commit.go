package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/engined/engined/engine/store"
)

var commitTests = []test{
	{"rows are read as they were written", rowsAreRead},
	{"the writes of a batch land together and in order", idMovesWithinABatch},
	{"an id that was closed is free in a later batch", idMovesBetweenBatches},
	{"an empty batch is done", func(b *bench) { b.commit() }},
	{"the store keeps no bytes of the caller", noAliases},
	{"nothing is written under a context that is done", contextDone},
	{"big rows", bigRows},
	{"odd strings", oddStrings},
	{"a batch of 500 writes", fullBatch},
}

func rowsAreRead(b *bench) {
	row := b.row(1, "order-1")
	first := step(&row, change{events: 2, put: []string{"a", "b"}, dedup: []string{"sig-1"}})
	b.commit(first)
	got := b.load(store.Key{Run: row.Run, Request: "sig-1"})[0]
	same(b, "run", got.Run, &first.Run)
	same(b, "pending", got.Pending, first.Put)
	same(b, "dedup", got.Dedup, &first.Dedup[0])
	same(b, "history", b.history(row.Run, 0, 1<<20), []store.EventRow{*first.Events})

	second := step(&row, change{events: 3, put: []string{"c"}, again: []string{"b"}, del: []string{"a"}, wake: 9})
	b.commit(second)
	got = b.load(store.Key{Run: row.Run})[0]
	same(b, "run", got.Run, &second.Run)
	same(b, "pending", got.Pending, []store.PendingRow{second.Put[1], second.Put[0]})
	same(b, "history", b.history(row.Run, 0, 1<<20), []store.EventRow{*first.Events, *second.Events})

	quiet := step(&row, change{mark: true})
	b.commit(quiet)
	last := step(&row, change{events: 1, del: []string{"b", "c"}, close: true})
	b.commit(last)
	got = b.load(store.Key{Run: row.Run})[0]
	same(b, "closed run", got.Run, &last.Run)
	same(b, "pending", len(got.Pending), 0)
	late := step(&row, change{events: 1}) // a closed run still takes facts
	b.commit(late)
	b.has(row.Run, &late.Run)
}

func idMovesWithinABatch(b *bench) {
	old, next := b.row(0, "order-1"), b.row(0, "order-1")
	b.commit(step(&old, change{events: 1}))
	other := b.row(2, "order-2")
	kept := old
	closing, opening := step(&old, change{events: 1, close: true}), step(&next, change{events: 1})
	b.refused(0, opening, closing)
	b.has(old.Run, &kept)
	b.has(next.Run, nil)
	b.commit(step(&other, change{events: 1}), closing, opening)
	b.has(old.Run, &closing.Run)
	b.has(next.Run, &opening.Run)
	b.has(other.Run, &other)
}

func idMovesBetweenBatches(b *bench) {
	for range 5 {
		row := b.row(3, "again")
		b.commit(step(&row, change{events: 1, put: []string{"a"}}))
		b.commit(step(&row, change{events: 1, del: []string{"a"}, close: true}))
		same(b, "newest", b.load(store.Key{Namespace: "default", WorkflowID: "again"})[0].Run, &row)
	}
}

func noAliases(b *bench) {
	row := b.row(0, "order-1")
	w := step(&row, change{events: 1, put: []string{"a"}, dedup: []string{"r"}})
	want := *w
	want.Run.State = append([]byte(nil), w.Run.State...)
	b.commit(w)
	all := [][]byte{w.Run.State, w.Events.Data, w.Put[0].Data, w.Dedup[0].Data}
	for range 2 {
		for _, bytes := range all {
			clear(bytes)
		}
		got := b.load(store.Key{Run: row.Run, Request: "r"})[0]
		same(b, "state", string(got.Run.State), string(want.Run.State))
		same(b, "pending", string(got.Pending[0].Data), "a at version 1")
		same(b, "dedup", string(got.Dedup.Data), "told r")
		events := b.history(row.Run, 0, 0)
		same(b, "events", string(events[0].Data), "events from 1")
		all = [][]byte{got.Run.State, got.Pending[0].Data, got.Dedup.Data, events[0].Data}
	}
}

func contextDone(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	row := b.row(0, "order-1")
	err := b.s.Commit(ctx, b.batch(step(&row, change{})))
	var u *store.UnavailableError
	if !errors.As(err, &u) || !errors.Is(err, context.Canceled) {
		b.Fatalf("Commit = %v, want unavailable because of the context", err)
	}
	b.has(row.Run, nil)
	if _, err := b.s.Load(ctx, nil); !errors.Is(err, context.Canceled) {
		b.Fatalf("Load = %v, want the context's error", err)
	}
	if _, err := b.s.Fence(ctx, nil, 0); !errors.Is(err, context.Canceled) {
		b.Fatalf("Fence = %v, want the context's error", err)
	}
}

func bigRows(b *bench) {
	row := b.row(0, "big")
	w := step(&row, change{events: 1, put: []string{"a"}, dedup: []string{"r"}, payload: 5 << 20})
	row.State = payload(3<<20, "state")
	w.Run.State = row.State
	b.commit(w)
	got := b.load(store.Key{Run: row.Run, Request: "r"})[0]
	same(b, "run", got.Run, &w.Run)
	same(b, "pending", got.Pending, w.Put)
	same(b, "dedup", got.Dedup, &w.Dedup[0])
	same(b, "history", b.history(row.Run, 0, 1), []store.EventRow{*w.Events})
}

func oddStrings(b *bench) {
	odd := []string{
		strings.Repeat("x", 1000), "Grüße, 世界 🚚", `it's "quoted" -- ; \`, "a\x00b", "a", "A", " a", "a ", "%", "_", "?1", "\xff\xfe", "123", "1e3",
	}
	rows := make([]store.RunRow, len(odd))
	for i, s := range odd {
		rows[i] = b.row(0, s)
		rows[i].Namespace, rows[i].Type, rows[i].Request = s, s, s
		b.commit(step(&rows[i], change{events: 1, put: []string{s}, dedup: []string{s}}))
	}
	for i, s := range odd {
		got := b.load(store.Key{Namespace: s, WorkflowID: s, Request: s})[0]
		same(b, "run", got.Run, &rows[i])
		same(b, "by request", got.ByRequest, &rows[i])
		if got.Dedup == nil || got.Dedup.Request != s || len(got.Pending) != 1 || got.Pending[0].Op != s {
			b.Fatalf("%q: dedup %v, pending %v", s, got.Dedup, got.Pending)
		}
		same(b, "list", b.list(store.Query{Namespace: s, WorkflowID: s, Type: s}), []store.RunRow{rows[i]})
	}
	empty := b.row(0, "")
	empty.Namespace, empty.RunID, empty.Type, empty.Request = "", "", "", ""
	w := step(&empty, change{events: 1, put: []string{"a"}})
	w.Run.State, w.Events.Data, w.Put[0].Data = nil, []byte{}, nil
	b.commit(w)
	got := b.load(store.Key{Run: empty.Run})[0]
	if got.Run.State != nil || got.Pending[0].Data != nil || b.history(empty.Run, 0, 0)[0].Data != nil {
		b.Fatal("empty bytes are not read as none")
	}
}

func fullBatch(b *bench) {
	const n = 500
	rows := make([]store.RunRow, n)
	for _, last := range []bool{false, true} {
		writes := make([]*store.Write, n)
		for i := range rows {
			c := change{events: 1, put: []string{"a"}}
			if last {
				c = change{events: 1, del: []string{"a"}, close: true}
			} else {
				rows[i] = b.row(store.ShardID(i%Shards), strings.Repeat("w", i+1))
			}
			writes[i] = step(&rows[i], c)
		}
		b.commit(writes...)
	}
	for i := range rows {
		b.has(rows[i].Run, &rows[i])
	}
}
