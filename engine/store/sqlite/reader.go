package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// reader is a connection that only reads, with its statements.
type reader struct {
	conn                                   *sql.Conn
	begin, end                             *sql.Stmt
	run, newest, byRequest, pending, dedup *sql.Stmt
	orphans, due, attention, events        *sql.Stmt
	lists                                  map[string]*sql.Stmt // by text
	prepared                               prepared
}

func (s *Store) openReader(ctx context.Context, r *reader) (err error) {
	if r.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	for _, p := range []string{busyTimeout, "PRAGMA query_only = ON"} {
		if _, err := r.conn.ExecContext(ctx, p); err != nil {
			return errors.Join(err, r.close())
		}
	}
	if err := s.configure(ctx, r.conn); err != nil {
		return errors.Join(err, r.close())
	}
	r.lists = map[string]*sql.Stmt{}
	err = r.prepared.prepare(ctx, r.conn, []toPrepare{
		{&r.begin, "BEGIN"},
		{&r.end, "ROLLBACK"}, // there is nothing to commit
		{&r.run, sqlRun},
		{&r.newest, sqlNewest},
		{&r.byRequest, sqlByRequest},
		{&r.pending, sqlPending},
		{&r.dedup, sqlDedup},
		{&r.orphans, sqlOrphans},
		{&r.due, sqlDue},
		{&r.attention, sqlAttention},
		{&r.events, sqlEvents},
	})
	if err != nil {
		return errors.Join(err, r.close())
	}
	return nil
}

func (r *reader) close() error {
	if r.conn == nil {
		return nil
	}
	conn := r.conn
	r.conn = nil
	return errors.Join(r.prepared.close(), conn.Close())
}

// discard closes the connection itself, which may be in a transaction still,
// instead of giving it back to database/sql.
func (r *reader) discard() error {
	conn := r.conn
	r.conn = nil
	errs := []error{r.prepared.close()}
	if err := conn.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// snapshot calls read with a connection on which all statements see the
// database at one moment. It waits for a free one.
func (s *Store) snapshot(ctx context.Context, read func(context.Context, *reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	var r *reader
	select {
	case <-s.closed:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case r = <-s.readers:
	}
	defer func() { s.readers <- r }()
	ctx = context.WithoutCancel(ctx)
	if r.conn == nil {
		if err := s.openReader(ctx, r); err != nil {
			return fmt.Errorf("open another connection to read: %w", err)
		}
	}
	if _, err := r.begin.ExecContext(ctx); err != nil {
		return fmt.Errorf("begin to read: %w", errors.Join(err, r.discard()))
	}
	err := read(ctx, r)
	if _, end := r.end.ExecContext(ctx); end != nil {
		err = errors.Join(err, fmt.Errorf("end a read: %w", end), r.discard())
	}
	return err
}

// each calls scan for each row, until it returns false or an error.
func each(ctx context.Context, st *sql.Stmt, scan func(*sql.Rows) (bool, error), args ...any) error {
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		more, err := scan(rows)
		if err != nil {
			return errors.Join(err, rows.Close())
		}
		if !more {
			return rows.Close()
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(err, rows.Close())
	}
	return rows.Close()
}

// one calls scan for the first row and says whether there was one.
func one(ctx context.Context, st *sql.Stmt, scan func(*sql.Rows) error, args ...any) (found bool, err error) {
	err = each(ctx, st, func(rows *sql.Rows) (bool, error) {
		found = true
		return false, scan(rows)
	}, args...)
	return found, err
}
