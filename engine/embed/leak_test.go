package embed_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/engined/engined/engine/embed"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// Runs that have closed leave nothing in memory: neither rows, writes, results
// nor coroutines.
func TestClosedRunsLeaveNoMemoryBehind(t *testing.T) {
	const runs, clients, bound = 2000, 8, 4 << 20 // a run that is kept costs 10 KiB
	quiet := slog.New(slog.DiscardHandler)
	eng, err := embed.Open(t.Context(), embed.Options{Path: filepath.Join(t.TempDir(), "x.db"), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	w := eng.Worker(worker.Options{Logger: quiet})
	worker.Workflow(w, echoes)
	worker.Activity(w, echo)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := eng.Client(client.Options{})
	round := func(name string) (heap int64, goroutines int) {
		var wg sync.WaitGroup
		for k := range clients {
			wg.Go(func() {
				for i := range runs / clients {
					if _, err := client.Execute(t.Context(), c, echoes, payload, client.ID(fmt.Sprint(name, k, "-", i))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), runtime.NumGoroutine()
	}
	heap, goroutines := round("first-")
	heap2, goroutines2 := round("second-")
	if grown := heap2 - heap; grown > bound {
		t.Errorf("%d runs left %d KiB behind", runs, grown>>10)
	}
	if goroutines2 > goroutines+10 {
		t.Errorf("%d goroutines, %d after another round", goroutines, goroutines2)
	}
}
