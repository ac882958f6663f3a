package powercut

import (
	"context"
	"errors"
	"fmt"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
)

// Call is a call of the store that may write.
type Call struct {
	What   string // "open", "fence", "commit", "close"
	New    bool   // open: the database may have to be created
	About  string // for the story
	Shards []store.ShardID
	Now    int64
	Batch  *store.Batch
}

func (c *Call) String() string {
	switch c.What {
	case "fence":
		return fmt.Sprintf("fence %v at %d", c.Shards, c.Now)
	case "commit":
		return "commit " + c.About
	}
	return c.What
}

// Answer is what the store has said to a call.
type Answer string

// The answers.
const (
	Done        Answer = "done"
	Refused     Answer = "refused"
	LeaseLost   Answer = "lease lost"
	Unavailable Answer = "unavailable"
	Unknown     Answer = "unknown"
	Fatal       Answer = "fatal"
	// Broken is what the call may not say.
	Broken Answer = "not of the seam"
)

// Ran says whether, by the answer, the call may have changed anything.
func (a Answer) ran() bool { return a == Done || a == Unknown || a == Fatal }

func answerOf(what string, err error) Answer {
	var (
		refused     *store.RefusedError
		lost        *store.LeaseLostError
		unavailable *store.UnavailableError
		fatal       *store.FatalError
		open        *sqlite.OpenError
	)
	switch {
	case err == nil:
		return Done
	case what == "open" && errors.As(err, &open), what == "close":
		return Unknown
	case errors.As(err, &fatal):
		return Fatal
	case errors.As(err, &unavailable):
		return Unavailable
	case errors.As(err, &refused):
		return Refused
	case errors.As(err, &lost):
		return LeaseLost
	case errors.Is(err, store.ErrUnknown):
		return Unknown
	}
	return Broken
}

// Process is a process that has, or had, the database of a disk open.
type Process struct {
	Disk   *Disk
	Driver *Driver
	Store  *sqlite.Store
	leases []store.Lease // of the last fence
}

// Start makes a process on the disk, which is its own from now on.
func Start(d *Disk, t Tuning, p *Plant) *Process {
	if p != nil {
		d.Lie(p.Disk)
	}
	return &Process{Disk: d, Driver: &Driver{Disk: d, Tune: t, Plant: p}}
}

// Do makes a call.
func (p *Process) Do(ctx context.Context, c *Call) (Answer, error) {
	var err error
	switch c.What {
	case "open":
		err = p.open(ctx, c.New)
	case "close":
		err = p.Store.Close()
	case "fence":
		p.leases, err = p.Store.Fence(ctx, c.Shards, c.Now)
	case "commit":
		err = p.Store.Commit(ctx, c.Batch)
	}
	a := answerOf(c.What, err)
	if a == Broken {
		return a, fmt.Errorf("%v: an answer that is not of the seam: %w", c, err)
	}
	return a, err
}

// open asks for a number of shards only where there may be none yet.
func (p *Process) open(ctx context.Context, isNew bool) (err error) {
	shards := 0
	if isNew {
		shards = Shards
	}
	p.Store, err = sqlite.Open(ctx, sqlite.Config{Path: Path, Shards: shards, Readers: 1,
		Driver: p.Driver, Files: p.Disk.Files()})
	return err
}

// End is the end of the process, at once; the disk is given back.
func (p *Process) End() {
	p.Disk.Halt()
	if p.Store != nil {
		_ = p.Store.Close() // the dead hold nothing, and say nothing
	}
	p.Driver.Drop()
	p.Disk.Release()
}
