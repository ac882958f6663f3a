package powercut

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// locks are SQLite's on one file: those of its rollback journal. In the
// write-ahead log the shared memory has the locks that matter.
type locks struct {
	shared            int
	reserved, pending bool
}

func (h *handle) LockState() vfs.LockLevel { return h.lock }

// Lock never waits.
func (h *handle) Lock(want vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	l := &h.file.locks
	if h.lock >= want {
		return nil
	}
	switch want {
	case vfs.LOCK_SHARED:
		if l.pending {
			return sqlite3.BUSY
		}
		l.shared++
	case vfs.LOCK_RESERVED:
		if l.reserved {
			return sqlite3.BUSY
		}
		l.reserved = true
	case vfs.LOCK_EXCLUSIVE:
		if h.lock < vfs.LOCK_PENDING {
			if l.pending || l.reserved && h.lock < vfs.LOCK_RESERVED {
				return sqlite3.BUSY
			}
			l.pending, l.reserved = true, true
			h.lock = vfs.LOCK_PENDING
		}
		if l.shared > 1 {
			return sqlite3.BUSY
		}
	}
	h.lock = want
	return nil
}

// Unlock goes down to a level.
func (h *handle) Unlock(to vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	l := &h.file.locks
	if h.lock <= to {
		return nil
	}
	if h.lock >= vfs.LOCK_RESERVED {
		l.reserved = false
	}
	if h.lock >= vfs.LOCK_PENDING {
		l.pending = false
	}
	if to == vfs.LOCK_NONE {
		l.shared--
	}
	h.lock = to
	return nil
}

// CheckReservedLock says whether anybody means to write.
func (h *handle) CheckReservedLock() (bool, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.file.locks.reserved, nil
}
