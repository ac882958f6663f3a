package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/engined/engined/engine/store"
)

// List reads run rows, newest first.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.RunRow, error) {
	text, args := listSQL(&q)
	var out []store.RunRow
	err := s.snapshot(ctx, func(ctx context.Context, r *reader) error {
		st := r.lists[text]
		if st == nil {
			if err := r.prepared.prepare(ctx, r.conn, []toPrepare{{&st, text}}); err != nil {
				return s.readError(err, "runs", "a list")
			}
			r.lists[text] = st
		}
		err := each(ctx, st, func(rows *sql.Rows) (bool, error) {
			row, err := scanRun(rows)
			if err == nil {
				out = append(out, *row)
			}
			return true, err
		}, args...)
		if err != nil {
			return s.readError(err, "runs", "a list")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// listSQL has one text for each set of filters, so that each gets the index
// that fits; there are 32.
func listSQL(q *store.Query) (text string, args []any) {
	var where []string
	filter := func(set bool, condition string, values ...any) {
		if set {
			where = append(where, condition)
			args = append(args, values...)
		}
	}
	filter(q.Namespace != "", "namespace = ?", q.Namespace)
	filter(q.WorkflowID != "", "workflow_id = ?", q.WorkflowID)
	filter(q.Type != "", "type = ?", q.Type)
	filter(q.Status != 0, "status = ?", int64(q.Status))
	filter(q.BeforeStarted != 0 || q.BeforeRun != 0, "(started, run) < (?, ?)", q.BeforeStarted, int64(q.BeforeRun))
	text = "SELECT " + runColumns + " FROM runs"
	if q.Namespace != "" && q.WorkflowID != "" {
		// SQLite would rather walk the whole namespace than sort the few runs
		// of an id.
		text += " INDEXED BY runs_id"
	}
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	limit := int64(q.Limit)
	if limit <= 0 {
		limit = -1 // SQLite's word for none
	}
	return text + " ORDER BY started DESC, run DESC LIMIT ?", append(args, limit)
}
