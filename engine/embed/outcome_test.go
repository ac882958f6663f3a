package embed_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// SQLite's result codes: https://www.sqlite.org/rescode.html.
const (
	sqliteFull  = 13
	sqliteIOErr = 10
)

func echo(_ context.Context, s string) (string, error) { return s, nil }

func echoes(ctx workflow.Context, s string) (string, error) { return workflow.Do(ctx, echo, s) }

// lab is an engine on an SQLite file whose driver can be made to fail.
type lab struct {
	e   *engine.Engine
	c   *client.Client
	rig *faultdriver.Rig
	st  *sqlite.Store
}

func newLab(t *testing.T, prepare func(path string)) *lab {
	path := filepath.Join(t.TempDir(), "x.db")
	if prepare != nil {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Shards: 2, Driver: mattn.Driver()})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		prepare(path)
	}
	l := &lab{rig: faultdriver.New(mattn.Driver())}
	var err error
	if l.st, err = sqlite.Open(t.Context(), sqlite.Config{Path: path, Shards: 2, Driver: l.rig}); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	if l.e, err = engine.Open(t.Context(), engine.Config{Store: l.st, Logger: quiet, Alone: true}); err != nil {
		t.Fatal(err)
	}
	l.c = client.New(l.e, client.Options{})
	w := worker.New(local{l.e}, worker.Options{Logger: quiet})
	worker.Workflow(w, echoes)
	worker.Activity(w, echo)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.Stop(ctx)
		_ = l.e.Close(ctx)
	})
	return l
}

// run runs workflows at once, and returns what the one called "bad" came to.
func (l *lab) run(t *testing.T, ids ...string) (bad error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			got, err := client.Execute(ctx, l.c, echoes, id, client.ID(id))
			if id == "bad" {
				bad = err
				return
			}
			if err != nil || got != id {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		})
	}
	wg.Wait()
	return bad
}

// equal holds what the engine says of each run against its rows.
func (l *lab) equal(t *testing.T, want int) {
	rows, err := l.st.List(t.Context(), store.Query{Namespace: "default", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != want {
		t.Errorf("the database has %d runs, want %d", len(rows), want)
	}
	for _, row := range rows {
		l.same(t, row.WorkflowID)
		var events []*pb.Event
		for e, err := range client.Get[string](l.c, row.WorkflowID, "").History(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if err := history.Validate(events); err != nil {
			t.Errorf("%s: %v", row.WorkflowID, err)
		}
	}
}

// same compares what the engine says of a run with its row, at a moment at which
// the row does not change: the run that is held may still record an answer.
func (l *lab) same(t *testing.T, id string) {
	for range 1000 {
		before, err := l.st.Load(t.Context(), []store.Key{{Namespace: "default", WorkflowID: id}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := client.Get[string](l.c, id, "").Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after, err := l.st.Load(t.Context(), []store.Key{{Namespace: "default", WorkflowID: id}})
		if err != nil {
			t.Fatal(err)
		}
		row := after[0].Run
		if before[0].Run.Version != row.Version {
			continue
		}
		if d.Info.RunId != row.RunID || d.Info.Events != row.NextEvent-1 || int32(d.Info.Status) != row.Status {
			t.Errorf("%s: the engine says %v, the database has %+v", id, d.Info, row)
		}
		return
	}
	t.Errorf("%s: its row never stands still", id)
}

func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("run-", i))
	}
	return ids
}

// A COMMIT that is reported as failed costs nobody anything: one that was rolled
// back is written again, one that stands is taken for done.
func TestSQLiteCommitReportedFailedHarmsNobody(t *testing.T) {
	full := faultdriver.Fault(sqliteFull, sqliteFull)
	odd := faultdriver.Fault(sqliteIOErr, sqliteIOErr)
	for name, outcome := range map[string]faultdriver.Outcome{
		"rolled back": faultdriver.RolledBack(odd), "stands": faultdriver.Stands(odd), "not tried, still open": faultdriver.Fails(full),
	} {
		for nth := 1; nth <= 4; nth++ {
			t.Run(fmt.Sprintf("%s, commit %d", name, nth), func(t *testing.T) {
				l := newLab(t, nil)
				first, fired := l.rig.Commits(), false
				l.rig.OnCommit(func(n int) faultdriver.Outcome {
					if n == first+nth {
						fired = true
						return outcome
					}
					return faultdriver.Pass()
				})
				l.run(t, names(4)...)
				l.run(t, "again") // so that there are commits enough
				if !fired {
					t.Fatalf("void: commit %d never came", nth)
				}
				l.equal(t, 5)
			})
		}
	}
}

// When it cannot be shown whether a COMMIT stands, the process must end: the
// engine stops, and a start afterwards finds the truth.
func TestSQLiteCommitThatNobodyCanJudgeStopsTheEngine(t *testing.T) {
	l := newLab(t, nil)
	l.run(t, "before")
	l.rig.OnCommit(func(int) faultdriver.Outcome { return faultdriver.MuteAfter() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		<-l.e.Stopped()
		cancel()
	}()
	if _, err := client.Execute(ctx, l.c, echoes, "x", client.ID("x")); err == nil {
		t.Error("a run was acknowledged by a commit that nobody can judge")
	}
	var fatal *store.FatalError
	if !errors.As(l.e.Err(), &fatal) {
		t.Errorf("the engine stopped with %v, want a fatal error of the store", l.e.Err())
	}
}

// A row that SQLite itself refuses holds its run, and no other.
func TestSQLiteRefusesOneRunAndWritesTheOthers(t *testing.T) {
	l := newLab(t, func(path string) {
		db, err := sql.Open("sqlite3", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		_, err = db.Exec(`CREATE TRIGGER bad BEFORE UPDATE ON runs WHEN NEW.workflow_id = 'bad' AND NEW.status != 1
			BEGIN SELECT RAISE(ABORT, 'this row is bad'); END`)
		if err != nil {
			t.Fatal(err)
		}
	})
	bad := l.run(t, append(names(6), "bad")...)
	if bad == nil {
		t.Error("the run that the database refused was acknowledged")
	}
	d, err := client.Get[string](l.c, "bad", "").Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Info.Hold.GetKind() != pb.HoldKind_HOLD_KIND_QUARANTINED || d.Info.Status != pb.Status_STATUS_RUNNING {
		t.Errorf("the refused run is %v, held as %v; want running and quarantined", d.Info.Status, d.Info.Hold)
	}
	l.equal(t, 7)
}
