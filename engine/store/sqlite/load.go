package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// Load reads runs in one snapshot.
func (s *Store) Load(ctx context.Context, keys []store.Key) ([]store.Loaded, error) {
	out := make([]store.Loaded, len(keys))
	err := s.snapshot(ctx, func(inner context.Context, r *reader) error {
		for i := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.load(inner, r, &keys[i], &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) load(ctx context.Context, r *reader, k *store.Key, out *store.Loaded) (err error) {
	namespace, id := k.Namespace, k.WorkflowID
	if k.Run != 0 {
		if out.Run, err = s.runRow(ctx, r, k.Run); err != nil || out.Run == nil {
			return err
		}
		namespace, id = out.Run.Namespace, out.Run.WorkflowID
	} else if out.Run, err = oneRun(ctx, r.newest, namespace, id, k.RunID); err != nil {
		return s.readError(err, "runs", fmt.Sprintf("the newest of namespace %q workflow %q", namespace, id))
	}
	if out.Run != nil {
		if out.Pending, err = s.pendingRows(ctx, r, out.Run); err != nil {
			return err
		}
	}
	if k.Request == "" {
		return nil
	}
	key := dedupKey(&store.DedupRow{Namespace: namespace, WorkflowID: id, Request: k.Request})
	// An id without a newest run has none that a request could have started.
	if out.Run != nil || k.RunID != "" {
		if out.ByRequest, err = oneRun(ctx, r.byRequest, namespace, id, k.Request); err != nil {
			return s.readError(err, "runs", key)
		}
	}
	_, err = one(ctx, r.dedup, func(rows *sql.Rows) (err error) {
		out.Dedup, err = scanDedup(rows)
		return err
	}, namespace, id, k.Request)
	if err != nil {
		return s.readError(err, "dedup", key)
	}
	return nil
}

func oneRun(ctx context.Context, st *sql.Stmt, args ...any) (run *store.RunRow, err error) {
	_, err = one(ctx, st, func(rows *sql.Rows) (err error) {
		run, err = scanRun(rows)
		return err
	}, args...)
	return run, err
}

// runRow reads a run by its number. That there is none is believed only if
// there are no rows of it either.
func (s *Store) runRow(ctx context.Context, r *reader, no store.RunNo) (*store.RunRow, error) {
	run, err := oneRun(ctx, r.run, int64(no))
	if err != nil {
		return nil, s.readError(err, "runs", runKey(no))
	}
	if run != nil {
		return run, nil
	}
	var orphans int64
	_, err = one(ctx, r.orphans, func(rows *sql.Rows) error { return rows.Scan(&orphans) }, int64(no))
	if err != nil {
		return nil, s.readError(err, "runs", runKey(no))
	}
	if orphans != 0 {
		return nil, &store.CorruptError{Table: "runs", Key: runKey(no), Why: "it is missing, but its events or pending rows are there"}
	}
	return nil, nil
}

// pendingRows reads all of the run's, and counts them.
func (s *Store) pendingRows(ctx context.Context, r *reader, run *store.RunRow) ([]store.PendingRow, error) {
	var out []store.PendingRow
	err := each(ctx, r.pending, func(rows *sql.Rows) (bool, error) {
		p, err := scanPending(rows)
		out = append(out, p)
		return true, err
	}, int64(run.Run))
	if err != nil {
		return nil, s.readError(err, "pending", runKey(run.Run))
	}
	if n := int64(len(out)); n != run.Pending {
		return nil, &store.CorruptError{Table: "pending", Key: runKey(run.Run),
			Why: fmt.Sprintf("the run counts %d rows, there are %d", run.Pending, n)}
	}
	return out, nil
}
