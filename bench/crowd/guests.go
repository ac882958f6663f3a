package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/engined/engined/internal/dial"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/worker"
)

// guests come one after the other. A visit lasts until it returns, ctx ends when
// the probe has seen enough; what it returns is printed beside its figures.
var guests = []struct {
	name  string
	visit func(context.Context, *watched, *client.Client) (string, error)
}{
	{"nobody", nobody},
	{"ten results of 2 MiB at once", tenLarge},
	{"1,000 idle workers", idleWorkers},
	{"a worker that reads nothing", readsNothing},
	{"a client of 100,000 histories", histories},
}

func nobody(ctx context.Context, _ *watched, _ *client.Client) (string, error) {
	<-ctx.Done()
	return "", nil
}

func tenLarge(ctx context.Context, _ *watched, c *client.Client) (string, error) {
	ctx = context.WithoutCancel(ctx)
	const size = 2<<20 - 100
	var all sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		all.Go(func() {
			out, err := client.Execute(ctx, c, Blow, size)
			if err == nil && len(out) != size {
				err = fmt.Errorf("%d bytes came back", len(out))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return "", errors.Join(errs...)
}

func idleWorkers(ctx context.Context, e *watched, _ *client.Client) (string, error) {
	const n = 1000
	quiet := slog.New(slog.DiscardHandler)
	workers := make([]*worker.Worker, n)
	for i := range workers {
		w, err := worker.Dial(e.Address, worker.Options{Queue: "idle", Logger: quiet})
		if err != nil {
			return "", err
		}
		worker.Workflow(w, Echo)
		worker.Activity(w, Say)
		if err := w.Start(ctx); err != nil {
			return "", err
		}
		workers[i] = w
	}
	<-ctx.Done()
	var all sync.WaitGroup
	errs := make([]error, n)
	for i, w := range workers {
		all.Go(func() { errs[i] = w.Stop(context.WithoutCancel(ctx)) })
	}
	all.Wait()
	return "", errors.Join(errs...)
}

// readsNothing says hello, sends pings, and never reads.
func readsNothing(ctx context.Context, e *watched, c *client.Client) (string, error) {
	ctx = context.WithoutCancel(ctx)
	conn, err := dial.New(e.Address, dial.Options{})
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	admin, err := dial.New(e.Address, dial.Options{})
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	stream, err := enginerpc.NewWorkerClient(conn).Work(ctx)
	if err != nil {
		return "", err
	}
	began := time.Now()
	err = stream.Send(&pb.WorkerUp{Seq: 1, Hello: &pb.Hello{
		Protocol: worker.Protocol, Namespace: "default", Queue: "deaf", Worker: "deaf", Build: "deaf",
		WorkflowTypes: []string{"Echo"}, ActivityTypes: []string{"Say"}, Slots: 1000,
	}})
	if err != nil {
		return "", err
	}
	large := strings.Repeat("x", 64<<10)
	for i := range 1000 {
		id := fmt.Sprintf("deaf-%d", i)
		if _, err := client.Start(ctx, c, Echo, large, client.ID(id), client.Queue("deaf")); err != nil {
			return "", err
		}
		if i%50 == 0 {
			_ = stream.Send(&pb.WorkerUp{})
		}
	}
	pings := time.NewTicker(time.Second)
	defer pings.Stop()
	for range pings.C {
		// The stream ends on the engine's side: what it says last is not read either.
		_ = stream.Send(&pb.WorkerUp{})
		res, err := enginerpc.NewAdminClient(admin).ListWorkers(ctx, &pb.ListWorkersRequest{Namespace: "default"})
		if err != nil {
			return "", err
		}
		here := slices.ContainsFunc(res.Workers, func(w *pb.WorkerInfo) bool { return w.Worker == "deaf" })
		switch d := time.Since(began).Round(time.Second); {
		case !here:
			return fmt.Sprintf("its stream was ended after %v", d), nil
		case d > time.Minute:
			return "", errors.New("the engine has kept it for a minute")
		}
	}
	return "", nil
}

func histories(ctx context.Context, _ *watched, c *client.Client) (string, error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := client.Execute(ctx, c, Many, 100, client.ID("many")); err != nil {
		return "", err
	}
	const total, at = 100_000, 500
	began := time.Now()
	var asked, events atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for asked.Add(1) <= total && failed.Load() == nil {
				for _, err := range client.Get[int](c, "many", "").History(ctx) {
					if err != nil {
						failed.Store(&err)
						return
					}
					events.Add(1)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return "", *err
	}
	return fmt.Sprintf("%d events in %v, %d at once", events.Load(), time.Since(began).Round(time.Second), at), nil
}
