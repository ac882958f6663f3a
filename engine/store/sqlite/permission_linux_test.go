package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
)

// asNobody drops root's rights over files until the test ends.
func asNobody(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if os.Geteuid() != 0 {
		return // the modes hold for us as they are
	}
	const nobody = 65534
	set := func(uid uintptr) {
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0); e != 0 {
			t.Fatal(e)
		}
	}
	set(nobody)
	t.Cleanup(func() { set(0) })
}

func TestOpenRefusesWhatItMayNotWrite(t *testing.T) {
	for name, c := range map[string]struct{ file, lock, dir os.FileMode }{
		"file":      {0o444, 0o666, 0o777},
		"unread":    {0o000, 0o666, 0o777},
		"lock":      {0o666, 0o444, 0o777},
		"directory": {0o666, 0o666, 0o555},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := existing(t)
			if name == "directory" { // nothing beside the file can be made
				if err := os.Remove(path + ".lock"); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Chmod(path+".lock", c.lock); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Dir(path)
			for p, mode := range map[string]os.FileMode{path: c.file, dir: c.dir, filepath.Dir(dir): 0o755} {
				if err := os.Chmod(p, mode); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { os.Chmod(dir, 0o755) })
			asNobody(t)
			refusesToOpen(t, config(path), sqlite.NotWritable, "check owner, permissions")
		})
	}
}

func TestANewFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Driver: mattn.Driver()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if m := info.Mode().Perm(); m != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(p), m)
		}
	}
}
