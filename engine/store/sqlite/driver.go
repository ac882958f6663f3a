package sqlite

import (
	"database/sql/driver"
)

// Driver is what the package needs of an SQLite binding.
type Driver interface {
	// Connector makes connections to the database file at the absolute path.
	// A connection creates the file if it is not there. The package sets all
	// pragmas itself.
	Connector(path string) (driver.Connector, error)

	// Classify finds SQLite's result codes in the error, through wrapping, and
	// returns FaultOf them; an error without codes is the zero Fault.
	Classify(err error) Fault
}

// Class is what an SQLite error means to a store.
type Class int

// The classes. Other is what is none of the rest, errors that are not SQLite's
// included.
const (
	Other      Class = iota
	Constraint       // the row is at fault: a constraint, a type, its size
	Full             // no space is left
	Busy             // somebody else has a lock
	ReadOnly         // the file cannot be written
	CantOpen         // the file, or one beside it, cannot be opened
	IO               // a read, a write, a lock failed
	SyncFailed       // what was written may not be on disk, and no retry tells
	Corrupt          // the file is damaged
	NotADB           // the file is something else
)

// Fault is an error of SQLite, sorted.
type Fault struct {
	Class Class
	// Code is the primary result code, Extended the extended one. Both are 0
	// for an error that is not SQLite's.
	Code, Extended int
}

// SQLite's result codes, https://www.sqlite.org/rescode.html.
const (
	codeError      = 1
	codePerm       = 3
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeTooBig     = 18
	codeConstraint = 19
	codeMismatch   = 20
	codeAuth       = 23
	codeNotADB     = 26

	codeIOFsync     = codeIO | 4<<8
	codeIODirFsync  = codeIO | 5<<8
	codeIOCorruptFS = codeIO | 33<<8
)

// FaultOf sorts result codes.
func FaultOf(code, extended int) Fault {
	return Fault{Class: classOf(code, extended), Code: code, Extended: extended}
}

func classOf(code, extended int) Class {
	switch code {
	case codeConstraint, codeMismatch, codeTooBig:
		return Constraint
	case codeFull:
		return Full
	case codeBusy, codeLocked, codeProtocol:
		return Busy
	case codeReadOnly:
		return ReadOnly
	case codeCantOpen, codePerm, codeAuth:
		return CantOpen
	case codeCorrupt:
		return Corrupt
	case codeNotADB:
		return NotADB
	case codeIO:
		return classOfIO(extended)
	}
	return Other
}

func classOfIO(extended int) Class {
	switch extended {
	case codeIOFsync, codeIODirFsync:
		return SyncFailed
	case codeIOCorruptFS:
		return Corrupt
	}
	return IO
}

// noTransaction says whether the error of a ROLLBACK means that there was
// nothing to roll back. SQLite has no code of its own for that, but a ROLLBACK
// has no other way to fail with the generic one.
func (f Fault) noTransaction() bool { return f.Code == codeError }

// mustEnd says whether nothing the store writes from here on could be trusted.
func (f Fault) mustEnd() bool {
	return f.Class == SyncFailed || f.Class == Corrupt || f.Class == NotADB
}
