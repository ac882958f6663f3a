// Package faultdriver is a test rig: an SQLite driver that does its work through
// another one and lies about it, or falls silent, where a test says so. It shows
// what the store, and the engine above it, do about a COMMIT of which they do not
// hear the truth. It is no part of what ships.
//
// It owns no data: what the driver beneath has written is really there. To cut an
// engine off, let the rig answer CutBefore or CutAfter, close the store (a closed
// connection rolls back what it had open, as the death of its process would) and
// open the file again with another driver.
package faultdriver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/engined/engined/engine/store/sqlite"
)

// Rig is a sqlite.Driver. Its methods may be called by any goroutine.
type Rig struct {
	inner sqlite.Driver

	mu          sync.Mutex
	commits     int
	onCommit    func(n int) Outcome
	onStatement func(text string) error
	cut         bool
}

var _ sqlite.Driver = (*Rig)(nil)

// New makes a rig that passes everything on.
func New(inner sqlite.Driver) *Rig { return &Rig{inner: inner} }

// OnCommit has f decide how each COMMIT ends. They are numbered from 1 over the
// life of the rig; opening a new file commits once, each Fence and each batch
// once. nil lets all pass.
func (r *Rig) OnCommit(f func(n int) Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onCommit = f
}

// OnStatement has f look at each statement but COMMIT, before it runs; an error
// is reported in its place, and ErrSwallowed is reported as success. nil lets all
// pass. Use Fault to make errors.
func (r *Rig) OnStatement(f func(text string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onStatement = f
}

// Commits is how many COMMITs were sent so far.
func (r *Rig) Commits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits
}

// Connector wraps the connections of the driver beneath.
func (r *Rig) Connector(path string) (driver.Connector, error) {
	inner, err := r.inner.Connector(path)
	if err != nil {
		return nil, err
	}
	return &connector{rig: r, inner: inner}, nil
}

// Classify knows the errors of the rig and those of the driver beneath.
func (r *Rig) Classify(err error) sqlite.Fault {
	var e *Error
	if errors.As(err, &e) {
		return sqlite.FaultOf(e.Code, e.Extended)
	}
	return r.inner.Classify(err)
}

// Error is an error that the rig has made up.
type Error struct {
	Code, Extended int // as SQLite's; 0 for an error that is not SQLite's
}

func (e *Error) Error() string {
	return fmt.Sprintf("made up: SQLite's result code %d (%d)", e.Code, e.Extended)
}

// Fault makes an error with SQLite's result codes.
func Fault(code, extended int) error { return &Error{code, extended} }

// ErrSilent is what a connection says that answers nothing.
var ErrSilent = errors.New("made up: the connection does not answer")

// ErrSwallowed has a statement that returns no rows not run, and not fail either.
var ErrSwallowed = errors.New("made up: swallowed")

// Outcome is how a COMMIT ends.
type Outcome struct {
	do     action
	report error
}

type action int

const (
	pass action = iota
	keepOpen
	rollBack
	stand
	muteBefore
	muteAfter
	cutBefore
	cutAfter
)

// Pass lets the COMMIT be.
func Pass() Outcome { return Outcome{} }

// Fails reports err; the COMMIT is not carried out and the transaction stays open.
func Fails(err error) Outcome { return Outcome{keepOpen, err} }

// RolledBack reports err; the transaction is rolled back.
func RolledBack(err error) Outcome { return Outcome{rollBack, err} }

// Stands reports err although the COMMIT is carried out.
func Stands(err error) Outcome { return Outcome{stand, err} }

// MuteBefore does not carry the COMMIT out; the connection answers nothing more.
func MuteBefore() Outcome { return Outcome{muteBefore, ErrSilent} }

// MuteAfter carries the COMMIT out; the connection answers nothing more.
func MuteAfter() Outcome { return Outcome{muteAfter, ErrSilent} }

// CutBefore does not carry the COMMIT out; no connection of the rig answers any
// more.
func CutBefore() Outcome { return Outcome{cutBefore, ErrSilent} }

// CutAfter carries the COMMIT out; no connection of the rig answers any more.
func CutAfter() Outcome { return Outcome{cutAfter, ErrSilent} }

// next counts a COMMIT and asks how it ends.
func (r *Rig) next() Outcome {
	r.mu.Lock()
	r.commits++
	n, f := r.commits, r.onCommit
	r.mu.Unlock()
	if f == nil {
		return Pass()
	}
	return f(n)
}

// refuses says what a statement meets.
func (r *Rig) refuses(text string) error {
	r.mu.Lock()
	f := r.onStatement
	r.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(text)
}

func (r *Rig) isCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut
}

func (r *Rig) setCut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
}

type connector struct {
	rig   *Rig
	inner driver.Connector
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.rig.isCut() {
		return nil, ErrSilent
	}
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{rig: c.rig, inner: inner}, nil
}
