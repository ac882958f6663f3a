// Package sqlite keeps a database in one SQLite file.
//
// It owns the file: its schema and migrations, the lock file beside it, the one
// connection that writes, the few that read, the checksum of every row, and the
// answer to how a commit ended. It is written on database/sql with the driver
// injected, so that the same code runs on a real disk and on a simulated one;
// package mattn has the usual driver. It must not know what a row says, what
// time it is, or who asks. It starts no goroutine of its own (database/sql has
// one for each open database) and runs on Unix systems, whose file locks it uses.
//
// Durability rests on the write-ahead log with synchronous=FULL: a COMMIT that
// returned is on disk. Open sets that on each connection, reads it back and goes
// no further with less. Before it serves anything it writes the log that an unclean
// stop left once more, copies it into the database and syncs both: what a read has
// shown can not be lost any more, also if the stop was over a sync that failed.
//
// A commit that fails is rolled back, and the rollback is shown by SQLite's own
// answer, before the caller hears that nothing was written. If COMMIT itself
// fails and no transaction is left, the version of the first run that the batch
// wrote tells whether the batch stands. Where neither can be shown, or a sync
// failed, or the file is damaged, the store ends for writing: only a new start
// finds the truth. See writer.go.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/engined/engined/engine/store"
)

// Defaults of Config.
const (
	DefaultShards  = 16
	DefaultReaders = 2
)

// Config says what to open.
type Config struct {
	// Path of the database file. It is created if it is missing; its directory
	// is not.
	Path string
	// Shards, for a new file: 1 to store.MaxShards, 0 for DefaultShards. An
	// existing file has the number it was created with; another one that is
	// not 0 is an error.
	Shards int
	// Readers is the number of connections that read, 0 for DefaultReaders.
	Readers int
	// Driver is the SQLite binding. It has no default.
	Driver Driver
	// Files is the file system, nil for the operating system's.
	Files Files
}

func (c *Config) validate() error {
	bad := func(why string) error { return &OpenError{c.Path, BadConfig, why, nil} }
	switch {
	case c.Path == "":
		return bad("no path is given")
	case c.Driver == nil:
		return bad("no driver is given")
	case c.Shards < 0 || c.Shards > store.MaxShards:
		return bad(fmt.Sprintf("%d shards: a database has 1 to %d", c.Shards, store.MaxShards))
	case c.Readers < 0:
		return bad(fmt.Sprintf("%d readers", c.Readers))
	}
	if c.Readers == 0 {
		c.Readers = DefaultReaders
	}
	if c.Files == nil {
		c.Files = osFiles{}
	}
	return nil
}

// Store is an open database. Commit and Fence exclude each other; the reads run
// beside them, as many at a time as there are readers.
type Store struct {
	info    store.Info
	driver  Driver
	db      *sql.DB
	release func() error
	readers chan *reader
	// keep is set if the log may not be on disk although a sync would say so.
	// SQLite copies the log when the last connection is closed, and must not.
	keep bool

	closing sync.Once
	closed  chan struct{}

	mu    sync.Mutex // guards what follows
	conn  *sql.Conn  // the one that writes
	write writer
	check store.Checker
	fatal *store.FatalError // once set, nothing is written any more

	commits, rows atomic.Int64
}

var _ store.Store = (*Store)(nil)

// Stats counts what was written since Open.
type Stats struct {
	Commits int64 // batches
	Rows    int64 // rows inserted, updated and deleted by them
}

// Stats returns what was written so far.
func (s *Store) Stats() Stats {
	return Stats{Commits: s.commits.Load(), Rows: s.rows.Load()}
}

// Info describes the database.
func (s *Store) Info() store.Info { return s.info }

// Close waits for the calls under way, copies the log into the database and
// gives the file back. After a *store.FatalError it leaves the log for the next
// start.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	close(s.closed)
	var errs []error
	for range cap(s.readers) {
		errs = append(errs, (<-s.readers).close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal == nil {
		// There is no caller's context, and half a checkpoint helps nobody.
		errs = append(errs, s.checkpoint(context.Background()))
	}
	errs = append(errs, s.shut())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close database %s: %w", s.info.Path, err)
	}
	return nil
}

// shut closes what is open, in any state.
func (s *Store) shut() error {
	var errs []error
	if s.conn != nil && !s.keep {
		errs = append(errs, s.write.prepared.close(), s.conn.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(append(errs, s.release())...)
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}
