package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/engine/store/storetest"
)

// changes are, for each column of each table, another value of its type. Those
// of a key are looked for under the old key and under the new one.
var changes = map[string]map[string]string{
	"meta":   {"value": "value + 1", "sum": "sum + 1", "name": "name || 'x'"},
	"shards": {"shard": "shard + 100", "epoch": "epoch + 1", "next_run": "next_run - 1", "sum": "sum + 1"},
	"runs": {"run": "run + 1", "namespace": "namespace || 'x'", "workflow_id": "upper(workflow_id)", "run_id": "''", "type": "'Refund'",
		"status": "status | 4294967296", "open": "open + 2", "attention": "attention + 2", "version": "version + 1",
		"next_event": "next_event + 1", "pending": "pending + 1", "started": "-started", "closed": "closed + 1",
		"request": "substr(request, 2)", "state": "x'73746174'", "sum": "sum | 4294967296"},
	"events":  {"run": "run + 1", "first": "first + 1", "last": "last + 1", "data": "x'00'", "sum": "sum + 1"},
	"pending": {"run": "run + 1", "op": "op || 'x'", "wake": "wake + 1", "data": "x'70'", "sum": "0"},
	"dedup":   {"run": "run + 1", "expires": "expires + 1", "data": "x''", "sum": "sum + 1"},
}

// only names one row of each table, where it has several.
var only = map[string]string{"meta": "name = 'shards'", "shards": "shard = 0", "runs": "version = 2", "events": "first = 1", "pending": "op = 'a'", "dedup": "1"}

// damagedFile is a database with one run, as a statement leaves it.
func damagedFile(t *testing.T, text string) (path string, run *store.Write) {
	path = filepath.Join(t.TempDir(), "engine.db")
	s := open(t, path, mattn.Driver())
	l := lease(t, s)
	w := first(l, 0)
	mustCommit(t, s, batch(l, w))
	last := then(w)
	last.Run.Open, last.Run.Attention = false, false
	mustCommit(t, s, batch(l, last))
	if err := readAll(t, s, w); err != nil {
		t.Fatalf("before the damage: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	conn := side(t, path)
	if n := exec(t, conn, text); n != 1 {
		t.Fatalf("%s changed %d rows", text, n)
	}
	return path, w
}

// readAll reads everything of the run, and returns the first error.
func readAll(t *testing.T, s store.Store, w *store.Write) error {
	_, load := s.Load(t.Context(), []store.Key{{Run: w.Run.Run, Request: "signal"}})
	_, byID := s.Load(t.Context(), []store.Key{{Namespace: "default", WorkflowID: w.Run.WorkflowID, Request: "start-0"}})
	_, history := s.History(t.Context(), w.Run.Run, 0, 1<<20)
	_, list := s.List(t.Context(), store.Query{})
	return errors.Join(load, byID, history, list)
}

func openAgain(t *testing.T, path string) (*sqlite.Store, error) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Driver: mattn.Driver()})
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func TestChangedContentOfAnyColumnIsSeen(t *testing.T) {
	for table, columns := range changes {
		for column, value := range columns {
			t.Run(table+"."+column, func(t *testing.T) {
				path, w := damagedFile(t, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, column, value, only[table]))
				s, err := openAgain(t, path)
				if table == "meta" || table == "shards" {
					wantDamaged(t, err, table)
					return
				}
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				wantCorrupt(t, readAll(t, s, w), table)
			})
		}
	}
}

func wantCorrupt(t *testing.T, err error, table string) {
	t.Helper()
	var c *store.CorruptError
	if !errors.As(err, &c) || c.Table != table || c.Key == "" || c.Why == "" {
		t.Fatalf("the reads say %v, want table %s damaged", err, table)
	}
}

func wantDamaged(t *testing.T, err error, table string) {
	t.Helper()
	var o *sqlite.OpenError
	if !errors.As(err, &o) || o.Reason != sqlite.Damaged {
		t.Fatalf("Open = %v, want damaged", err)
	}
	wantCorrupt(t, err, table)
}

func TestMissingRowIsSeen(t *testing.T) {
	for name, c := range map[string]struct{ text, table string }{
		"first event":      {"DELETE FROM events WHERE first = 1", "events"},
		"last event":       {"DELETE FROM events WHERE first = 3", "events"},
		"pending":          {"DELETE FROM pending WHERE op = 'b'", "pending"},
		"run":              {"DELETE FROM runs", "runs"},
		"pending too many": {"INSERT INTO pending SELECT run, 'c', wake, data, sum FROM pending WHERE op = 'a'", "pending"},
	} {
		t.Run(name, func(t *testing.T) {
			path, w := damagedFile(t, c.text)
			s, err := openAgain(t, path)
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			wantCorrupt(t, readAll(t, s, w), c.table)
			if name == "last event" {
				_, err := s.History(t.Context(), w.Run.Run, 2, 0)
				wantCorrupt(t, err, c.table)
			}
		})
	}
	for _, text := range []string{"DELETE FROM shards WHERE shard = 2", "DELETE FROM shards WHERE shard = 3"} {
		path, _ := damagedFile(t, text)
		_, err := openAgain(t, path)
		wantDamaged(t, err, "shards")
	}
	path, _ := damagedFile(t, "DELETE FROM meta")
	_, err := openAgain(t, path)
	wantDamaged(t, err, "meta")
}

func TestDamagedRunHarmsNoOther(t *testing.T) {
	path, w := damagedFile(t, "UPDATE runs SET state = x'00'")
	s, err := openAgain(t, path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	l := lease(t, s)
	other := first(l, 1)
	mustCommit(t, s, batch(l, other))
	if got := version(t, s, other.Run.Run); got != 1 {
		t.Fatalf("version %d of the other run", got)
	}
	if _, err := s.Load(t.Context(), []store.Key{{Run: w.Run.Run}}); err == nil {
		t.Fatal("the damage is gone")
	}
}

func TestShardDamagedWhileOpenEndsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.db")
	s := open(t, path, mattn.Driver())
	l := lease(t, s)
	exec(t, side(t, path), "UPDATE shards SET epoch = epoch - 1 WHERE shard = 0")
	err := s.Commit(t.Context(), batch(l, first(l, 0)))
	if kind(t, err) != "fatal" {
		t.Fatalf("Commit = %v, want fatal", err)
	}
	wantCorrupt(t, err, "shards")
	if !strings.Contains(err.Error(), "shard 0") {
		t.Fatalf("%q does not name the shard", err)
	}
	if s.Info().Shards != storetest.Shards {
		t.Fatal("Info is gone")
	}
}
