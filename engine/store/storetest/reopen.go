package storetest

import (
	"errors"

	"github.com/engined/engined/engine/store"
)

var reopenTests = []test{
	{"all that was committed is there", reopenKeeps},
	{"a batch of before needs a new lease after a fence", reopenFences},
	{"a closed store says so", closed},
}

func reopenKeeps(b *bench) {
	open, done := b.row(0, "open"), b.row(1, "done")
	first := step(&open, change{events: 2, put: []string{"a", "b"}, wake: 7, mark: true, dedup: []string{"r"}})
	b.commit(first, step(&done, change{events: 1, close: true}))
	info, loaded := b.s.Info(), b.load(store.Key{Run: open.Run, Request: "r"})
	if info.Shards != Shards || info.Name == "" || info.Schema < 1 {
		b.Fatalf("Info = %+v", info)
	}
	for range 3 {
		b.reopen()
		same(b, "info", b.s.Info(), info)
		same(b, "run", b.load(store.Key{Run: open.Run, Request: "r"}), loaded)
		same(b, "done", b.load(store.Key{Namespace: "default", WorkflowID: "done"})[0].Run, &done)
		same(b, "due", len(b.due(0, 7, store.Wake{}, 9)), 3)
		same(b, "history", b.history(open.Run, 0, 0), []store.EventRow{*first.Events})
		same(b, "list", len(b.list(store.Query{Namespace: "default"})), 2)
	}
	b.fence()
	b.commit(step(&open, change{events: 1, del: []string{"a", "b"}, close: true}))
	b.reopen()
	b.has(open.Run, &open)
}

func reopenFences(b *bench) {
	row := b.row(0, "order")
	batch := b.batch(step(&row, change{events: 1}))
	b.reopen()
	b.fence()
	var lost *store.LeaseLostError
	if err := b.s.Commit(b.Context(), batch); !errors.As(err, &lost) {
		b.Fatalf("Commit = %v, want the lease lost", err)
	}
	b.has(row.Run, nil)
}

func closed(b *bench) {
	row := b.row(0, "order")
	batch := b.batch(step(&row, change{events: 1}))
	for range 2 {
		if err := b.s.Close(); err != nil {
			b.Fatalf("Close: %v", err)
		}
	}
	ctx := b.Context()
	_, fence := b.s.Fence(ctx, []store.ShardID{0}, 0)
	_, load := b.s.Load(ctx, []store.Key{{Run: 1}})
	_, due := b.s.Due(ctx, 0, 0, store.Wake{}, 1)
	_, history := b.s.History(ctx, 1, 0, 1)
	_, list := b.s.List(ctx, store.Query{})
	for name, err := range map[string]error{"Commit": b.s.Commit(ctx, batch), "Fence": fence,
		"Load": load, "Due": due, "History": history, "List": list} {
		if !errors.Is(err, store.ErrClosed) {
			b.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
	if b.s.Info().Shards != Shards {
		b.Error("Info is gone")
	}
}
