package embed_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// What a step costs is counted, since counts do not flicker: a workflow of one
// activity takes two commits and six rows, a chain of a thousand 1,001 commits.
func TestAStepCostsOneCommit(t *testing.T) {
	for _, c := range []struct {
		steps         int
		commits, rows int64
	}{{1, 2, 6}, {1000, 1001, 4002}} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New(2)
			s := &shop{effects: map[string]string{}}
			register := func(w *worker.Worker) {
				worker.Workflow(w, chain)
				worker.Activity(w, echo)
			}
			liveWith(t, st, s, register, func(ctx context.Context, cl *client.Client) {
				before := st.Stats()
				if _, err := client.Execute(ctx, cl, chain, c.steps); err != nil {
					t.Fatal(err)
				}
				after := st.Stats()
				commits, rows := after.Commits-before.Commits, after.Rows-before.Rows
				if commits != c.commits || rows != c.rows {
					t.Errorf("%d steps took %d commits and %d rows, want %d and %d", c.steps, commits, rows, c.commits, c.rows)
				}
			})
		})
	}
}
