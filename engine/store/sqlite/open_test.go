package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/engine/store/storetest"
)

// refusesToOpen wants one line that names the path and has the words.
func refusesToOpen(t *testing.T, c sqlite.Config, reason sqlite.Reason, words ...string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), c)
	if err == nil {
		s.Close()
		t.Fatal("the file was opened")
	}
	var o *sqlite.OpenError
	if !errors.As(err, &o) || o.Reason != reason {
		t.Fatalf("Open = %v, want reason %d", err, reason)
	}
	for _, w := range append(words, strings.TrimPrefix(c.Path, filepath.Dir(c.Path))) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func config(path string) sqlite.Config { return sqlite.Config{Path: path, Driver: mattn.Driver()} }

// existing makes a database with one run and closes it.
func existing(t *testing.T) (path string, run *store.Write) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "engine.db")
	s := open(t, path, mattn.Driver())
	l := lease(t, s)
	run = first(l, 0)
	mustCommit(t, s, batch(l, run))
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return path, run
}

func TestOpenRefusesWhatIsNoDatabaseOfOurs(t *testing.T) {
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := write("notes.txt", strings.Repeat("these are notes\n", 500))
	refusesToOpen(t, config(text), sqlite.NotDatabase, "not an SQLite database", "another file")
	if b, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(b), "these are notes") || len(b) != 8000 {
		t.Fatalf("the file was changed: %d bytes, %v", len(b), err)
	}
	refusesToOpen(t, config(write("short", "x")), sqlite.NotDatabase)
	refusesToOpen(t, config(t.TempDir()), sqlite.NotDatabase, "is a directory")
	refusesToOpen(t, config(filepath.Join(t.TempDir(), "missing", "engine.db")), sqlite.NoDirectory, "create it")
	refusesToOpen(t, config(filepath.Join(text, "engine.db")), sqlite.NotWritable)

	other := filepath.Join(t.TempDir(), "other.db")
	conn := side(t, other)
	exec(t, conn, "CREATE TABLE songs (title)")
	refusesToOpen(t, config(other), sqlite.NotOurs, "another program")
	exec(t, conn, "DROP TABLE songs")
	exec(t, conn, "PRAGMA application_id = 77")
	refusesToOpen(t, config(other), sqlite.NotOurs, "another program")
	if mode := pragma(t, conn, "journal_mode"); mode != "delete" {
		t.Fatalf("journal mode of another program's file is now %s", mode)
	}
}

func TestOpenRefusesConfigsThatContradict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.db")
	for _, c := range []sqlite.Config{
		{Driver: mattn.Driver()}, {Path: path},
		{Path: path, Driver: mattn.Driver(), Shards: -1}, {Path: path, Driver: mattn.Driver(), Shards: store.MaxShards + 1},
		{Path: path, Driver: mattn.Driver(), Readers: -1},
	} {
		refusesToOpen(t, c, sqlite.BadConfig)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a file was created")
	}
}

func TestOlderBuildRefusesNewerFile(t *testing.T) {
	path, run := existing(t)
	conn := side(t, path)
	exec(t, conn, "PRAGMA user_version = 99")
	refusesToOpen(t, config(path), sqlite.Newer, "99", "up to 1", "newer engined")
	exec(t, conn, "PRAGMA user_version = 1")
	s := open(t, path, mattn.Driver())
	if got := version(t, s, run.Run.Run); got != 1 {
		t.Fatalf("version %d after a refusal", got)
	}
}

func TestOpenRefusesDamagedFile(t *testing.T) {
	for name, at := range map[string]int64{"the first page": 100, "the schema": 3000} {
		t.Run(name, func(t *testing.T) {
			path, _ := existing(t)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, 4096-at), at); err != nil {
				t.Fatal(err)
			}
			refusesToOpen(t, config(path), sqlite.Damaged, "restore a backup")
		})
	}
	path, _ := existing(t)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	refusesToOpen(t, config(path), sqlite.Damaged, "restore a backup")
}

func TestOpenRefusesLessThanFullSync(t *testing.T) {
	swallow := func(pragma string) sqlite.Driver {
		rig := faultdriver.New(mattn.Driver())
		rig.OnStatement(func(text string) error {
			if strings.HasPrefix(text, pragma) {
				return faultdriver.ErrSwallowed
			}
			return nil
		})
		return rig
	}
	path := filepath.Join(t.TempDir(), "engine.db")
	refusesToOpen(t, sqlite.Config{Path: path, Driver: swallow("PRAGMA synchronous = FULL")}, sqlite.NotSynchronous, "synchronous=1")
	open(t, path, swallow("PRAGMA no such thing")) // the rig alone is not what is refused
}

func TestNumberOfShardsIsFixedAtCreation(t *testing.T) {
	path, _ := existing(t)
	c := config(path)
	c.Shards = 5
	refusesToOpen(t, c, sqlite.OtherShards, "with 4 shards, not 5")
	for _, n := range []int{0, storetest.Shards} {
		c.Shards = n
		s, err := sqlite.Open(t.Context(), c)
		if err != nil || s.Info().Shards != storetest.Shards {
			t.Fatalf("Open with %d shards: %v", n, err)
		}
		s.Close()
	}
	s, err := sqlite.Open(t.Context(), config(filepath.Join(t.TempDir(), "new.db")))
	if err != nil || s.Info().Shards != sqlite.DefaultShards {
		t.Fatalf("Open: %v", err)
	}
	s.Close()
}

func TestFileInUseIsRefused(t *testing.T) {
	path, run := existing(t)
	s := open(t, path, mattn.Driver())
	pid := fmt.Sprintf("process %d", os.Getpid())
	refusesToOpen(t, config(path), sqlite.InUse, pid, "stop that first")
	link := filepath.Join(t.TempDir(), "engine.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	refusesToOpen(t, config(link), sqlite.InUse, pid)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, link, mattn.Driver())
	if got := version(t, s, run.Run.Run); got != 1 {
		t.Fatalf("version %d through a link", got)
	}
}

const holdEnv = "SQLITE_TEST_HOLD"

// TestMain is another process, when it is told so: it opens the database, commits
// a run and does not end.
func TestMain(m *testing.M) {
	path := os.Getenv(holdEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, config(path))
	if err == nil {
		var leases []store.Lease
		if leases, err = s.Fence(ctx, []store.ShardID{0}, 1); err == nil {
			err = s.Commit(ctx, batch(leases[0], first(leases[0], 1)))
		}
	}
	fmt.Println(err)
	io.Copy(io.Discard, os.Stdin)
}

func TestOtherProcessIsNamedAndItsDeathFreesTheFile(t *testing.T) {
	path, _ := existing(t)
	other := startOther(t, path)
	refusesToOpen(t, config(path), sqlite.InUse, fmt.Sprintf("process %d", other.Process.Pid))
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the other process left no log, so nothing is shown: %v", err)
	}
	s := open(t, path, mattn.Driver())
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Fatalf("the log of an unclean stop was not brought to disk before the first read: %v", err)
	}
	runs, err := s.List(t.Context(), store.Query{})
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v; want both", len(runs), err)
	}
}

// startOther starts the other process and waits until it has the file.
func startOther(t *testing.T, path string) *osexec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self)
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "<nil>\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd
}

func TestReadOnlyFileFoundBySQLiteIsToldSo(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		reason sqlite.Reason
	}{"read-only": {readOnly, sqlite.NotWritable}, "full": {full, sqlite.Failed}, "busy": {busy, sqlite.InUse}, "io": {ioError, sqlite.Failed}} {
		t.Run(name, func(t *testing.T) {
			rig := faultdriver.New(mattn.Driver())
			rig.OnStatement(func(text string) error {
				if strings.HasPrefix(text, "BEGIN IMMEDIATE") {
					return faultdriver.Fault(c.code, c.code)
				}
				return nil
			})
			path := filepath.Join(t.TempDir(), "engine.db")
			refusesToOpen(t, sqlite.Config{Path: path, Driver: rig}, c.reason)
			open(t, path, mattn.Driver()) // what was begun is no hindrance
		})
	}
}

func TestOddPathsAreNames(t *testing.T) {
	for _, name := range []string{"a?b=c#d.db", "100% größe.db", "file:x.db", ":memory:"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		s := open(t, path, mattn.Driver())
		l := lease(t, s)
		mustCommit(t, s, batch(l, first(l, 0)))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.Info().Path; got != path {
			t.Errorf("Info has path %s, want %s", got, path)
		}
	}
}
