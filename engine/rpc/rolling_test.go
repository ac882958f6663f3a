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

// load runs steps in lanes, without a pause, until it is told to stop.
type load struct {
	t     *testing.T
	c     *client.Client
	over  chan struct{}
	ended chan string // the id of each run that has ended
	ids   []string
}

func startLoad(t *testing.T, addr string, lanes int) *load {
	c, err := client.Dial(addr, client.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := &load{t: t, c: c, over: make(chan struct{}), ended: make(chan string)}
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() { l.lane(lane) })
	}
	go func() { all.Wait(); close(l.ended) }()
	return l
}

func (l *load) lane(lane int) {
	for n := 0; ; n++ {
		select {
		case <-l.over:
			return
		default:
		}
		id := fmt.Sprintf("%d-%d", lane, n)
		out, err := client.Execute(l.t.Context(), l.c, steps, n, client.ID(id))
		if err != nil || out != n+4 {
			l.t.Errorf("run %s: %d, %v", id, out, err)
			return
		}
		l.ended <- id
	}
}

// more waits until n more runs have ended.
func (l *load) more(n int) {
	for range n {
		l.ids = append(l.ids, <-l.ended)
	}
}

// during goes on while f runs.
func (l *load) during(f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				l.t.Error(err)
			}
			return
		case id := <-l.ended:
			l.ids = append(l.ids, id)
		}
	}
}

func (l *load) stop() {
	close(l.over)
	for id := range l.ended {
		l.ids = append(l.ids, id)
	}
}

// Three workers are replaced one after the other, twice, while runs go through
// without a pause: no run sees an error, and no attempt is used up.
func TestARollingRestartIsNoticedByNobody(t *testing.T) {
	addr := serve(t)
	workers := []*worker.Worker{startWorker(t, addr, "one"), startWorker(t, addr, "one"), startWorker(t, addr, "one")}
	l := startLoad(t, addr, 40)
	stop := func(w *worker.Worker) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return w.Stop(ctx)
	}
	for round := range 2 {
		for i := range workers {
			l.more(100)
			next := startWorker(t, addr, fmt.Sprint("round ", round))
			l.during(func() error { return stop(workers[i]) })
			workers[i] = next
		}
	}
	l.more(100)
	l.stop()
	for _, w := range workers {
		if err := stop(w); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	given := 0 // back by a worker that stopped
	for _, id := range l.ids {
		for e, err := range client.Get[int](l.c, id, "").History(t.Context()) {
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
	t.Logf("%d runs, %d deliveries handed to another worker", len(l.ids), given)
}
