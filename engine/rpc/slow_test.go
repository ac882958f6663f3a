package rpc_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// trickle passes connections on, so many bytes a second each way.
func trickle(t *testing.T, to string, rate int) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go drip(in, out, rate)
			go drip(out, in, rate)
		}
	}()
	return lis.Addr().String()
}

func drip(to, from net.Conn, rate int) {
	defer to.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := io.CopyN(to, from, int64(rate/20)); err != nil {
			return
		}
	}
}

func blow(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }

func blows(ctx workflow.Context, n int) (int, error) {
	s, err := workflow.Do(ctx, blow, n)
	return len(s), err
}

// A result that takes longer to arrive than silence may last is no silence, and
// neither is the history that comes back.
func TestASlowLinkIsNotASilentWorker(t *testing.T) {
	addr := serve(t)
	w, err := worker.Dial(trickle(t, addr, 450<<10), worker.Options{Build: "one", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	worker.Workflow(w, blows)
	worker.Activity(w, blow)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.WithoutCancel(t.Context())) })
	c, err := client.Dial(addr, client.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const size = 2<<20 - 100
	run, err := client.Start(ctx, c, blows, size)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := run.Result(ctx); err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for e, err := range run.History(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if tally := e.GetActivityCompleted().GetTally(); tally.GetAttempts() > 1 || tally.GetDeliveries() > 1 {
			t.Errorf("%v", tally)
		}
	}
}
