package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// What every connection is set to. The log is copied back at the default 1,000
// pages, which keeps the slowest commits short.
var pragmas = []string{
	"PRAGMA synchronous = FULL",
	"PRAGMA wal_autocheckpoint = 1000",
}

const (
	busyTimeout     = "PRAGMA busy_timeout = 5000" // ms; only other programs can make us wait
	synchronousFull = 2
)

// Open opens or creates the database. Its errors are *OpenError.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	path, release, err := c.Files.Take(c.Path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		info:    store.Info{Name: "sqlite", Path: path},
		driver:  c.Driver,
		release: release,
		readers: make(chan *reader, c.Readers),
		closed:  make(chan struct{}),
	}
	// Nothing is gained by stopping half way, and drivers pay for a context
	// that can be cancelled.
	if err := s.open(context.WithoutCancel(ctx), &c); err != nil {
		return nil, s.abandon(s.openError(err))
	}
	return s, nil
}

// abandon closes what was opened before err happened.
func (s *Store) abandon(err error) error {
	var errs []error
	for len(s.readers) > 0 {
		errs = append(errs, (<-s.readers).close())
	}
	if also := errors.Join(append(errs, s.shut())...); also != nil {
		return fmt.Errorf("%w; closing it failed too: %w", err, also)
	}
	return err
}

func (s *Store) open(ctx context.Context, c *Config) error {
	connector, err := c.Driver.Connector(s.info.Path)
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(connector)
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if err := s.do(ctx, busyTimeout); err != nil {
		return err
	}
	schema, err := s.identify(ctx)
	if err != nil {
		return err
	}
	if err := s.startLog(ctx, schema, c.Files); err != nil {
		return err
	}
	shards := c.Shards
	if shards == 0 {
		shards = DefaultShards
	}
	if err := s.migrate(ctx, schema, shards); err != nil {
		return err
	}
	if err := s.checkShards(ctx, c.Shards); err != nil {
		return err
	}
	if err := c.Files.SyncDir(s.info.Path); err != nil {
		return &OpenError{s.info.Path, Failed, "its directory cannot be synced", err}
	}
	if err := s.write.prepare(ctx, s.conn); err != nil {
		return err
	}
	for range c.Readers {
		r := &reader{}
		if err := s.openReader(ctx, r); err != nil {
			return err
		}
		s.readers <- r
	}
	return nil
}

// startLog turns to the write-ahead log and brings the one that is there to
// disk. A file of a newer build is left as it is.
func (s *Store) startLog(ctx context.Context, schema int, files Files) error {
	texts, err := migrations()
	if err != nil {
		return err
	}
	if schema > len(texts) {
		return nil // migrate refuses it
	}
	var mode string
	if err := s.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return &OpenError{s.info.Path, NotSynchronous, "SQLite keeps journal mode " + mode + " where WAL is needed: use a local file system", nil}
	}
	if err := s.configure(ctx, s.conn); err != nil {
		return err
	}
	if err := s.rewriteLog(ctx, files); err != nil {
		return err
	}
	return s.checkpoint(ctx)
}

// rewriteLog brings to disk what is in the log, whatever became of it before. If
// the process before has ended because a sync failed, the page cache may show
// what the disk does not have, and take it for written: a sync alone would then
// succeed and do nothing, and what was copied into the database would rest on a
// log that a power cut takes away. Holding the lock of those who write keeps the
// log as it is meanwhile.
func (s *Store) rewriteLog(ctx context.Context, files Files) error {
	if err := s.do(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := files.Rewrite(s.info.Path + "-wal")
	if err != nil {
		s.keep = true
		err = &OpenError{s.info.Path, Failed, "its log cannot be brought to disk: check the system's log", err}
	}
	return errors.Join(err, s.do(ctx, "ROLLBACK"))
}

// configure sets the pragmas of a connection and reads back the one that
// durability rests on.
func (s *Store) configure(ctx context.Context, conn *sql.Conn) error {
	for _, p := range pragmas {
		if _, err := conn.ExecContext(ctx, p); err != nil {
			return err
		}
	}
	var level int64
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	if level < synchronousFull {
		return &OpenError{s.info.Path, NotSynchronous, fmt.Sprintf(
			"the driver has synchronous=%d where at least %d (FULL) is needed: use another driver", level, synchronousFull), nil}
	}
	return nil
}

// checkpoint copies the whole log into the database, syncs both and empties the
// log. It fails if anything is left.
func (s *Store) checkpoint(ctx context.Context) error {
	var busy, pages, copied int64
	err := s.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if busy != 0 || pages != copied {
		return fmt.Errorf("checkpoint: another program reads the file: %d of %d pages were copied", copied, pages)
	}
	return nil
}

// checkShards reads the number of shards and all their rows.
func (s *Store) checkShards(ctx context.Context, want int) error {
	var n, sum int64
	err := s.conn.QueryRowContext(ctx, "SELECT value, sum FROM meta WHERE name = ?", metaShards).Scan(&n, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return &store.CorruptError{Table: "meta", Key: metaShards, Why: "it is missing"}
	}
	if err != nil {
		return err
	}
	if sum != store.MetaSum(metaShards, n) {
		return &store.CorruptError{Table: "meta", Key: metaShards, Why: whySum}
	}
	if want != 0 && int64(want) != n {
		return &OpenError{s.info.Path, OtherShards, fmt.Sprintf(
			"the database was created with %d shards, not %d: leave the number out", n, want), nil}
	}
	s.info.Shards = int(n)
	rows, err := s.conn.QueryContext(ctx, "SELECT shard, epoch, next_run, sum FROM shards ORDER BY shard")
	if err != nil {
		return err
	}
	defer rows.Close()
	next := int64(0)
	for ; rows.Next(); next++ {
		l, err := scanShard(rows)
		if err != nil {
			return err
		}
		if int64(l.Shard) != next {
			break
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if next != n {
		return &store.CorruptError{Table: "shards", Key: shardKey(store.ShardID(next)), Why: fmt.Sprintf("the rows are not those of shards 0 to %d", n-1)}
	}
	return nil
}

// do runs a statement on the connection that writes.
func (s *Store) do(ctx context.Context, text string, args ...any) error {
	_, err := s.conn.ExecContext(ctx, text, args...)
	return err
}

func (s *Store) number(ctx context.Context, text string) (n int64, err error) {
	err = s.conn.QueryRowContext(ctx, text).Scan(&n)
	return n, err
}
