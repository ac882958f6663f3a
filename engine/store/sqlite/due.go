package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/engined/engined/engine/store"
)

// Due reads two indexes and merges them. It reads no row, and so checks none:
// the Load that follows does.
func (s *Store) Due(ctx context.Context, id store.ShardID, until int64, after store.Wake, limit int) ([]store.Wake, error) {
	var out []store.Wake
	err := s.snapshot(ctx, func(ctx context.Context, r *reader) error {
		if limit <= 0 {
			return nil
		}
		if after.At <= 0 { // they stand at 0
			if err := attention(ctx, r, id, after, limit, &out); err != nil {
				return s.readError(err, "runs", shardKey(id))
			}
		}
		err := each(ctx, r.due, func(rows *sql.Rows) (bool, error) {
			var w store.Wake
			err := rows.Scan(&w.At, &w.Run, &w.Op)
			out = append(out, w)
			return true, err
		}, int64(id), after.At, int64(after.Run), after.Op, max(until, 0), int64(limit))
		if err != nil {
			return s.readError(err, "pending", shardKey(id))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b store.Wake) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Run, b.Run), strings.Compare(a.Op, b.Op))
	})
	return out[:min(len(out), max(limit, 0))], nil
}

// attention lists the marked runs of the shard behind after. That of after.Run
// itself stands before any of its ops, and so is not behind.
func attention(ctx context.Context, r *reader, id store.ShardID, after store.Wake, limit int, out *[]store.Wake) error {
	first, last := store.MakeRunNo(id, 0), store.MakeRunNo(id, 1<<store.ShardBits-1)
	if after.At < 0 {
		after = store.Wake{}
	}
	return each(ctx, r.attention, func(rows *sql.Rows) (bool, error) {
		var w store.Wake
		err := rows.Scan(&w.Run)
		*out = append(*out, w)
		return true, err
	}, int64(max(first-1, after.Run)), int64(last), int64(limit))
}
