package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
)

// SQLite's result codes.
const (
	busy       = 5
	readOnly   = 8
	ioError    = 10
	ioWrite    = ioError | 3<<8
	ioFsync    = ioError | 4<<8
	corrupt    = 11
	full       = 13
	constraint = 19
)

var (
	errIO    = faultdriver.Fault(ioError, ioWrite)
	errSync  = faultdriver.Fault(ioError, ioFsync)
	errFull  = faultdriver.Fault(full, full)
	errAlien = errors.New("an error that is not SQLite's")
)

// rigged is an open store with one run, through the rig.
type rigged struct {
	*testing.T
	path  string
	rig   *faultdriver.Rig
	s     *sqlite.Store
	lease store.Lease
	run   *store.Write
}

func newRigged(t *testing.T) *rigged {
	r := &rigged{T: t, path: filepath.Join(t.TempDir(), "engine.db"), rig: faultdriver.New(mattn.Driver())}
	r.s = open(t, r.path, r.rig)
	r.lease = lease(t, r.s)
	r.run = first(r.lease, 0)
	mustCommit(t, r.s, batch(r.lease, r.run))
	return r
}

// nextCommit has only the next COMMIT end so.
func (r *rigged) nextCommit(o faultdriver.Outcome) {
	next := r.rig.Commits() + 1
	r.rig.OnCommit(func(n int) faultdriver.Outcome {
		if n == next {
			return o
		}
		return faultdriver.Pass()
	})
}

// commit writes the next version of the run and another run.
func (r *rigged) commit() (w *store.Write, kindOf string) {
	r.Helper()
	w = then(r.run)
	other := first(r.lease, int64(r.rig.Commits()))
	return w, kind(r.T, r.s.Commit(r.Context(), batch(r.lease, w, other)))
}

// goesOn wants the database as w left it and open for more.
func (r *rigged) goesOn(w *store.Write) {
	r.Helper()
	if got := version(r.T, r.s, w.Run.Run); got != w.Run.Version {
		r.Fatalf("version %d, want %d", got, w.Run.Version)
	}
	mustCommit(r.T, r.s, batch(r.lease, then(w)))
}

func TestCommitReportedFailedAndRolledBackIsUnavailable(t *testing.T) {
	for name, o := range map[string]faultdriver.Outcome{
		"by SQLite itself":           faultdriver.RolledBack(errIO),
		"by the store":               faultdriver.Fails(errIO),
		"full":                       faultdriver.Fails(errFull),
		"busy":                       faultdriver.Fails(faultdriver.Fault(busy, busy)),
		"read-only":                  faultdriver.RolledBack(faultdriver.Fault(readOnly, readOnly)),
		"an error that is no code's": faultdriver.RolledBack(errAlien),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigged(t)
			for range 3 {
				r.nextCommit(o)
				if _, got := r.commit(); got != "unavailable" {
					t.Fatalf("Commit is %s, want unavailable", got)
				}
			}
			if got := r.s.Stats().Commits; got != 1 {
				t.Fatalf("%d commits are counted, want 1", got)
			}
			r.goesOn(r.run)
		})
	}
}

func TestCommitReportedFailedThatStandsIsDoneWhenOnDisk(t *testing.T) {
	r := newRigged(t)
	r.nextCommit(faultdriver.Stands(errIO))
	w, got := r.commit()
	if got != "done" {
		t.Fatalf("Commit is %s, want done", got)
	}
	if info, err := os.Stat(r.path + "-wal"); err != nil || info.Size() != 0 {
		t.Fatalf("the log was not brought to disk: %v, %v", info.Size(), err)
	}
	if got := r.s.Stats().Commits; got != 2 {
		t.Fatalf("%d commits are counted, want 2", got)
	}
	r.goesOn(w)
}

func TestCommitThatCannotBeShownEndsTheStore(t *testing.T) {
	cases := map[string]struct {
		outcome faultdriver.Outcome
		failing string // a statement that fails from then on
		stands  bool
	}{
		"silent before":                   {faultdriver.MuteBefore(), "", false},
		"silent after":                    {faultdriver.MuteAfter(), "", true},
		"all silent before":               {faultdriver.CutBefore(), "", false},
		"all silent after":                {faultdriver.CutAfter(), "", true},
		"a sync failed":                   {faultdriver.RolledBack(errSync), "", false},
		"a sync failed, and it stands":    {faultdriver.Stands(errSync), "", true},
		"the file is damaged":             {faultdriver.Fails(faultdriver.Fault(corrupt, corrupt)), "", false},
		"rolling back fails":              {faultdriver.Fails(errIO), "ROLLBACK", false},
		"reading back fails":              {faultdriver.Stands(errIO), "SELECT version FROM runs", true},
		"stands, but is not surely there": {faultdriver.Stands(errIO), "PRAGMA wal_checkpoint", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRigged(t)
			r.nextCommit(c.outcome)
			if c.failing != "" {
				r.rig.OnStatement(func(text string) error {
					if strings.HasPrefix(text, c.failing) {
						return errIO
					}
					return nil
				})
			}
			w, got := r.commit()
			if got != "fatal" {
				t.Fatalf("Commit is %s, want fatal", got)
			}
			r.staysFatal(w)
			want := r.run.Run.Version
			if c.stands {
				want = w.Run.Version
			}
			r.rig.OnStatement(nil)
			if err := r.s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			s := open(t, r.path, mattn.Driver())
			if got := version(t, s, w.Run.Run); got != want {
				t.Fatalf("after a new start: version %d, want %d", got, want)
			}
		})
	}
}

// staysFatal wants nothing to be sent any more.
func (r *rigged) staysFatal(w *store.Write) {
	r.Helper()
	before, statements := r.rig.Commits(), 0
	r.rig.OnCommit(nil)
	r.rig.OnStatement(func(string) error { statements++; return nil })
	for range 2 {
		if got := kind(r.T, r.s.Commit(r.Context(), batch(r.lease, w))); got != "fatal" {
			r.Fatalf("a later Commit is %s, want fatal", got)
		}
		if _, err := r.s.Fence(r.Context(), []store.ShardID{0}, 0); kind(r.T, err) != "fatal" {
			r.Fatalf("a later Fence is %v, want fatal", err)
		}
	}
	if r.rig.Commits() != before || statements != 0 {
		r.Fatalf("%d more commits and %d statements were sent", r.rig.Commits()-before, statements)
	}
}

func TestReadsGoOnWhenTheWriterHasEnded(t *testing.T) {
	r := newRigged(t)
	r.nextCommit(faultdriver.RolledBack(errSync))
	if _, got := r.commit(); got != "fatal" {
		t.Fatalf("Commit is %s, want fatal", got)
	}
	if got := version(t, r.s, r.run.Run.Run); got != 1 {
		t.Fatalf("version %d, want 1", got)
	}
}

func TestStatementThatFailsLeavesNothingWritten(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"constraint": {faultdriver.Fault(constraint, constraint), "refused"},
		"type":       {faultdriver.Fault(20, 20), "refused"},
		"too big":    {faultdriver.Fault(18, 18), "refused"},
		"full":       {errFull, "unavailable"},
		"busy":       {faultdriver.Fault(busy, busy), "unavailable"},
		"read-only":  {faultdriver.Fault(readOnly, readOnly), "unavailable"},
		"io":         {errIO, "unavailable"},
		"alien":      {errAlien, "unavailable"},
		"sync":       {errSync, "fatal"},
		"corrupt":    {faultdriver.Fault(corrupt, corrupt), "fatal"},
		"not a db":   {faultdriver.Fault(26, 26), "fatal"},
	}
	for name, c := range cases {
		for _, statement := range []string{"INSERT INTO events", "UPDATE runs", "INSERT INTO runs", "INSERT INTO pending", "INSERT INTO dedup"} {
			t.Run(name+"/"+statement, func(t *testing.T) {
				r := newRigged(t)
				r.rig.OnStatement(func(text string) error {
					if strings.HasPrefix(text, statement) {
						return c.err
					}
					return nil
				})
				w, got := r.commit()
				if got != c.want {
					t.Fatalf("Commit is %s, want %s", got, c.want)
				}
				r.rig.OnStatement(nil)
				if got == "fatal" {
					r.staysFatal(w)
					return
				}
				r.goesOn(r.run)
			})
		}
	}
}

func TestRefusalNamesTheWrite(t *testing.T) {
	r := newRigged(t)
	r.rig.OnStatement(func(text string) error {
		if strings.HasPrefix(text, "INSERT INTO runs") {
			return faultdriver.Fault(constraint, constraint)
		}
		return nil
	})
	bad := first(r.lease, 9)
	err := r.s.Commit(t.Context(), batch(r.lease, then(r.run), bad))
	var refused *store.RefusedError
	if !errors.As(err, &refused) || refused.Index != 1 || refused.Run != bad.Run.Run {
		t.Fatalf("Commit = %v, want write 1 refused", err)
	}
}

func TestBeginThatFails(t *testing.T) {
	r := newRigged(t)
	begin := func(err error) {
		r.rig.OnStatement(func(text string) error {
			if strings.HasPrefix(text, "BEGIN") {
				return err
			}
			return nil
		})
	}
	begin(faultdriver.Fault(busy, busy))
	if _, got := r.commit(); got != "unavailable" {
		t.Fatalf("Commit is %s, want unavailable", got)
	}
	begin(nil)
	r.goesOn(r.run)
	r.rig.OnStatement(func(string) error { return faultdriver.ErrSilent })
	if _, got := r.commit(); got != "fatal" {
		t.Fatalf("Commit on a silent connection is %s, want fatal", got)
	}
}

func TestFenceEndsLikeACommit(t *testing.T) {
	r := newRigged(t)
	fence := func() (store.Lease, string) {
		l, err := r.s.Fence(t.Context(), []store.ShardID{0}, 0)
		if err != nil {
			return store.Lease{}, kind(t, err)
		}
		return l[0], "done"
	}
	for _, o := range []faultdriver.Outcome{faultdriver.Fails(errFull), faultdriver.RolledBack(errIO)} {
		r.nextCommit(o)
		if _, got := fence(); got != "unavailable" {
			t.Fatalf("Fence is %s, want unavailable", got)
		}
	}
	r.nextCommit(faultdriver.Stands(errIO))
	l, got := fence()
	if got != "done" || l.Epoch != r.lease.Epoch+1 || l.NextRun != r.lease.NextRun+store.ReservedRuns {
		t.Fatalf("Fence is %s with %+v after %+v", got, l, r.lease)
	}
	r.lease = l
	r.goesOn(r.run)
	r.nextCommit(faultdriver.MuteAfter())
	if _, got := fence(); got != "fatal" {
		t.Fatalf("Fence is %s, want fatal", got)
	}
}

func TestFullDiskIsUnavailableUntilThereIsSpace(t *testing.T) {
	r := newRigged(t)
	pages := pragma(t, r.s.Writer(), "page_count")
	pragma(t, r.s.Writer(), "max_page_count = "+pages)
	big := first(r.lease, 7)
	big.Run.State = make([]byte, 1<<20)
	for range 2 {
		if got := kind(t, r.s.Commit(t.Context(), batch(r.lease, then(r.run), big))); got != "unavailable" {
			t.Fatalf("Commit is %s, want unavailable", got)
		}
		if got := version(t, r.s, big.Run.Run); got != 0 {
			t.Fatalf("version %d of what did not fit", got)
		}
	}
	pragma(t, r.s.Writer(), "max_page_count = 1000000")
	mustCommit(t, r.s, batch(r.lease, big))
	r.goesOn(r.run)
}

func TestLockOfAnotherProgramIsUnavailable(t *testing.T) {
	r := newRigged(t)
	pragma(t, r.s.Writer(), "busy_timeout = 0")
	other := side(t, r.path)
	exec(t, other, "BEGIN IMMEDIATE")
	if _, got := r.commit(); got != "unavailable" {
		t.Fatalf("Commit is %s, want unavailable", got)
	}
	exec(t, other, "ROLLBACK")
	r.goesOn(r.run)
}

func TestReaderThatCannotEndIsReplaced(t *testing.T) {
	r := newRigged(t)
	for range 2 * sqlite.DefaultReaders {
		r.rig.OnStatement(func(text string) error {
			if text == "ROLLBACK" {
				return errIO
			}
			return nil
		})
		if _, err := r.s.Load(t.Context(), []store.Key{{Run: r.run.Run.Run}}); err == nil {
			t.Fatal("Load does not tell that its snapshot did not end")
		}
		r.rig.OnStatement(nil)
	}
	w := then(r.run)
	mustCommit(t, r.s, batch(r.lease, w))
	for range 2 * sqlite.DefaultReaders {
		if got := version(t, r.s, w.Run.Run); got != 2 {
			t.Fatalf("version %d, want 2: an old snapshot is being read", got)
		}
	}
}
