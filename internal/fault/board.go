//go:build unix

package fault

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Board counts passages in a file that several processes, one after the other,
// have mapped into their memory. What is counted outlives a kill -9.
type Board struct {
	data  []byte
	cells *[points]cell
}

type cell struct{ passed, fired atomic.Int64 }

// OpenBoard opens the file, and makes it where there is none.
func OpenBoard(path string) (*Board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	size := int(unsafe.Sizeof([points]cell{}))
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if n := info.Size(); n != 0 && n != int64(size) {
		return nil, fmt.Errorf("the board %s has %d bytes, and not %d: it is of another build", path, n, size)
	}
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the board %s: %w", path, err)
	}
	return &Board{data: data, cells: (*[points]cell)(unsafe.Pointer(unsafe.SliceData(data)))}, nil
}

// Passed is how often a point was passed.
func (b *Board) Passed(p Point) int64 { return b.cells[p].passed.Load() }

// Fired is how often something happened at a point, because a term wanted it.
func (b *Board) Fired(p Point) int64 { return b.cells[p].fired.Load() }

// Close takes the file out of memory. No method may be called after it.
func (b *Board) Close() error {
	if b.data == nil {
		return errors.New("the board is closed")
	}
	data := b.data
	b.data, b.cells = nil, nil
	return syscall.Munmap(data)
}
