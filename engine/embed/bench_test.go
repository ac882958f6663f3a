package embed_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/engined/engined/engine/embed"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// payload is what every workflow and activity takes and returns.
var payload = strings.Repeat("engined!", 32)

func chain(ctx workflow.Context, n int) (int, error) {
	for range n {
		if _, err := workflow.Do(ctx, echo, payload); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func benchClient(b *testing.B) *client.Client {
	quiet := slog.New(slog.DiscardHandler)
	eng, err := embed.Open(b.Context(), embed.Options{Path: filepath.Join(b.TempDir(), "x.db"), Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	w := eng.Worker(worker.Options{Slots: 1000, Logger: quiet})
	worker.Workflow(w, echoes)
	worker.Workflow(w, chain)
	worker.Activity(w, echo)
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := eng.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return eng.Client(client.Options{})
}

// BenchmarkOneActivity is a workflow of one activity, in a closed loop of C
// clients, each start durable and each result awaited.
func BenchmarkOneActivity(b *testing.B) {
	for _, c := range []int{1, 64, 256} {
		b.Run(fmt.Sprint("C=", c), func(b *testing.B) {
			cl := benchClient(b)
			var n atomic.Int64
			b.SetParallelism(max(1, c/2)) // times GOMAXPROCS
			b.ReportAllocs()
			b.ResetTimer()
			if c == 1 {
				for b.Loop() {
					oneActivity(b, cl, n.Add(1))
				}
			} else {
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						oneActivity(b, cl, n.Add(1))
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "workflows/s")
		})
	}
}

func oneActivity(b *testing.B, cl *client.Client, n int64) {
	if _, err := client.Execute(b.Context(), cl, echoes, payload, client.ID(fmt.Sprint(n))); err != nil {
		b.Error(err)
	}
}

// BenchmarkChain is one workflow of 1,000 activities, one after another.
func BenchmarkChain(b *testing.B) {
	cl := benchClient(b)
	for b.Loop() {
		if _, err := client.Execute(b.Context(), cl, chain, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
