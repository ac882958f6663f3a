package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/memstore"
	"github.com/engined/engined/internal/clock"
	pb "github.com/engined/engined/proto/enginepb"
)

// A timer that is due beyond the window in memory, and not yet written when the
// next window is read, fires all the same.
func TestATimerThatWasNotWrittenWhenItsWindowWasReadFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(2)
		began := time.Now()
		refused := 0
		st.Hook = func(b *store.Batch) memstore.Verdict {
			// The write with the timer waits until the next window was read.
			if b.Writes[0].Run.NextEvent > 2 && time.Since(began) < scanWindow-scanAhead+time.Minute {
				refused++
				return memstore.Unavailable(errors.New("disk full"))
			}
			return memstore.Done()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		e, err := Open(ctx, Config{Store: st, Clock: clock.Runtime(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		w := startRaw(t, ctx, e, "w1")
		w.decide = func(in *pb.Event) []*pb.Event {
			switch in.Body.(type) {
			case *pb.Event_WorkflowStarted:
				return []*pb.Event{{Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{
					Op: "#1", Duration: int64(scanWindow + 10*time.Minute),
				}}}}
			case *pb.Event_TimerFired:
				return []*pb.Event{{Body: &pb.Event_WorkflowCompleted{WorkflowCompleted: &pb.WorkflowCompleted{}}}}
			default:
				return nil
			}
		}
		if _, err := start(ctx, e, "sleeper"); err != nil {
			t.Fatal(err)
		}
		if refused == 0 {
			t.Fatal("void: the timer was written at once")
		}
		if slept := time.Since(began); slept > scanWindow+11*time.Minute {
			t.Errorf("it slept for %v, want 1h10m", slept)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
