// Package ledger is what a service of the example keeps in its own SQLite file:
// what it did, what it promised to do only once, and which faults it met.
//
// It owns the rules of a service: one answer a key and endpoint, no lower fence,
// no effect under a sealed key; an effect, the answer to it and the line about it
// are one transaction. It must not know HTTP, nor how a fault is made to happen.
package ledger

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	// A service stands for somebody else's program: it brings its own driver and
	// takes nothing from the engine.
	_ "github.com/mattn/go-sqlite3"

	"github.com/engined/engined/examples/saga/internal/wire"
)

//go:embed schema.sql
var schema string

// Ledger is a service's database. Its methods may be called at the same time;
// their transactions come one after the other.
type Ledger struct {
	service wire.Service
	// shelves are the pieces of each article at the start.
	shelves map[string]int64
	db      *sql.DB
}

// Open opens the ledger of a service in the file at path and makes it where
// there is none. shelves are what stock has at the very start; a file that has
// them already keeps its own.
func Open(ctx context.Context, path string, service wire.Service, shelves []wire.Shelf) (*Ledger, error) {
	if service.Forward() == "" {
		return nil, fmt.Errorf("open the ledger %s: there is no service %q", path, service)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger %s: %w", path, err)
	}
	// As a URI, so that a '?' in the path is a part of it.
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: abs,
		RawQuery: "_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_busy_timeout=5000"}
	db, err := sql.Open("sqlite3", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the ledger %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // one writer; readers of a page can wait
	l := &Ledger{service: service, shelves: map[string]int64{}, db: db}
	if err := l.prepare(ctx, shelves); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger %s: %w", path, err), db.Close())
	}
	return l, nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

func (l *Ledger) prepare(ctx context.Context, shelves []wire.Shelf) error {
	var mode string
	var synchronous int
	if err := l.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return err
	}
	if err := l.db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous); err != nil {
		return err
	}
	if mode != "wal" || synchronous != 2 {
		// With less, an answer could be given and forgotten.
		return fmt.Errorf("SQLite runs with journal_mode %s and synchronous %d, not wal and 2 (FULL)", mode, synchronous)
	}
	if _, err := l.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return l.transact(ctx, func(tx *txn) error {
		if err := tx.exec(`INSERT INTO starts (time) VALUES (?)`, tx.now.UnixNano()); err != nil {
			return err
		}
		for _, s := range shelves {
			if err := tx.exec(`INSERT INTO shelves VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, s.SKU, s.Initial, s.Initial); err != nil {
				return err
			}
		}
		all, err := tx.shelves()
		for _, s := range all {
			l.shelves[s.SKU] = s.Initial
		}
		return err
	})
}

// txn is one transaction, and the time that its rows bear.
type txn struct {
	*sql.Tx
	ctx context.Context
	now time.Time
}

// transact runs work in a transaction, and commits it when work returns nil.
func (l *Ledger) transact(ctx context.Context, work func(*txn) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := work(&txn{Tx: tx, ctx: ctx, now: time.Now()}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (t *txn) exec(query string, args ...any) error {
	_, err := t.ExecContext(t.ctx, query, args...)
	return err
}

// collect reads all that a query finds.
func collect[T any](t *txn, scan func(*sql.Rows, *T) error, query string, args ...any) ([]T, error) {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	all := []T{}
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
