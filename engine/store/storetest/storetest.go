// Package storetest is what every store must pass: the promises of package store,
// topic by topic, and a comparison with the memory store on random batches.
//
// It owns the promises; it must not know how a store keeps them.
package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/engined/engined/engine/store"
)

// Shards is how many shards a store under test must have.
const Shards = 4

// Opener opens the database of one test, with Shards shards. The first call
// creates it; a later one, after Close of the store before, opens it again.
type Opener func(t *testing.T) store.Store

// Run runs the suite. fresh is called once for each test and returns the opener
// of a database that does not exist yet.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	topics := []struct {
		name  string
		tests []test
	}{
		{"commit", commitTests},
		{"refuse", refuseTests},
		{"fence", fenceTests},
		{"load", loadTests},
		{"due", dueTests},
		{"history", historyTests},
		{"list", listTests},
		{"reopen", reopenTests},
		{"oracle", oracleTests},
	}
	for _, topic := range topics {
		t.Run(topic.name, func(t *testing.T) {
			for _, c := range topic.tests {
				t.Run(c.rule, func(t *testing.T) { c.run(newBench(t, fresh(t))) })
			}
		})
	}
}

type test struct {
	rule string
	run  func(*bench)
}

// bench is a store under test with a lease of each shard.
type bench struct {
	*testing.T
	open   Opener
	s      store.Store
	leases [Shards]store.Lease
	next   [Shards]int64
	now    int64
}

func newBench(t *testing.T, open Opener) *bench {
	b := &bench{T: t, open: open, now: 1000}
	b.s = open(t)
	t.Cleanup(func() { b.s.Close() })
	b.fence()
	return b
}

// fence takes all shards over.
func (b *bench) fence() {
	b.Helper()
	b.now++
	ids := make([]store.ShardID, Shards)
	for i := range ids {
		ids[i] = store.ShardID(i)
	}
	leases, err := b.s.Fence(b.Context(), ids, b.now)
	if err != nil {
		b.Fatalf("Fence: %v", err)
	}
	for i, l := range leases {
		b.leases[i], b.next[i] = l, l.NextRun
	}
}

// reopen closes the store and opens it again.
func (b *bench) reopen() {
	b.Helper()
	if err := b.s.Close(); err != nil {
		b.Fatalf("Close: %v", err)
	}
	b.s = b.open(b.T)
}

// number gives the next run number of a shard.
func (b *bench) number(s store.ShardID) store.RunNo {
	n := store.MakeRunNo(s, b.next[s])
	b.next[s]++
	return n
}

// row is a run that is not written yet.
func (b *bench) row(s store.ShardID, id string) store.RunRow {
	n := b.number(s)
	return store.RunRow{
		Run: n, Namespace: "default", WorkflowID: id, RunID: fmt.Sprintf("ulid-%d", n), Type: "Order",
		Status: 1, Open: true, NextEvent: 1, Started: 5_000_000 + int64(n), Request: fmt.Sprintf("req-%d", n),
		State: []byte("state 0"),
	}
}

// change is what a step does to a run.
type change struct {
	events  int64 // how many
	put     []string
	again   []string // ops that are there already
	wake    int64    // of all that are put
	del     []string
	close   bool
	mark    bool // for attention
	dedup   []string
	payload int // bytes of each row
}

// step builds the write that makes the change and brings row up to it.
func step(row *store.RunRow, c change) *store.Write {
	row.Version++
	row.Attention = c.mark
	row.State = fmt.Appendf(nil, "state %d", row.Version)
	if c.close {
		row.Open, row.Status, row.Closed = false, 2, row.Started+row.Version
	}
	w := &store.Write{Insert: row.Version == 1, Del: c.del}
	if c.events > 0 {
		w.Events = &store.EventRow{Run: row.Run, First: row.NextEvent, Last: row.NextEvent + c.events - 1}
		w.Events.Data = payload(c.payload, "events from %d", row.NextEvent)
		row.NextEvent += c.events
	}
	for _, op := range append(append([]string(nil), c.put...), c.again...) {
		p := store.PendingRow{Run: row.Run, Op: op, Wake: c.wake}
		p.Data = payload(c.payload, "%s at version %d", op, row.Version)
		w.Put = append(w.Put, p)
	}
	for _, request := range c.dedup {
		w.Dedup = append(w.Dedup, store.DedupRow{Namespace: row.Namespace, WorkflowID: row.WorkflowID,
			Request: request, Run: row.Run, Expires: 77, Data: payload(c.payload, "told %s", request)})
	}
	row.Pending += int64(len(c.put) - len(c.del))
	w.Run = *row
	return w
}

func payload(size int, format string, args ...any) []byte {
	b := fmt.Appendf(nil, format, args...)
	for len(b) < size {
		b = append(b, b...)
	}
	if size > 0 {
		b = b[:size]
	}
	return b
}

// batch makes a batch under the leases of its shards.
func (b *bench) batch(writes ...*store.Write) *store.Batch {
	out := &store.Batch{Writes: writes}
	var seen [Shards]bool
	for _, w := range writes {
		if s := w.Run.Run.Shard(); s < Shards && !seen[s] {
			seen[s] = true
			out.Leases = append(out.Leases, b.leases[s])
		}
	}
	return out
}

func (b *bench) commit(writes ...*store.Write) {
	b.Helper()
	if err := b.s.Commit(b.Context(), b.batch(writes...)); err != nil {
		b.Fatalf("Commit: %v", err)
	}
}

// refused commits and wants the write of the index refused.
func (b *bench) refused(index int, writes ...*store.Write) {
	b.Helper()
	err := b.s.Commit(b.Context(), b.batch(writes...))
	var r *store.RefusedError
	if !errors.As(err, &r) {
		b.Fatalf("Commit = %v, want a refusal of write %d", err, index)
	}
	if r.Index != index || r.Run != writes[index].Run.Run || r.Err == nil {
		b.Fatalf("refused: write %d, run %d, %v; want write %d, run %d", r.Index, r.Run, r.Err, index, writes[index].Run.Run)
	}
}

func (b *bench) load(keys ...store.Key) []store.Loaded {
	b.Helper()
	out, err := b.s.Load(b.Context(), keys)
	if err != nil {
		b.Fatalf("Load: %v", err)
	}
	if len(out) != len(keys) {
		b.Fatalf("Load of %d keys gave %d", len(keys), len(out))
	}
	return out
}

// has wants the run to be exactly as the row says, or not to be there.
func (b *bench) has(no store.RunNo, want *store.RunRow) {
	b.Helper()
	same(b, fmt.Sprintf("run %d", no), b.load(store.Key{Run: no})[0].Run, want)
}

func (b *bench) history(no store.RunNo, after int64, maxBytes int) []store.EventRow {
	b.Helper()
	out, err := b.s.History(b.Context(), no, after, maxBytes)
	if err != nil {
		b.Fatalf("History: %v", err)
	}
	return out
}

func (b *bench) due(s store.ShardID, until int64, after store.Wake, limit int) []store.Wake {
	b.Helper()
	out, err := b.s.Due(b.Context(), s, until, after, limit)
	if err != nil {
		b.Fatalf("Due: %v", err)
	}
	return out
}

func (b *bench) list(q store.Query) []store.RunRow {
	b.Helper()
	out, err := b.s.List(b.Context(), q)
	if err != nil {
		b.Fatalf("List: %v", err)
	}
	return out
}

func same[T any](b *bench, what string, got, want T) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
}

func show(v any) string {
	const most = 2000
	s := fmt.Sprintf("%+v", v)
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && !r.IsNil() {
		s = fmt.Sprintf("%+v", r.Elem())
	}
	return s[:min(len(s), most)]
}
