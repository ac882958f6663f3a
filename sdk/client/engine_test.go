package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/engine/rpc"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// site is a real engine with a worker, served on one port, which can be
// replaced by the next one on the same rows.
type site struct {
	t     *testing.T
	at    string
	store *memstore.Store
	gate  chan bool // the activity waits for it
	stop  func()
}

func newSite(t *testing.T) *site {
	s := &site{t: t, at: "127.0.0.1:0", store: memstore.New(2), gate: make(chan bool)}
	s.open()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) pass(ctx context.Context, n int) (int, error) {
	select {
	case <-s.gate:
		return n + 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func gated(ctx workflow.Context, n int) (int, error) {
	return workflow.DoNamed[int](ctx, "pass", n)
}

func (s *site) open() {
	quiet := slog.New(slog.DiscardHandler)
	e, err := engine.Open(s.t.Context(), engine.Config{Store: s.store, Logger: quiet, Alone: true})
	if err != nil {
		s.t.Fatal(err)
	}
	w := worker.New(inProcess{e}, worker.Options{Logger: quiet})
	worker.Workflow(w, gated)
	worker.Activity(w, s.pass, worker.Name("pass"))
	if err := w.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.at)
	if err != nil {
		s.t.Fatal(err)
	}
	s.at = l.Addr().String()
	srv := rpc.NewServer(e, rpc.Options{Logger: quiet})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s.stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Second)
		defer cancel()
		srv.Stop(ctx)
		if err := <-served; err != nil {
			s.t.Error(err)
		}
		_ = w.Stop(ctx) // what it runs is given back
		if err := e.Close(context.WithoutCancel(ctx)); err != nil {
			s.t.Error(err)
		}
	}
}

type inProcess struct{ e *engine.Engine }

func (p inProcess) Work(ctx context.Context) (worker.Stream, error) { return p.e.Work(ctx), nil }

func TestARunIsFollowedAndAwaitedOverARestartOfARealEngine(t *testing.T) {
	s := newSite(t)
	ctx := within(t)
	c := dialed(t, s.at)
	run, err := client.Start(ctx, c, gated, 41, client.ID("a"), client.RequestID("once"))
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		got, err := run.Result(ctx)
		if got != 42 {
			t.Errorf("result %d", got)
		}
		result <- err
	}()
	last := int64(0)
	for e, err := range client.Get[int](c, "a", "").Follow(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Id != last+1 {
			t.Errorf("event %d follows event %d", e.Id, last)
		}
		if last = e.Id; e.GetActivityScheduled() != nil {
			s.stop()
			s.store = s.store.Reopen()
			s.open()
			close(s.gate)
		}
	}
	if err := <-result; err != nil || last < 4 {
		t.Errorf("%v after %d events", err, last)
	}
	again, err := client.Start(ctx, c, gated, 41, client.ID("a"), client.RequestID("once"))
	if err != nil || again.RunID != run.RunID {
		t.Errorf("a repeat of the start answers with the run %v, %v; want %s", again, err, run.RunID)
	}
	for _, end := range []func(context.Context, string) error{run.Terminate, run.Cancel} {
		if err := end(ctx, "too late"); !client.IsNotRunning(err) || !strings.Contains(err.Error(), "completed before; nothing was done") {
			t.Errorf("to end a closed run: %v", err)
		}
	}
}

func TestATerminatedRunTellsSo(t *testing.T) {
	s := newSite(t)
	ctx := within(t)
	c := dialed(t, s.at)
	run, err := client.Start(ctx, c, gated, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Terminate(ctx, "wrong"); err != nil {
		t.Fatal(err)
	}
	res, err := c.Await(ctx, run.WorkflowID, run.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); !errors.Is(err, client.ErrTerminated) || res.RunId != run.RunID {
		t.Errorf("%v, %v", err, res)
	}
}
