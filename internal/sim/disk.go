package sim

import (
	"context"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
)

// Disk is what outlives the processes of engines: a database on a disk that keeps
// what was synced.
type Disk interface {
	// Open opens the database for a new process. pause gives control to others;
	// it may be called wherever the process could be killed, or the power cut.
	Open(pause func()) (store.Store, error)
	// Cut ends the process that has opened the database last. If the power is
	// cut, too, what it has not synced is lost, kept or torn; it says which.
	Cut(ctx context.Context, power bool) string
	// Peek reads what any reader would see now, at once and without faults.
	Peek() store.Store
}

// MemoryDisk is the disk on which most seeds run: a memory store behind a log. A
// commit is a record of the log, which counts when it is synced; a torn one is
// known by its sum and dropped. test/powercut has a disk with real SQLite on it.
type MemoryDisk struct {
	rows *memstore.Store
	last *memoryHandle // of the process that opened it last
	rnd  func(n int) int
}

// NewMemoryDisk makes an empty disk. rnd draws from 0..n-1.
func NewMemoryDisk(shards int, rnd func(n int) int) *MemoryDisk {
	return &MemoryDisk{rows: memstore.New(shards), rnd: rnd}
}

// Peek implements Disk.
func (d *MemoryDisk) Peek() store.Store { return d.rows }

// Open implements Disk.
func (d *MemoryDisk) Open(pause func()) (store.Store, error) {
	pause()
	d.last = &memoryHandle{Store: d.rows, pause: pause}
	return d.last, nil
}

// Cut implements Disk.
func (d *MemoryDisk) Cut(ctx context.Context, power bool) string {
	h := d.last
	d.last = nil
	if h == nil || h.unsynced == nil {
		return "nothing"
	}
	switch {
	case power && d.rnd(3) == 0:
		return "lost"
	case power && d.rnd(2) == 0:
		return "torn"
	}
	// A page cache survives a process. The batch may be one of an epoch that is
	// over, or that the rows refuse: then it is not there either.
	_ = d.rows.Commit(ctx, h.unsynced)
	return "whole"
}

// memoryHandle is what one process has open.
type memoryHandle struct {
	store.Store
	// unsynced is written, and not synced; when the power is cut it may be lost.
	unsynced *store.Batch
	pause    func()
}

func (h *memoryHandle) Commit(ctx context.Context, b *store.Batch) error {
	h.pause()
	h.unsynced = b
	h.pause() // it is being synced
	h.unsynced = nil
	err := h.Store.Commit(ctx, b)
	h.pause()
	return err
}

func (h *memoryHandle) Close() error { return nil } // the rows stay
