package storetest

import (
	"github.com/engined/engined/engine/store"
)

var refuseTests = func() (tests []test) {
	for _, bad := range badWrites {
		tests = append(tests, test{bad.rule, func(b *bench) { refuseAlone(b, bad.write) }})
	}
	return tests
}()

// refuseAlone puts the bad write between two good ones.
func refuseAlone(b *bench, bad func(*bench, store.RunRow) *store.Write) {
	row := b.row(1, "there")
	b.commit(step(&row, change{events: 2, put: []string{"a"}, dedup: []string{"sig-1"}, wake: 5}))
	closed := b.row(1, "closed")
	b.commit(step(&closed, change{events: 1, close: true}))

	before, after := b.row(0, "before"), b.row(2, "after")
	w := bad(b, row)
	b.refused(1, step(&before, change{events: 1, put: []string{"a"}}), w, step(&after, change{events: 1}))
	b.has(before.Run, nil)
	b.has(after.Run, nil)
	b.has(row.Run, &row)
	got := b.load(store.Key{Run: row.Run})[0]
	if len(got.Pending) != 1 || string(got.Pending[0].Data) != "a at version 1" {
		b.Fatalf("pending rows changed: %+v", got.Pending)
	}
	same(b, "event rows", len(b.history(row.Run, 0, 1<<20)), 1)
	same(b, "wakes", len(b.due(0, 1<<40, store.Wake{}, 10)), 0)

	before, after = b.row(0, "before"), b.row(2, "after")
	b.commit(step(&before, change{events: 1, put: []string{"a"}}), step(&after, change{events: 1}))
	b.has(before.Run, &before)
	b.has(after.Run, &after)
}

// badWrites are given the row of a run with events 1 and 2, and the pending row
// "a"; "sig-1" is remembered.
var badWrites = []struct {
	rule  string
	write func(*bench, store.RunRow) *store.Write
}{
	{"a run number is given once", func(b *bench, r store.RunRow) *store.Write {
		again := b.row(1, "other")
		again.Run = r.Run
		return step(&again, change{events: 1})
	}},
	{"a run to update is there", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "missing")
		r.Version, r.NextEvent = 1, 2
		return step(&r, change{events: 1})
	}},
	{"one open run for an id", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "there")
		return step(&r, change{events: 1})
	}},
	{"a version that was written is not written again", func(b *bench, r store.RunRow) *store.Write {
		r.Version = 0
		w := step(&r, change{events: 1})
		w.Insert = false
		return w
	}},
	{"no version is left out", func(b *bench, r store.RunRow) *store.Write {
		r.Version = 2
		return step(&r, change{events: 1})
	}},
	{"only the first version is inserted", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "new")
		w := step(&r, change{events: 1})
		w.Run.Version = 2
		return w
	}},
	{"events leave no gap", func(b *bench, r store.RunRow) *store.Write {
		r.NextEvent++
		return step(&r, change{events: 1})
	}},
	{"events do not overlap", func(b *bench, r store.RunRow) *store.Write {
		r.NextEvent--
		return step(&r, change{events: 2})
	}},
	{"the first event is 1", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "new")
		r.NextEvent = 2
		return step(&r, change{events: 1})
	}},
	{"events are counted", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{events: 1})
		w.Run.NextEvent++
		return w
	}},
	{"no events are counted where none are written", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{})
		w.Run.NextEvent++
		return w
	}},
	{"a new run without events counts none", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "new")
		w := step(&r, change{})
		w.Run.NextEvent = 2
		return w
	}},
	{"event rows are those of the run", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{events: 1})
		w.Events.Run++
		return w
	}},
	{"an event row has an event", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{events: 1})
		w.Events.First++
		return w
	}},
	{"pending rows that are there are counted", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{put: []string{"b"}})
		w.Run.Pending--
		return w
	}},
	{"pending rows that are not there are not counted", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{})
		w.Run.Pending++
		return w
	}},
	{"a pending row that is replaced is not counted twice", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{put: []string{"a"}})
	}},
	{"a new run counts its pending rows", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(1, "new")
		w := step(&r, change{put: []string{"a"}})
		w.Run.Pending = 2
		return w
	}},
	{"a pending row to delete is there", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{del: []string{"x"}})
		w.Run.Pending = 1
		return w
	}},
	{"a pending row is put once", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{put: []string{"b"}, again: []string{"b"}})
	}},
	{"a pending row is not put and deleted", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{again: []string{"a"}, del: []string{"a"}})
	}},
	{"a pending row has an op", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{put: []string{""}})
	}},
	{"a pending row does not wake before time", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{put: []string{"b"}, wake: -1})
	}},
	{"pending rows are those of the run", func(b *bench, r store.RunRow) *store.Write {
		w := step(&r, change{put: []string{"b"}})
		w.Put[0].Run++
		return w
	}},
	{"a request is remembered once", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{dedup: []string{"sig-1"}})
	}},
	{"a request is remembered once in a write", func(b *bench, r store.RunRow) *store.Write {
		return step(&r, change{dedup: []string{"sig-2", "sig-2"}})
	}},
	{"a run does not change its id", func(b *bench, r store.RunRow) *store.Write {
		r.WorkflowID = "elsewhere"
		return step(&r, change{events: 1})
	}},
	{"a run does not change its type", func(b *bench, r store.RunRow) *store.Write {
		r.Type = "Refund"
		return step(&r, change{events: 1, close: true})
	}},
	{"a closed run opens only if its id is free", func(b *bench, r store.RunRow) *store.Write {
		closed := b.row(1, "there")
		closed.Open = false
		b.commit(step(&closed, change{events: 1}))
		closed.Open = true
		return step(&closed, change{events: 1})
	}},
	{"a run number is greater than 0", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(0, "new")
		r.Run = 0
		return step(&r, change{events: 1})
	}},
	{"a run is written once in a batch", func(b *bench, r store.RunRow) *store.Write {
		r = b.row(0, "new")
		r.Run-- // that of the write before
		return step(&r, change{events: 1})
	}},
}
