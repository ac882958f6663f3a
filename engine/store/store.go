// Package store is the seam between the engine and a database. Above it stand
// the rules, below it rows: an implementation moves rows in and out, all of a
// batch or nothing, and knows nothing of what they mean.
//
// An implementation passes storetest and owns: atomicity, durability (a Commit
// that returned nil survives power-off), the checksum of every row, the unique
// indexes as the last defence, and the fencing of shards. It must not know what
// an event says, what time it is, or which worker does what.
package store

import (
	"context"
	"errors"
	"fmt"
)

// RunNo is a run's dense number: the shard in the upper 16 bits (never
// negative, so 15 are used), a counter below. It is given once and never again.
type RunNo int64

// ShardID numbers a shard, from 0.
type ShardID uint16

// ShardBits is how far the shard is shifted in a RunNo.
const ShardBits = 48

// MaxShards bounds the number of shards of a database.
const MaxShards = 1 << 15

// Shard returns the shard that r belongs to.
func (r RunNo) Shard() ShardID { return ShardID(r >> ShardBits) }

// MakeRunNo joins a shard and a counter.
func MakeRunNo(s ShardID, counter int64) RunNo { return RunNo(int64(s)<<ShardBits | counter) }

// Store is the database. Commit and Fence are called by one goroutine (the
// committer); the reads by any.
type Store interface {
	// Info describes the database as it was created.
	Info() Info

	// Fence takes the shards over: each one's epoch becomes
	// max(last+1, now in milliseconds) and a block of run numbers is reserved,
	// beyond every number that was reserved before and every run that is there.
	// After it returns no batch under an older epoch can land, also none whose
	// outcome was unknown: what landed of those is visible to the reads that
	// follow.
	Fence(ctx context.Context, shards []ShardID, now int64) ([]Lease, error)

	// Commit writes the batch, all or nothing, in its order. It refuses what
	// Checker refuses, and a write that does not follow from the rows that are
	// there: version, next event, pending rows. A nil error means
	// durable. Otherwise the error is, or wraps, exactly one of *RefusedError,
	// *LeaseLostError, *UnavailableError (none of these wrote anything),
	// ErrUnknown, or *FatalError; or it is ErrClosed. A context that is done
	// before the commit began makes it unavailable; later it is not looked at.
	Commit(ctx context.Context, b *Batch) error

	// Load reads runs with all their pending rows, by op, in one snapshot. The
	// answer has one element for each key, in order. One row that is damaged or
	// missing makes the whole call a *CorruptError.
	Load(ctx context.Context, keys []Key) ([]Loaded, error)

	// Due lists, ordered by (At, Run, Op), what of a shard must be in memory at
	// a time up to and including `until`: pending rows by their wake time
	// (0 = always), and runs marked for attention (Op is then empty, At 0). It
	// returns at most limit elements behind `after`, whose zero value is before
	// all. It reads no row's content: the Load that follows checks that.
	Due(ctx context.Context, s ShardID, until int64, after Wake, limit int) ([]Wake, error)

	// History reads event rows of a run, in order, from the first that holds an
	// event with an id greater than after: whole rows, at least one if there
	// are any, then as many more as fit in maxBytes. A missing row is a
	// *CorruptError.
	History(ctx context.Context, r RunNo, after int64, maxBytes int) ([]EventRow, error)

	// List reads run rows, newest first, without pending rows.
	List(ctx context.Context, q Query) ([]RunRow, error)

	// Close gives the database back. A second call does nothing.
	Close() error
}

// Info describes a database.
type Info struct {
	Name   string // "memory", "sqlite"
	Path   string
	Schema int
	Shards int // fixed at creation
	// Shared: another process may have the store open, and take shards over. A
	// batch with leases and no writes then says whether they are still held.
	Shared bool
}

// Lease is the right to write a shard.
type Lease struct {
	Shard ShardID
	Epoch int64
	// NextRun is the first of ReservedRuns counters that are free for this lease.
	NextRun int64
}

// ReservedRuns is how many run counters a Fence reserves.
const ReservedRuns = 1 << 20

// Key asks for a run: by number, or (Run 0) by namespace and workflow id: the
// newest run of the id, or the one with the ULID RunID.
type Key struct {
	Run        RunNo
	Namespace  string
	WorkflowID string
	RunID      string
	// Request, when set, is also looked up among the runs that were started
	// under the id, and in dedup. For a key by number the id is that of the run
	// found, whatever the key says.
	Request string
}

// Loaded answers a Key. Run is nil if there is none.
type Loaded struct {
	// Run is the run of that number, of that ULID, or the newest of the id.
	Run     *RunRow
	Pending []PendingRow
	// ByRequest is the run of the id that was started with the request, if any.
	ByRequest *RunRow
	// Dedup is the dedup row of (namespace, workflow id, request), if any.
	Dedup *DedupRow
}

// Wake is an element of Due.
type Wake struct {
	At  int64
	Run RunNo
	Op  string
}

// Query filters List. Zero fields do not filter; Limit 0 is no limit.
type Query struct {
	Namespace  string
	WorkflowID string
	Type       string
	Status     int32
	// Before continues a listing: only runs started before, in the order of the
	// list (Started, then Run, both descending).
	BeforeStarted int64
	BeforeRun     RunNo
	Limit         int
}

// Batch is what one Commit writes.
type Batch struct {
	// Leases holds the epoch of each shard that the batch writes to.
	Leases []Lease
	Writes []*Write
}

// Write is the change of one run. A batch has at most one for each run. Byte
// slices may be nil; empty ones are read back as nil.
type Write struct {
	Run RunRow
	// Insert is set when the run is new.
	Insert bool
	// Events is the transition's events, if it has any.
	Events *EventRow
	// Put and Del are pending rows by op, each op at most once in both.
	Put []PendingRow
	Del []string
	// Dedup rows are inserted; one that is there refuses the write.
	Dedup []DedupRow
}

// RunRow is the row of a run.
type RunRow struct {
	Run        RunNo
	Namespace  string
	WorkflowID string
	RunID      string // ULID
	Type       string
	Status     int32
	// Open runs hold their workflow id: at most one for (namespace, id).
	Open bool
	// Attention: the run has inputs that no decision answers, or other work
	// that no pending row tells of.
	Attention bool
	// Version counts the writes of the row, from 1.
	Version int64
	// NextEvent is the id of the next event, so NextEvent-1 events exist.
	NextEvent int64
	// Pending counts the run's pending rows.
	Pending int64
	// Started and Closed are engine times in ns; Closed is 0 while open.
	Started int64
	Closed  int64
	// Request is the request id of the start.
	Request string
	// State is an encoded enginepb.RunState.
	State []byte
}

// EventRow holds the events First..Last of a run, as an encoded EventBatch.
type EventRow struct {
	Run         RunNo
	First, Last int64
	Data        []byte
}

// PendingRow is one open activity, timer, ledger entry.
type PendingRow struct {
	Run RunNo
	Op  string
	// Wake is when the row must be in memory at the latest; 0 is always.
	Wake int64
	// Data is an encoded enginepb.Pending.
	Data []byte
}

// DedupRow remembers a request.
type DedupRow struct {
	Namespace  string
	WorkflowID string
	Request    string
	Run        RunNo
	// Expires is when the row may be forgotten.
	Expires int64
	// Data is an encoded enginepb.DedupState.
	Data []byte
}

// ErrUnknown says that a commit may have landed, or may land later: the shards
// must be fenced and loaded again.
var ErrUnknown = errors.New("the outcome of the commit is unknown")

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("the store is closed")

// RefusedError says that the database refused one write of a batch; nothing of
// the batch was written.
type RefusedError struct {
	Index int // in Batch.Writes
	Run   RunNo
	Err   error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("run %d: the database refused the write: %v", e.Run, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// LeaseLostError names the shards that somebody else has taken over; nothing
// was written.
type LeaseLostError struct{ Shards []ShardID }

func (e *LeaseLostError) Error() string {
	return fmt.Sprintf("lease lost on shards %v", e.Shards)
}

// UnavailableError says that the database cannot write at present (disk full,
// busy, read-only); the transaction was rolled back and may be tried again.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "the database cannot write: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// FatalError says that the process must end: a sync failed, or it cannot be
// shown whether a commit stands. A start afterwards finds the truth on disk.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return "the store cannot go on: " + e.Err.Error() }

func (e *FatalError) Unwrap() error { return e.Err }

// CorruptError says that a row is not what was written, or is missing.
type CorruptError struct {
	Table string
	Key   string
	Why   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("table %s, row %s is damaged: %s; restore a backup, or remove the run", e.Table, e.Key, e.Why)
}
