package sqlite

import (
	"database/sql"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// Every row that is read goes through one of these, which check it against its
// checksum. A value that does not even have its column's type is damage too.

const whySum = "its checksum does not fit"

func runKey(r store.RunNo) string                { return fmt.Sprintf("run %d", r) }
func shardKey(s store.ShardID) string            { return fmt.Sprintf("shard %d", s) }
func eventKey(r store.RunNo, first int64) string { return fmt.Sprintf("run %d event %d", r, first) }
func opKey(r store.RunNo, op string) string      { return fmt.Sprintf("run %d op %q", r, op) }
func dedupKey(d *store.DedupRow) string {
	return fmt.Sprintf("namespace %q workflow %q request %q", d.Namespace, d.WorkflowID, d.Request)
}

func damaged(table, key string, err error) error {
	why := whySum
	if err != nil {
		why = err.Error()
	}
	return &store.CorruptError{Table: table, Key: key, Why: why}
}

const runColumns = "run, namespace, workflow_id, run_id, type, status, open, attention, version, " +
	"next_event, pending, started, closed, request, state, sum"

func scanRun(rows *sql.Rows) (*store.RunRow, error) {
	var (
		r                            store.RunRow
		status, open, attention, sum int64
	)
	err := rows.Scan(&r.Run, &r.Namespace, &r.WorkflowID, &r.RunID, &r.Type, &status, &open, &attention, &r.Version,
		&r.NextEvent, &r.Pending, &r.Started, &r.Closed, &r.Request, &r.State, &sum)
	if err != nil {
		return nil, damaged("runs", runKey(r.Run), err)
	}
	r.Status, r.Open, r.Attention = int32(status), open == 1, attention == 1
	r.State = content(r.State)
	if int64(r.Status) != status || flag(r.Open) != open || flag(r.Attention) != attention || r.Sum() != sum {
		return nil, damaged("runs", runKey(r.Run), nil)
	}
	return &r, nil
}

func scanEvents(rows *sql.Rows) (e store.EventRow, err error) {
	var sum int64
	if err := rows.Scan(&e.Run, &e.First, &e.Last, &e.Data, &sum); err != nil {
		return e, damaged("events", eventKey(e.Run, e.First), err)
	}
	e.Data = content(e.Data)
	if e.Sum() != sum {
		return e, damaged("events", eventKey(e.Run, e.First), nil)
	}
	return e, nil
}

func scanPending(rows *sql.Rows) (p store.PendingRow, err error) {
	var sum int64
	if err := rows.Scan(&p.Run, &p.Op, &p.Wake, &p.Data, &sum); err != nil {
		return p, damaged("pending", opKey(p.Run, p.Op), err)
	}
	p.Data = content(p.Data)
	if p.Sum() != sum {
		return p, damaged("pending", opKey(p.Run, p.Op), nil)
	}
	return p, nil
}

func scanDedup(rows *sql.Rows) (*store.DedupRow, error) {
	var (
		d   store.DedupRow
		sum int64
	)
	if err := rows.Scan(&d.Namespace, &d.WorkflowID, &d.Request, &d.Run, &d.Expires, &d.Data, &sum); err != nil {
		return nil, damaged("dedup", dedupKey(&d), err)
	}
	d.Data = content(d.Data)
	if d.Sum() != sum {
		return nil, damaged("dedup", dedupKey(&d), nil)
	}
	return &d, nil
}

func scanShard(rows *sql.Rows) (l store.Lease, err error) {
	var shard, sum int64
	if err := rows.Scan(&shard, &l.Epoch, &l.NextRun, &sum); err != nil {
		return l, damaged("shards", shardKey(l.Shard), err)
	}
	if l.Shard = store.ShardID(shard); int64(l.Shard) != shard || l.Sum() != sum {
		return l, damaged("shards", shardKey(l.Shard), nil)
	}
	return l, nil
}

// content is bytes as the callers know them: empty bytes and none are the same.
func content(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// blob is bytes as a column knows them, where none is NULL and refused.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
