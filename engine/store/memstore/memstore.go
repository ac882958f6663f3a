// Package memstore keeps a database in memory. It is the store of tests and of
// the test kit, and the oracle that other stores are compared with.
//
// It owns copies of the rows, and refuses all that a database with unique
// indexes and row counts would refuse. It must not know what a row says. It
// starts no goroutine and reads no clock.
//
// A Store is a handle on committed data. Reopen gives a second handle on the
// same data and ends the first: the way in which a test cuts an engine off and
// starts another. Hook decides how a commit ends, for tests of what the engine
// does about it.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/engined/engined/engine/store"
)

// DefaultShards is the number of shards where New is given 0.
const DefaultShards = 16

// Store is a handle on data in memory. Its methods may be called by any
// goroutine.
type Store struct {
	// Hook, if set, is asked at each Commit how it shall end. Set it before the
	// store is handed over. It is called without a lock, so it may read the
	// store; it must not keep the batch.
	Hook func(b *store.Batch) Verdict

	data   *data
	closed atomic.Pointer[error]
}

var _ store.Store = (*Store)(nil)

// ErrCut is what a store answers after CutBefore or CutAfter; it wraps
// store.ErrClosed.
var ErrCut = fmt.Errorf("the store was cut off: %w", store.ErrClosed)

// Stats counts what was written to the data since New, over all handles.
type Stats struct {
	Commits int64 // batches that landed
	Rows    int64 // rows inserted, updated and deleted by them
	Bytes   int64 // keys and contents of the rows inserted and updated
}

// New makes an empty database with the number of shards, 0 meaning
// DefaultShards. A number outside of 1..store.MaxShards is brought into it.
func New(shards int) *Store {
	if shards == 0 {
		shards = DefaultShards
	}
	return &Store{data: newData(min(max(shards, 1), store.MaxShards))}
}

// Reopen ends the handle and returns a new one, without a Hook, on the same
// committed data.
func (s *Store) Reopen() *Store {
	s.end(store.ErrClosed)
	return &Store{data: s.data}
}

// Info describes the database.
func (s *Store) Info() store.Info {
	return store.Info{Name: "memory", Schema: 1, Shards: len(s.data.shards)}
}

// Stats returns what was written so far.
func (s *Store) Stats() Stats {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	return s.data.stats
}

// Close ends the handle; the data stays for Reopen.
func (s *Store) Close() error {
	s.end(store.ErrClosed)
	return nil
}

func (s *Store) end(err error) { s.closed.CompareAndSwap(nil, &err) }

// lock locks the data for one call, or says why the handle does not answer.
func (s *Store) lock(ctx context.Context) (*sync.Mutex, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.data.mu.Lock()
	if err := s.closed.Load(); err != nil {
		s.data.mu.Unlock()
		return nil, *err
	}
	return &s.data.mu, nil
}

// Fence raises the epochs. Batches that were to land later land first.
func (s *Store) Fence(ctx context.Context, shards []store.ShardID, now int64) ([]store.Lease, error) {
	mu, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer mu.Unlock()
	if err := store.CheckShards(shards, len(s.data.shards)); err != nil {
		return nil, err
	}
	s.data.landLate(shards)
	leases := make([]store.Lease, len(shards))
	for i, id := range shards {
		leases[i] = s.data.fence(id, now)
	}
	return leases, nil
}
