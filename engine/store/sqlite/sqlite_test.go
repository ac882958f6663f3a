package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/engine/store/storetest"
)

func TestKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "engine.db")
		return func(t *testing.T) store.Store { return open(t, path, mattn.Driver()) }
	})
}

func TestKeepsThePromisesThroughTheRig(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "engine.db")
		return func(t *testing.T) store.Store { return open(t, path, faultdriver.New(mattn.Driver())) }
	})
}

// open opens the database; the test closes it if it has not been by then.
func open(t *testing.T, path string, d sqlite.Driver) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Shards: storetest.Shards, Driver: d})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// side opens the file beside the store, or after it.
func side(t *testing.T, path string) *sql.Conn {
	t.Helper()
	c, err := mattn.Driver().Connector(path)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		db.Close()
	})
	return conn
}

func exec(t *testing.T, conn *sql.Conn, text string, args ...any) int64 {
	t.Helper()
	res, err := conn.ExecContext(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func pragma(t *testing.T, conn *sql.Conn, name string) (value string) {
	t.Helper()
	if err := conn.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// lease fences shard 0.
func lease(t *testing.T, s store.Store) store.Lease {
	t.Helper()
	l, err := s.Fence(t.Context(), []store.ShardID{0}, 1)
	if err != nil {
		t.Fatalf("Fence: %v", err)
	}
	return l[0]
}

// first is the first write of a run with two events, two pending rows and a
// remembered request.
func first(l store.Lease, n int64) *store.Write {
	r := store.RunRow{Run: store.MakeRunNo(l.Shard, l.NextRun+n), Namespace: "default", WorkflowID: fmt.Sprint("order-", n),
		RunID: fmt.Sprint("ulid-", n), Type: "Order", Status: 1, Open: true, Attention: true, Version: 1, NextEvent: 3,
		Pending: 2, Started: 1000 + n, Request: fmt.Sprint("start-", n), State: []byte("state")}
	return &store.Write{Run: r, Insert: true,
		Events: &store.EventRow{Run: r.Run, First: 1, Last: 2, Data: []byte("events 1 and 2")},
		Put:    []store.PendingRow{{Run: r.Run, Op: "a", Wake: 5, Data: []byte("pending a")}, {Run: r.Run, Op: "b", Data: []byte("pending b")}},
		Dedup: []store.DedupRow{{Namespace: "default", WorkflowID: r.WorkflowID, Request: "signal",
			Run: r.Run, Expires: 9, Data: []byte("told")}}}
}

// then is the write after w, of one event.
func then(w *store.Write) *store.Write {
	r := w.Run
	r.Version++
	r.NextEvent++
	return &store.Write{Run: r, Events: &store.EventRow{Run: r.Run, First: r.NextEvent - 1, Last: r.NextEvent - 1, Data: []byte("more")}}
}

func batch(l store.Lease, writes ...*store.Write) *store.Batch {
	return &store.Batch{Leases: []store.Lease{l}, Writes: writes}
}

func mustCommit(t *testing.T, s store.Store, b *store.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// version is that of the run's row, 0 if it is not there.
func version(t *testing.T, s store.Store, no store.RunNo) int64 {
	t.Helper()
	l, err := s.Load(t.Context(), []store.Key{{Run: no}})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if l[0].Run == nil {
		return 0
	}
	return l[0].Run.Version
}

// kind is the one kind of error that a commit returned.
func kind(t *testing.T, err error) string {
	t.Helper()
	var (
		refused     *store.RefusedError
		lost        *store.LeaseLostError
		unavailable *store.UnavailableError
		fatal       *store.FatalError
		kinds       []string
	)
	for name, is := range map[string]bool{
		"refused": errors.As(err, &refused), "lost": errors.As(err, &lost), "unavailable": errors.As(err, &unavailable),
		"fatal": errors.As(err, &fatal), "unknown": errors.Is(err, store.ErrUnknown), "done": err == nil,
	} {
		if is {
			kinds = append(kinds, name)
		}
	}
	if len(kinds) != 1 {
		t.Fatalf("the error is of the kinds %v: %v", kinds, err)
	}
	return kinds[0]
}

func TestWorkflowOfOneActivityWritesSixRows(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "engine.db"), mattn.Driver())
	l := lease(t, s)
	w := first(l, 0)
	w.Put, w.Dedup, w.Run.Pending = w.Put[:1], nil, 1
	mustCommit(t, s, batch(l, w))
	last := then(w)
	last.Del, last.Run.Pending, last.Run.Open = []string{"a"}, 0, false
	mustCommit(t, s, batch(l, last))
	if got, want := s.Stats(), (sqlite.Stats{Commits: 2, Rows: 6}); got != want {
		t.Fatalf("Stats = %+v, want %+v", got, want)
	}
}

func TestEveryConnectionSyncsEachCommit(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "engine.db"), mattn.Driver())
	check := func(name string, conn *sql.Conn) {
		for p, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "wal_autocheckpoint": "1000", "busy_timeout": "5000"} {
			if got := pragma(t, conn, p); got != want {
				t.Errorf("%s: %s = %s, want %s", name, p, got, want)
			}
		}
	}
	check("writer", s.Writer())
	for range sqlite.DefaultReaders {
		conn, giveBack := s.Reader()
		defer giveBack()
		check("reader", conn)
		if _, err := conn.ExecContext(t.Context(), "DELETE FROM runs"); err == nil {
			t.Error("a reader can write")
		}
	}
}

func TestNoStatementOnThePathOfAStepScansATable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "engine.db"), mattn.Driver())
	for _, text := range sqlite.HotStatements() {
		plan := explain(t, s, text)
		if strings.Contains(plan, "SCAN runs") || strings.Contains(plan, "SCAN events") || strings.Contains(plan, "SCAN pending") ||
			strings.Contains(plan, "SCAN dedup") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\n%s", text, plan)
		}
		if strings.HasPrefix(text, "SELECT") && !strings.Contains(plan, "SEARCH") {
			t.Errorf("the plan has no search, so this test sees nothing: %s\n%s", text, plan)
		}
	}
	if plan := explain(t, s, sqlite.ListOfID()); !strings.Contains(plan, "SEARCH runs USING INDEX runs_id") {
		t.Errorf("the list of one id walks the namespace:\n%s", plan)
	}
}

func explain(t *testing.T, s *sqlite.Store, text string) string {
	t.Helper()
	st, err := s.Writer().PrepareContext(t.Context(), "EXPLAIN QUERY PLAN "+text)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var args []any
	rows, err := st.QueryContext(t.Context(), args...)
	for err != nil && len(args) < 30 { // database/sql does not tell how many there are
		args = append(args, 1)
		rows, err = st.QueryContext(t.Context(), args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int64
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
