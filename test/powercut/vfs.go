package powercut

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/engined/engined/engine/store/sqlite"
)

// Path is that of the database on every disk.
const Path = "/engine.db"

// Names of the files beside it.
const (
	WAL     = Path + "-wal"
	Journal = Path + "-journal"
)

var disks atomic.Int64

// register gives the disk a name for SQLite and a place for shared memory. That
// is a file of the machine's, since the binding takes no other; a disk never
// sees it, and each has one of its own, so that a power cut loses it.
func (d *Disk) register() {
	n := disks.Add(1)
	dir := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		dir = "/dev/shm"
	}
	d.vfsName = fmt.Sprintf("powercut-%d", n)
	d.shm = filepath.Join(dir, fmt.Sprintf("powercut-%d-%d-shm", os.Getpid(), n))
	vfs.Register(d.vfsName, (*diskVFS)(d))
}

// Release gives back what the disk holds of the machine. Close all stores first.
func (d *Disk) Release() {
	vfs.Unregister(d.vfsName)
	os.Remove(d.shm) // it may not be there
}

// diskVFS is the disk as SQLite sees it. It does what SQLite's own for Unix does:
// the same sector size, the same device characteristics, and a sync of the
// directory with the first sync of a journal or log.
type diskVFS Disk

func (v *diskVFS) FullPathname(name string) (string, error) { return name, nil }

func (v *diskVFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name == "" { // a temporary file
		return &vfsutil.SliceFile{}, flags | vfs.OPEN_MEMORY, nil
	}
	d := (*Disk)(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.open(name, flags&vfs.OPEN_CREATE != 0)
	if err != nil {
		return nil, flags, err
	}
	journal := flags&(vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_SUPER_JOURNAL|vfs.OPEN_WAL) != 0
	h := &handle{disk: d, file: f, name: name, syncDir: journal && flags&vfs.OPEN_CREATE != 0,
		shm: vfs.NewSharedMemory(d.shm, flags)}
	return h, flags, nil
}

func (d *Disk) open(name string, create bool) (*inode, error) {
	if d.dead {
		return nil, sqlite3.CANTOPEN
	}
	if f := d.files[name]; f != nil {
		return f, nil
	}
	if !create {
		return nil, sqlite3.CANTOPEN
	}
	cut := d.step(OpCreate, name, 0, 0) == Cut
	f := &inode{}
	d.link(name, f)
	if cut {
		return nil, sqlite3.CANTOPEN
	}
	return f, nil
}

func (v *diskVFS) Delete(name string, syncDir bool) error {
	d := (*Disk)(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return sqlite3.IOERR_DELETE
	}
	if d.files[name] == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	cut := d.step(OpDelete, name, 0, 0) == Cut
	d.link(name, nil)
	if cut {
		return sqlite3.IOERR_DELETE
	}
	if syncDir && d.syncDir() != nil {
		return sqlite3.IOERR_DIR_FSYNC
	}
	return nil
}

var errIO = errors.New("input/output error")

// syncDir syncs the directory. The lock is held.
func (d *Disk) syncDir() error {
	if d.dead {
		return errIO
	}
	switch d.step(OpSyncDir, "/", 0, 0) {
	case FailSync:
		if !d.lies.RetrySync {
			return errIO
		}
	case Cut:
		return errIO
	}
	if d.lies.NoSync == nil || !d.lies.NoSync("/") {
		d.syncNames()
	}
	return nil
}

func (v *diskVFS) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d := (*Disk)(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, sqlite3.IOERR_ACCESS
	}
	return d.files[name] != nil, nil
}

// handle is an open file.
type handle struct {
	disk    *Disk
	file    *inode
	name    string
	syncDir bool
	lock    vfs.LockLevel
	shm     vfs.SharedMemory
}

var (
	_ vfs.FileSharedMemory = (*handle)(nil)
	_ vfs.FileLockState    = (*handle)(nil)
)

func (h *handle) SharedMemory() vfs.SharedMemory { return h.shm }

func (h *handle) SectorSize() int { return cachePage }

func (h *handle) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SUBPAGE_READ
}

func (h *handle) Close() error {
	if h.shm != nil {
		h.shm.Close()
	}
	return h.Unlock(vfs.LOCK_NONE)
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.disk.dead {
		return 0, sqlite3.IOERR_READ
	}
	if off >= int64(len(h.file.live)) {
		return 0, io.EOF
	}
	n := copy(p, h.file.live[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return 0, sqlite3.IOERR_WRITE
	}
	switch d.step(OpWrite, h.name, off, len(p)) {
	case FailWrite:
		return 0, sqlite3.IOERR_WRITE
	case Full:
		h.file.write(off, p[:len(p)/2], false)
		return len(p) / 2, sqlite3.FULL
	case Cut:
		h.file.write(off, p, true)
		return 0, sqlite3.IOERR_WRITE
	}
	h.file.write(off, p, false)
	return len(p), nil
}

func (h *handle) Truncate(size int64) error {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return sqlite3.IOERR_TRUNCATE
	}
	cut := d.step(OpTrim, h.name, size, 0) == Cut
	h.file.truncate(size, cut)
	if cut {
		return sqlite3.IOERR_TRUNCATE
	}
	return nil
}

func (h *handle) Sync(vfs.SyncFlag) error {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return sqlite3.IOERR_FSYNC
	}
	switch d.step(OpSync, h.name, 0, 0) {
	case FailSync:
		h.file.giveUp()
		if !d.lies.RetrySync {
			return sqlite3.IOERR_FSYNC
		}
	case Cut:
		return sqlite3.IOERR_FSYNC
	}
	if d.lies.NoSync == nil || !d.lies.NoSync(h.name) {
		h.file.sync()
	}
	if h.syncDir {
		h.syncDir = false
		if d.syncDir() != nil {
			return sqlite3.IOERR_DIR_FSYNC
		}
	}
	return nil
}

func (h *handle) Size() (int64, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.disk.dead {
		return 0, sqlite3.IOERR_FSTAT
	}
	return int64(len(h.file.live)), nil
}

// Files are the disk's, for sqlite.Config.
func (d *Disk) Files() sqlite.Files { return diskFiles{d} }

// diskFiles does what the operating system's does, without a lock file: the
// tests open a disk once at a time.
type diskFiles struct{ *Disk }

func (d diskFiles) Take(path string) (string, func() error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.open(path, true)
	if err != nil {
		return "", nil, &sqlite.OpenError{Path: path, Reason: sqlite.NotWritable, Why: "the disk does not answer", Err: err}
	}
	if size := len(f.live); 0 < size && size < 512 {
		return "", nil, &sqlite.OpenError{Path: path, Reason: sqlite.NotDatabase, Why: "the file is not an SQLite database"}
	}
	return path, func() error { return nil }, nil
}

func (d diskFiles) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncDir()
}

func (d diskFiles) Rewrite(name string) error {
	d.mu.Lock()
	f := d.files[name]
	d.mu.Unlock()
	if f == nil || d.lies.NoRewrite {
		return nil
	}
	h := &handle{disk: d.Disk, file: f, name: name}
	if len(f.live) > 0 {
		if _, err := h.WriteAt(slices.Clone(f.live), 0); err != nil {
			return err
		}
	}
	return h.Sync(0)
}

// short names a file without the directory.
func short(name string) string { return strings.TrimPrefix(name, "/") }
