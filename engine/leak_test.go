package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/clock"
)

// A closed run leaves nothing in memory.
func TestClosedRunsLeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: memstore.New(2), Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		startRaw(t, ctx, e, "w1")
		for i := range 50 {
			if _, err := start(ctx, e, fmt.Sprint("run-", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, s := range e.shards {
			s.mu.Lock()
			// The newest run of a shard may leave with the shard's next turn.
			if n := len(s.m.Runs()); n > 1 {
				for _, r := range s.m.Runs() {
					t.Logf("%s closed %v idle %v open %v last %+v", r.Row.WorkflowID, r.Closed(), r.Idle(), s.open[r.Row.Run] != nil, s.last[r.Row.Run] != nil)
				}
				t.Errorf("%v: %d closed runs are in memory, %d writes, %d open", s, n, len(s.last), len(s.open))
			}
			s.mu.Unlock()
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
