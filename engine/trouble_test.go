package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// What somebody should look at stands in the log, once, and in the figures.
func TestTroubleIsLoggedOnceAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var log bytes.Buffer
		e, err := Open(ctx, Config{Store: memstore.New(1), Clock: clock.Runtime(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		startRawOf(t, ctx, e, "w1", func(in *pb.Event) []*pb.Event {
			if in.GetWorkflowStarted() == nil {
				return nil
			}
			return []*pb.Event{{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{}}}} // no decision at all
		})
		go func() { _, _ = start(ctx, e, "a") }()
		synctest.Wait()
		if s := e.Stats(); s.Held[pb.HoldKind_HOLD_KIND_STUCK] != 1 {
			t.Errorf("held: %v", s.Held)
		}
		if _, err := e.Terminate(ctx, &pb.TerminateRequest{Run: &pb.RunRef{Namespace: "default", WorkflowId: "a"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := e.Stats(); len(s.Held) != 0 {
			t.Errorf("held after the end: %v", s.Held)
		}
		for _, part := range []string{"a run is held", "a worker is here"} {
			if n := strings.Count(log.String(), part); n != 1 {
				t.Errorf("the log says %d times %q:\n%s", n, part, log.String())
			}
		}
		if !strings.Contains(log.String(), "kind=stuck workflow_id=a") {
			t.Errorf("the log does not say which run:\n%s", log.String())
		}
		cancel()
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
