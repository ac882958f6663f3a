package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// writer has the statements of the connection that writes.
type writer struct {
	begin, commit, rollback       *sql.Stmt
	shard, updateShard, newestRun *sql.Stmt
	insertRun, stays, turns       *sql.Stmt
	runState, version             *sql.Stmt
	insertEvents                  *sql.Stmt
	insertPending, updatePending  *sql.Stmt
	deletePending                 *sql.Stmt
	insertDedup                   *sql.Stmt
	prepared                      prepared
}

func (w *writer) prepare(ctx context.Context, conn *sql.Conn) error {
	return w.prepared.prepare(ctx, conn, []toPrepare{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.shard, sqlShard},
		{&w.updateShard, sqlUpdateShard},
		{&w.newestRun, sqlNewestRun},
		{&w.insertRun, sqlInsertRun},
		{&w.stays, sqlUpdateStays},
		{&w.turns, sqlUpdateTurns},
		{&w.runState, sqlRunState},
		{&w.version, sqlVersion},
		{&w.insertEvents, sqlInsertEvents},
		{&w.insertPending, sqlInsertPending},
		{&w.updatePending, sqlUpdatePending},
		{&w.deletePending, sqlDeletePending},
		{&w.insertDedup, sqlInsertDedup},
	})
}

// Commit writes the batch in one transaction.
func (s *Store) Commit(ctx context.Context, b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return store.ErrClosed
	}
	if s.fatal != nil {
		return s.fatal
	}
	if err := ctx.Err(); err != nil {
		return &store.UnavailableError{Err: err}
	}
	if err := s.check.Check(b); err != nil {
		return err
	}
	err := s.transact(context.WithoutCancel(ctx), transaction{
		body:   func(ctx context.Context) error { return s.writeBatch(ctx, b) },
		stands: func(ctx context.Context) (bool, error) { return s.batchStands(ctx, b) },
	})
	if err != nil {
		return err
	}
	s.commits.Add(1)
	s.rows.Add(countRows(b))
	return nil
}

// Fence raises the epochs of the shards. No batch of an older epoch can land
// later: one whose outcome could not be shown has ended the store.
func (s *Store) Fence(ctx context.Context, shards []store.ShardID, now int64) ([]store.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil, store.ErrClosed
	}
	if s.fatal != nil {
		return nil, s.fatal
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckShards(shards, s.info.Shards); err != nil {
		return nil, err
	}
	leases := make([]store.Lease, len(shards))
	err := s.transact(context.WithoutCancel(ctx), transaction{
		body: func(ctx context.Context) error {
			for i, id := range shards {
				var err error
				if leases[i], err = s.fence(ctx, id, now); err != nil {
					return s.failure(err)
				}
			}
			return nil
		},
		stands: func(ctx context.Context) (bool, error) {
			if len(shards) == 0 {
				return false, nil
			}
			l, err := s.readShard(ctx, shards[0])
			return l.Epoch == leases[0].Epoch, err
		},
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// transaction is what is written, and how to find out whether it stands.
type transaction struct {
	// body returns one of the store's typed errors.
	body func(context.Context) error
	// stands looks into the database after a COMMIT that failed. It may say no
	// if nothing was written.
	stands func(context.Context) (bool, error)
}

// transact runs t on the connection that writes. If it cannot be shown how the
// transaction ended, that is the last thing the store has written.
func (s *Store) transact(ctx context.Context, t transaction) error {
	err := s.tryTransact(ctx, t)
	if fatal, ok := err.(*store.FatalError); ok {
		s.fatal = fatal
	}
	return err
}

func (s *Store) tryTransact(ctx context.Context, t transaction) error {
	if _, err := s.write.begin.ExecContext(ctx); err != nil {
		return s.rollBack(ctx, s.failure(fmt.Errorf("begin: %w", err)))
	}
	if err := t.body(ctx); err != nil {
		return s.rollBack(ctx, err)
	}
	if _, err := s.write.commit.ExecContext(ctx); err != nil {
		return s.settle(ctx, t, fmt.Errorf("commit: %w", err))
	}
	return nil
}

// rollBack returns the reason if SQLite shows that nothing was written: by
// rolling back, or by having done so already.
func (s *Store) rollBack(ctx context.Context, reason error) error {
	_, err := s.write.rollback.ExecContext(ctx)
	if err == nil || s.driver.Classify(err).noTransaction() {
		return reason
	}
	// The reason is no cause here: the error must be of one kind only.
	return &store.FatalError{Err: fmt.Errorf("roll back after %q: %w", reason.Error(), err)}
}

// settle finds out what became of a transaction whose COMMIT failed.
func (s *Store) settle(ctx context.Context, t transaction, failed error) error {
	if s.driver.Classify(failed).mustEnd() {
		return &store.FatalError{Err: failed}
	}
	_, err := s.write.rollback.ExecContext(ctx)
	if err == nil {
		return s.failure(failed)
	}
	if !s.driver.Classify(err).noTransaction() {
		return &store.FatalError{Err: fmt.Errorf("%w; it cannot be shown whether it stands: roll back: %w", failed, err)}
	}
	stands, err := t.stands(ctx)
	if err != nil {
		return &store.FatalError{Err: fmt.Errorf("%w; it cannot be shown whether it stands: %w", failed, err)}
	}
	if !stands {
		return s.failure(failed)
	}
	// It is in the log. That the log is on disk is what COMMIT did not say.
	if err := s.checkpoint(ctx); err != nil {
		return &store.FatalError{Err: fmt.Errorf("%w; it stands, but not surely on disk: %w", failed, err)}
	}
	return nil
}

func (s *Store) fence(ctx context.Context, id store.ShardID, now int64) (store.Lease, error) {
	l, err := s.readShard(ctx, id)
	if err != nil {
		return l, err
	}
	l.Epoch = max(l.Epoch+1, now)
	newest, err := s.newestRun(ctx, id)
	if err != nil {
		return l, err
	}
	l.NextRun = max(l.NextRun, newest+1)
	next := l
	next.NextRun += store.ReservedRuns
	changed, err := s.exec(ctx, s.write.updateShard, next.Epoch, next.NextRun, next.Sum(), int64(id))
	if err == nil && changed != 1 {
		err = &store.CorruptError{Table: "shards", Key: shardKey(id), Why: "it cannot be updated"}
	}
	return l, err
}

// newestRun is the counter of the shard's newest run, 0 if it has none. A lease may
// have given out more numbers than were reserved.
func (s *Store) newestRun(ctx context.Context, id store.ShardID) (newest int64, err error) {
	var run sql.NullInt64
	_, err = one(ctx, s.write.newestRun, func(rows *sql.Rows) error { return rows.Scan(&run) },
		int64(store.MakeRunNo(id, 0)), int64(store.MakeRunNo(id, counters-1)))
	if run.Valid {
		newest = run.Int64 & (counters - 1)
	}
	return newest, err
}

// counters is how many run numbers a shard can have.
const counters = int64(1) << store.ShardBits

// readShard reads the row on the connection that writes, and so within its
// transaction.
func (s *Store) readShard(ctx context.Context, id store.ShardID) (l store.Lease, err error) {
	found, err := one(ctx, s.write.shard, func(rows *sql.Rows) (err error) {
		l, err = scanShard(rows)
		return err
	}, int64(id))
	if err == nil && !found {
		err = &store.CorruptError{Table: "shards", Key: shardKey(id), Why: "it is missing"}
	}
	return l, err
}
