package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/rpc"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// serve boots an engine on a memory store and returns where it listens.
func serve(t *testing.T) string {
	e, err := engine.Open(t.Context(), engine.Config{Store: memstore.New(16), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(e, rpc.Options{Logger: quiet})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return lis.Addr().String()
}

// step takes a while, as work does.
func step(ctx context.Context, in int) (int, error) {
	t := time.NewTimer(time.Duration(5+in%20) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return in + 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func steps(ctx workflow.Context, in int) (int, error) {
	var err error
	for range 4 {
		if in, err = workflow.Do(ctx, step, in); err != nil {
			return 0, err
		}
	}
	return in, nil
}

func startWorker(t *testing.T, addr, build string) *worker.Worker {
	w, err := worker.Dial(addr, worker.Options{Build: build, Slots: 20, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, steps)
	worker.Activity(w, step)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// Three workers are replaced one after the other, twice, while runs go through
// without a pause: no run sees an error, and no attempt is used up.
func TestARollingRestartIsNoticedByNobody(t *testing.T) {
	addr := serve(t)
	c, err := client.Dial(addr, client.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	workers := []*worker.Worker{startWorker(t, addr, "one"), startWorker(t, addr, "one"), startWorker(t, addr, "one")}
	over := make(chan struct{})
	ended := make(chan string)
	var load sync.WaitGroup
	var ids []string
	// more runs must end before the next worker goes.
	more := func(n int) {
		for range n {
			ids = append(ids, <-ended)
		}
	}
	for lane := range 40 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", lane, n)
				out, err := client.Execute(t.Context(), c, steps, n, client.ID(id))
				if err != nil || out != n+4 {
					t.Errorf("run %s: %d, %v", id, out, err)
					return
				}
				ended <- id
			}
		})
	}
	for round := range 2 {
		for i := range workers {
			more(100)
			next := startWorker(t, addr, fmt.Sprint("round ", round))
			stopped := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				stopped <- workers[i].Stop(ctx)
			}()
			for gone := false; !gone; {
				select {
				case err := <-stopped:
					if gone = true; err != nil {
						t.Errorf("stop: %v", err)
					}
				case id := <-ended:
					ids = append(ids, id)
				}
			}
			workers[i] = next
		}
	}
	more(100)
	close(over)
	go func() { load.Wait(); close(ended) }()
	for id := range ended {
		ids = append(ids, id)
	}
	for _, w := range workers {
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	given := 0 // back by a worker that stopped
	for _, id := range ids {
		for e, err := range client.Get[int](c, id, "").History(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			tally := e.GetActivityCompleted().GetTally()
			if tally.GetAttempts() > 1 || e.GetActivityFailed() != nil || e.GetActivityTimedOut() != nil {
				t.Errorf("run %s used an attempt: %v", id, e)
			}
			given += int(max(tally.GetDeliveries()-1, 0))
		}
	}
	t.Logf("%d runs, %d deliveries handed to another worker", len(ids), given)
}
