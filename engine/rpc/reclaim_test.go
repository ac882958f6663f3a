package rpc_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// cutter passes connections on, and cuts all that there are.
type cutter struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: lis, to: to}
	go c.accept()
	t.Cleanup(func() { _ = lis.Close(); c.cut() })
	return c
}

func (c *cutter) accept() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, in, out)
		c.mu.Unlock()
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	}
}

func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	n := len(c.conns)
	c.conns = nil
	return n
}

// holder is an activity that lasts until it is let go.
type holder struct{ began, finish chan struct{} }

func (h *holder) Hold(ctx context.Context, in int) (int, error) {
	h.began <- struct{}{}
	select {
	case <-h.finish:
		return in, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

var theHolder *holder

func holds(ctx workflow.Context, in int) (int, error) {
	return workflow.Do(ctx, theHolder.Hold, in, workflow.Retry{Attempts: 1})
}

// A worker whose connection breaks in the middle of an activity comes back and
// goes on with it: one delivery, one attempt, also where there may be only one.
func TestABrokenConnectionCostsNoAttempt(t *testing.T) {
	addr := serve(t)
	between := newCutter(t, addr)
	h := &holder{began: make(chan struct{}, 10), finish: make(chan struct{})}
	w, err := worker.Dial(between.Addr().String(), worker.Options{Build: "one", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, holds)
	w.Activities(h)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(t.Context())) })
	c, err := client.Dial(addr, client.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	run, err := client.Start(t.Context(), c, holds, 7, client.ID("a"))
	if err != nil {
		t.Fatal(err)
	}
	<-h.began
	for range 3 {
		if between.cut() == 0 {
			t.Fatal("there was nothing to cut")
		}
		// It is back when it takes another run.
		other, err := client.Start(t.Context(), c, holds, 1)
		if err != nil {
			t.Fatal(err)
		}
		<-h.began
		defer func() {
			if _, err := other.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}()
	}
	close(h.finish)
	if out, err := run.Result(t.Context()); err != nil || out != 7 {
		t.Errorf("result %d, %v", out, err)
	}
	for e, err := range run.History(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if tally := e.GetActivityCompleted().GetTally(); e.GetActivityCompleted() != nil && (tally.Deliveries != 1 || tally.Attempts != 1) {
			t.Errorf("%v", tally)
		}
	}
}
