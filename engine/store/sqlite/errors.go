package sqlite

import (
	"errors"
	"fmt"

	"github.com/engined/engined/engine/store"
)

// Reason is why a database could not be opened.
type Reason int

// The reasons.
const (
	Failed         Reason = iota // none of the others
	BadConfig                    // Config contradicts itself
	NoDirectory                  // the directory is missing
	InUse                        // another process has it
	NotWritable                  // permissions, or a read-only file system
	NotDatabase                  // the file is no SQLite database
	NotOurs                      // it is one of another program
	Newer                        // a newer build has written it
	Damaged                      // SQLite or a checksum finds it damaged
	OtherShards                  // it was created with another number of shards
	NotSynchronous               // the driver does not do what durability needs
)

// OpenError says in one line why a database could not be opened and what to do.
type OpenError struct {
	Path   string
	Reason Reason
	Why    string // and what to do
	Err    error  // the cause, or nil
}

func (e *OpenError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("open database %s: %s", e.Path, e.Why)
	}
	return fmt.Sprintf("open database %s: %s (%v)", e.Path, e.Why, e.Err)
}

func (e *OpenError) Unwrap() error { return e.Err }

// openError turns what SQLite said into a reason.
func (s *Store) openError(err error) error {
	var done *OpenError
	if errors.As(err, &done) {
		return err
	}
	var row *store.CorruptError
	if errors.As(err, &row) {
		return &OpenError{s.info.Path, Damaged, "the file is damaged: restore a backup", err}
	}
	o := &OpenError{Path: s.info.Path, Err: err}
	switch s.driver.Classify(err).Class {
	case NotADB:
		o.Reason, o.Why = NotDatabase, "the file is not an SQLite database: name another file, or move this one away"
	case Corrupt:
		o.Reason, o.Why = Damaged, "the file is damaged: restore a backup"
	case Busy:
		o.Reason, o.Why = InUse, "another program has locked the file: close that program"
	case ReadOnly, CantOpen:
		o.Reason, o.Why = NotWritable, "the file or its directory cannot be written: check owner, permissions and mount options"
	case Full:
		o.Reason, o.Why = Failed, "the disk is full: make space"
	case SyncFailed, IO:
		o.Reason, o.Why = Failed, "the disk failed: check the system's log"
	default:
		o.Reason, o.Why = Failed, "SQLite failed"
	}
	return o
}

// refusal is why the rows that are stored do not take a write.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// writeError is what a failed statement of the write means for its batch.
func (s *Store) writeError(err error, index int, run store.RunNo) error {
	var r *refusal
	if errors.As(err, &r) || s.driver.Classify(err).Class == Constraint {
		return &store.RefusedError{Index: index, Run: run, Err: err}
	}
	return s.failure(err)
}

// failure is what an error that no row is to blame for means, provided that
// nothing was written.
func (s *Store) failure(err error) error {
	var row *store.CorruptError
	if errors.As(err, &row) || s.driver.Classify(err).mustEnd() {
		return &store.FatalError{Err: err}
	}
	return &store.UnavailableError{Err: err}
}

// readError says what was being read. Damage that SQLite itself finds is told
// as that of the row.
func (s *Store) readError(err error, table, key string) error {
	var row *store.CorruptError
	if errors.As(err, &row) {
		return err
	}
	switch s.driver.Classify(err).Class {
	case Corrupt, NotADB:
		return &store.CorruptError{Table: table, Key: key, Why: err.Error()}
	}
	return fmt.Errorf("read table %s, row %s: %w", table, key, err)
}
