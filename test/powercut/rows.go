package powercut

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/engined/engined/engine/store"
)

// Rows are those of all tables, in the order of their keys.
type Rows struct {
	Shards  [Shards]store.Lease // NextRun is the counter that is free next
	Runs    []store.RunRow
	Events  []store.EventRow
	Pending []store.PendingRow
	Dedup   []store.DedupRow
}

// rowsOf are the rows that a store must have to show the state.
func rowsOf(st *State, shards [Shards]store.Lease) *Rows {
	r := &Rows{Shards: shards, Runs: slices.Clone(st.List)}
	for _, h := range st.Histories {
		r.Events = append(r.Events, h...)
	}
	for _, l := range st.Runs {
		r.Pending = append(r.Pending, l.Pending...)
	}
	for _, l := range slices.Concat(st.Runs, st.Requests) {
		if l.Dedup != nil {
			r.Dedup = append(r.Dedup, *l.Dedup)
		}
	}
	slices.SortFunc(r.Runs, func(a, b store.RunRow) int { return cmp.Compare(a.Run, b.Run) })
	slices.SortFunc(r.Events, func(a, b store.EventRow) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.First, b.First))
	})
	slices.SortFunc(r.Pending, func(a, b store.PendingRow) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), strings.Compare(a.Op, b.Op))
	})
	slices.SortFunc(r.Dedup, func(a, b store.DedupRow) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.WorkflowID, b.WorkflowID), strings.Compare(a.Request, b.Request))
	})
	return r
}

// ReadRows reads all tables below the store, with all checksums, and has SQLite
// check the file.
func ReadRows(c *sqlite3.Conn) (*Rows, error) {
	r := &Rows{}
	for _, err := range []error{
		scan(c, "SELECT shard, epoch, next_run, sum FROM shards WHERE shard < 4 ORDER BY shard", 3, func(st *sqlite3.Stmt) int64 {
			l := store.Lease{Shard: store.ShardID(st.ColumnInt64(0)), Epoch: st.ColumnInt64(1), NextRun: st.ColumnInt64(2)}
			r.Shards[l.Shard] = l
			return l.Sum()
		}),
		scan(c, "SELECT run, namespace, workflow_id, run_id, type, status, open, attention, version, next_event, pending,"+
			" started, closed, request, state, sum FROM runs ORDER BY run", 15, func(st *sqlite3.Stmt) int64 {
			row := store.RunRow{Run: store.RunNo(st.ColumnInt64(0)), Namespace: st.ColumnText(1), WorkflowID: st.ColumnText(2),
				RunID: st.ColumnText(3), Type: st.ColumnText(4), Status: int32(st.ColumnInt64(5)), Open: st.ColumnInt64(6) == 1,
				Attention: st.ColumnInt64(7) == 1, Version: st.ColumnInt64(8), NextEvent: st.ColumnInt64(9), Pending: st.ColumnInt64(10),
				Started: st.ColumnInt64(11), Closed: st.ColumnInt64(12), Request: st.ColumnText(13), State: blob(st, 14)}
			r.Runs = append(r.Runs, row)
			return row.Sum()
		}),
		scan(c, "SELECT run, first, last, data, sum FROM events ORDER BY run, first", 4, func(st *sqlite3.Stmt) int64 {
			row := store.EventRow{Run: store.RunNo(st.ColumnInt64(0)), First: st.ColumnInt64(1), Last: st.ColumnInt64(2), Data: blob(st, 3)}
			r.Events = append(r.Events, row)
			return row.Sum()
		}),
		scan(c, "SELECT run, op, wake, data, sum FROM pending ORDER BY run, op", 4, func(st *sqlite3.Stmt) int64 {
			row := store.PendingRow{Run: store.RunNo(st.ColumnInt64(0)), Op: st.ColumnText(1), Wake: st.ColumnInt64(2), Data: blob(st, 3)}
			r.Pending = append(r.Pending, row)
			return row.Sum()
		}),
		scan(c, "SELECT namespace, workflow_id, request, run, expires, data, sum FROM dedup ORDER BY namespace, workflow_id, request", 6,
			func(st *sqlite3.Stmt) int64 {
				row := store.DedupRow{Namespace: st.ColumnText(0), WorkflowID: st.ColumnText(1), Request: st.ColumnText(2),
					Run: store.RunNo(st.ColumnInt64(3)), Expires: st.ColumnInt64(4), Data: blob(st, 5)}
				r.Dedup = append(r.Dedup, row)
				return row.Sum()
			}),
		integrity(c),
		partial(c, r, "runs_open", "open", func(row *store.RunRow) bool { return row.Open }),
		partial(c, r, "runs_attention", "attention", func(row *store.RunRow) bool { return row.Attention }),
	} {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// scan calls row for each row, which returns the checksum that the column must
// have.
func scan(c *sqlite3.Conn, text string, sum int, row func(*sqlite3.Stmt) int64) error {
	st, _, err := c.Prepare(text)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	defer st.Close()
	for st.Step() {
		if want := row(st); st.ColumnInt64(sum) != want {
			return fmt.Errorf("%s: a row has checksum %d, want %d", text, st.ColumnInt64(sum), want)
		}
	}
	if err := st.Err(); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

func blob(st *sqlite3.Stmt, column int) []byte {
	if b := st.ColumnBlob(column, nil); len(b) > 0 {
		return b
	}
	return nil
}

// integrity is SQLite's check that the tables, the indexes and the pages fit
// each other.
func integrity(c *sqlite3.Conn) error {
	st, _, err := c.Prepare("PRAGMA integrity_check(5)")
	if err != nil {
		return err
	}
	defer st.Close()
	var said []string
	for st.Step() {
		said = append(said, st.ColumnText(0))
	}
	if err := st.Err(); err != nil {
		return fmt.Errorf("integrity_check: %w", err)
	}
	if !slices.Equal(said, []string{"ok"}) {
		return fmt.Errorf("integrity_check: %q", said)
	}
	return nil
}

// partial holds a partial index against the rows: integrity_check does not see
// what is in it and should not be.
func partial(c *sqlite3.Conn, r *Rows, index, column string, in func(*store.RunRow) bool) error {
	st, _, err := c.Prepare(fmt.Sprintf("SELECT run FROM runs INDEXED BY %s WHERE %s = 1 ORDER BY run", index, column))
	if err != nil {
		return err
	}
	defer st.Close()
	var have, want []int64
	for st.Step() {
		have = append(have, st.ColumnInt64(0))
	}
	for i := range r.Runs {
		if in(&r.Runs[i]) {
			want = append(want, int64(r.Runs[i].Run))
		}
	}
	if err := st.Err(); err != nil || slices.Equal(have, want) {
		return err
	}
	return fmt.Errorf("index %s has runs %v, want %v", index, have, want)
}

// Diff says where rows differ, or nothing.
func (r *Rows) Diff(want *Rows) string {
	switch {
	case r.Shards != want.Shards:
		return fmt.Sprintf("shards %v, want %v", r.Shards, want.Shards)
	case !same(r.Runs, want.Runs):
		return fmt.Sprintf("%d runs, want %d: %s", len(r.Runs), len(want.Runs), firstDiff(r.Runs, want.Runs))
	case !same(r.Events, want.Events):
		return fmt.Sprintf("%d event rows, want %d: %s", len(r.Events), len(want.Events), firstDiff(r.Events, want.Events))
	case !same(r.Pending, want.Pending):
		return fmt.Sprintf("%d pending rows, want %d: %s", len(r.Pending), len(want.Pending), firstDiff(r.Pending, want.Pending))
	case !same(r.Dedup, want.Dedup):
		return fmt.Sprintf("%d dedup rows, want %d: %s", len(r.Dedup), len(want.Dedup), firstDiff(r.Dedup, want.Dedup))
	}
	return ""
}
