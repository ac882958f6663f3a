package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/engine/store/storetest"
)

// watchedFiles calls rewrite in place of Rewrite.
type watchedFiles struct {
	sqlite.Files
	rewrite func(path string) error
}

func (w watchedFiles) Rewrite(path string) error { return w.rewrite(path) }

// uncleanStop is a database with one run, all of it in the log, as the end of its
// process left it.
func uncleanStop(t *testing.T) (path string, run store.RunNo) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "engine.db")
	s := open(t, from, mattn.Driver())
	l := lease(t, s)
	w := first(l, 0)
	mustCommit(t, s, batch(l, w))
	path = filepath.Join(t.TempDir(), "engine.db")
	for _, end := range []string{"", "-wal"} {
		if err := os.WriteFile(path+end, content(t, from+end), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, w.Run.Run
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// After a sync that failed the page cache may hold what the disk does not, and
// call it written; only writing it again makes the next sync mean it.
func TestLogOfAnUncleanStopIsWrittenAgainBeforeItIsCopied(t *testing.T) {
	path, run := uncleanStop(t)
	database, log := content(t, path), content(t, path+"-wal")
	if len(log) == 0 {
		t.Fatal("there is no log")
	}
	calls := 0
	files := watchedFiles{sqlite.OSFiles(), func(name string) error {
		calls++
		if name != path+"-wal" || !bytes.Equal(content(t, path), database) {
			t.Fatalf("%s is rewritten, the database changed: %t", name, !bytes.Equal(content(t, path), database))
		}
		err := sqlite.OSFiles().Rewrite(name)
		if !bytes.Equal(content(t, name), log) {
			t.Fatal("the log is another one now")
		}
		return err
	}}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Driver: mattn.Driver(), Files: files})
	if err != nil || calls != 1 {
		t.Fatalf("Open = %v, and the log was written %d times", err, calls)
	}
	defer s.Close()
	if got := version(t, s, run); got != 1 || s.Info().Shards != storetest.Shards {
		t.Fatalf("version %d, %+v", got, s.Info())
	}
}

func TestOpenFailsIfTheLogCannotBeBroughtToDisk(t *testing.T) {
	path, run := uncleanStop(t)
	database, log := content(t, path), content(t, path+"-wal")
	broken := errors.New("input/output error")
	files := watchedFiles{sqlite.OSFiles(), func(string) error { return broken }}
	c := sqlite.Config{Path: path, Driver: mattn.Driver(), Files: files}
	refusesToOpen(t, c, sqlite.Failed, "its log cannot be brought to disk", "input/output error")
	if !bytes.Equal(content(t, path), database) || !bytes.Equal(content(t, path+"-wal"), log) {
		t.Fatal("the log was copied all the same")
	}
	c.Files = nil
	s, err := sqlite.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	if got := version(t, s, run); got != 1 {
		t.Fatalf("version %d", got)
	}
}

func TestRewriteLeavesAFileAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := sqlite.OSFiles().Rewrite(path); err != nil {
		t.Fatalf("of a file that is not there: %v", err)
	}
	for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1} {
		want := bytes.Repeat([]byte("bytes..."), size/8+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sqlite.OSFiles().Rewrite(path); err != nil {
			t.Fatalf("of %d bytes: %v", size, err)
		}
		if !bytes.Equal(content(t, path), want) {
			t.Fatalf("%d bytes were changed", size)
		}
	}
}
