package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Files is what Open asks of the file system beside what SQLite does itself. A
// driver whose files are elsewhere brings its own.
type Files interface {
	// Take finds out whether the database can be opened and written, and takes
	// it for this Store alone, until release. It returns the absolute path,
	// without links, and an *OpenError where it cannot.
	Take(path string) (abs string, release func() error, err error)

	// SyncDir makes the name of the file durable.
	SyncDir(abs string) error

	// Rewrite writes the file over itself, byte for byte, and syncs it. A file
	// that is not there is none to rewrite.
	Rewrite(abs string) error
}

// osFiles are the operating system's, with a lock file beside the database.
type osFiles struct{}

func (osFiles) Take(path string) (string, func() error, error) {
	abs, err := resolve(path)
	if err != nil {
		return "", nil, err
	}
	lock, err := takeLock(abs)
	if err != nil {
		return "", nil, err
	}
	// Before SQLite opens the file: closing it later would drop SQLite's locks.
	if err := tryWrite(abs); err != nil {
		if also := lock.Close(); also != nil {
			return "", nil, fmt.Errorf("%w; closing the lock file failed too: %w", err, also)
		}
		return "", nil, err
	}
	return abs, lock.Close, nil
}

func (osFiles) SyncDir(abs string) error {
	d, err := os.Open(filepath.Dir(abs))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFiles) Rewrite(abs string) error {
	f, err := os.OpenFile(abs, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(rewrite(f), f.Close())
}

func rewrite(f *os.File) error {
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, end := f.ReadAt(buf, at)
		if _, err := f.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
		if end == io.EOF {
			return f.Sync()
		}
		if end != nil {
			return end
		}
	}
}

// resolve follows links, so that two names of one file have one lock file.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &OpenError{path, Failed, "the working directory cannot be found", err}
	}
	real, err := filepath.EvalSymlinks(abs)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", &OpenError{abs, NotWritable, "the path cannot be read: check owner, permissions and mount options", err}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", &OpenError{abs, NoDirectory, "its directory is missing: create it", nil}
	}
	if err != nil {
		return "", &OpenError{abs, NotWritable, "the path cannot be read: check owner, permissions and mount options", err}
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

func tryWrite(abs string) error {
	// A new file is its owner's alone: payloads stand in it as they are.
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, syscall.EISDIR):
		return &OpenError{abs, NotDatabase, "it is a directory: name a file", nil}
	case err != nil:
		return &OpenError{abs, NotWritable, "the file cannot be written: check owner, permissions and mount options", err}
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return &OpenError{abs, Failed, "the file cannot be looked at", err}
	}
	// SQLite takes what is shorter than its shortest page for empty, and would
	// write over it.
	if size := info.Size(); 0 < size && size < 512 {
		return &OpenError{abs, NotDatabase, "the file is not an SQLite database: name another file, or move this one away", nil}
	}
	return nil
}

// takeLock locks PATH.lock. The lock is the kernel's and ends with the process;
// the file stays, since removing it would let two processes lock two files of
// that name.
func takeLock(abs string) (*os.File, error) {
	name := abs + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, &OpenError{abs, NotWritable, "the lock file beside it cannot be written: check owner, permissions and mount options", err}
	}
	if err := flock(f); err != nil {
		defer f.Close() // nothing was written to it
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &OpenError{abs, InUse, "it is in use by " + holder(f) + ": stop that first, or name another file", nil}
		}
		return nil, &OpenError{abs, Failed, "the lock file beside it cannot be locked", err}
	}
	pid := fmt.Appendf(nil, "%d\n", os.Getpid())
	if err := errors.Join(f.Truncate(0), writeAll(f, pid)); err != nil {
		_ = f.Close() // the first error says it all
		return nil, &OpenError{abs, NotWritable, "the lock file beside it cannot be written", err}
	}
	return f, nil
}

func writeAll(f *os.File, b []byte) error {
	_, err := f.WriteAt(b, 0)
	return err
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return "process " + pid
	}
	return "another process"
}
