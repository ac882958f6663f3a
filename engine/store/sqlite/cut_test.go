package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/faultdriver"
	"github.com/engined/engined/engine/store/sqlite/mattn"
)

// script is a life of three runs, from the creation of the file: each step sends
// one COMMIT. It returns at the first error, with the number of steps done.
func script(t *testing.T, path string, rig *faultdriver.Rig) (steps int) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Driver: rig})
	if err != nil {
		return 0
	}
	defer s.Close()
	leases, err := s.Fence(t.Context(), []store.ShardID{0}, 1)
	if err != nil {
		return 1
	}
	steps = 2
	l := leases[0]
	writes := []*store.Write{first(l, 0), first(l, 1), first(l, 2)}
	for range 4 {
		if s.Commit(t.Context(), batch(l, writes...)) != nil {
			return steps
		}
		steps++
		for i, w := range writes {
			writes[i] = then(w)
		}
	}
	return steps
}

func TestCutAtEveryCommitLeavesAllOfABatchOrNothing(t *testing.T) {
	all := script(t, filepath.Join(t.TempDir(), "engine.db"), faultdriver.New(mattn.Driver()))
	if all != 6 {
		t.Fatalf("%d steps without a cut", all)
	}
	for n := 1; n <= all; n++ {
		for name, cut := range map[string]faultdriver.Outcome{"before": faultdriver.CutBefore(), "after": faultdriver.CutAfter()} {
			t.Run(fmt.Sprintf("%s commit %d", name, n), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "engine.db")
				rig := faultdriver.New(mattn.Driver())
				rig.OnCommit(func(i int) faultdriver.Outcome {
					if i == n {
						return cut
					}
					return faultdriver.Pass()
				})
				if got := script(t, path, rig); got != n-1 {
					t.Fatalf("cut at commit %d, but %d steps were told to be done", n, got)
				}
				landed := n - 1
				if name == "after" {
					landed = n
				}
				stands(t, path, landed)
			})
		}
	}
}

// stands opens the file and wants it as the first steps of the script left it.
func stands(t *testing.T, path string, steps int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), config(path))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	l := lease(t, s)
	nextRun := int64(1)
	if steps >= 2 {
		nextRun += store.ReservedRuns
	}
	if l.NextRun != nextRun {
		t.Fatalf("the next run is %d, want %d", l.NextRun, nextRun)
	}
	want := int64(max(steps-2, 0))
	for i := range int64(3) {
		no := store.MakeRunNo(0, 1+i)
		if got := version(t, s, no); got != want {
			t.Fatalf("run %d has version %d, want %d", i, got, want)
		}
		rows, err := s.History(t.Context(), no, 0, 1<<20)
		if err != nil || int64(len(rows)) != want {
			t.Fatalf("run %d has %d event rows, want %d: %v", i, len(rows), want, err)
		}
	}
}
