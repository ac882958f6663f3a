package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

func TestLogsOfWorkflowCodeWaitUntilTheyAreTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := newLab(t, Options{Logger: log.logger()}, register(newShop()))
		l.got()
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "echoes")}})
		up := l.got()
		l.give(&pb.WorkerDown{Durable: up.Seq - 1})
		if strings.Contains(log.String(), "begins") {
			t.Error("the record was written before what it rests on was durable")
		}
		l.give(&pb.WorkerDown{Durable: up.Seq})
		if !strings.Contains(log.String(), "begins") {
			t.Error("the record was never written")
		}
	})
}

// slowLog blocks until the gate opens, or panics.
type slowLog struct {
	slog.Handler
	gate chan struct{}
}

func (h slowLog) Handle(ctx context.Context, r slog.Record) error {
	if h.gate == nil {
		panic("no log")
	}
	<-h.gate
	return h.Handler.Handle(ctx, r)
}

func (h slowLog) WithAttrs(a []slog.Attr) slog.Handler {
	return slowLog{h.Handler.WithAttrs(a), h.gate}
}

func TestALogThatBlocksOrPanicsCostsOnlyRecords(t *testing.T) {
	for name, gate := range map[string]bool{"blocks": true, "panics": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log buffer
				h := slowLog{Handler: slog.NewTextHandler(&log, nil)}
				if gate {
					h.gate = make(chan struct{})
				}
				l := newLab(t, Options{Logger: slog.New(h)}, register(newShop()))
				l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "echoes")}})
				l.give(&pb.WorkerDown{Durable: l.got().Seq}) // releases a record
				for range logbookMax + 5 {
					l.w.warn(slog.LevelInfo, "many")
				}
				l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}})
				if n := len(l.got().Done); n != 1 {
					t.Errorf("%d tasks were answered", n)
				}
				if gate {
					close(h.gate)
					synctest.Wait()
					if !strings.Contains(log.String(), "begins") || !strings.Contains(log.String(), "5 log records were lost") {
						t.Errorf("the log has %d bytes, without what was logged first or the word of what was lost", len(log.String()))
					}
				}
				go l.acks(l.stream())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := l.w.Stop(ctx); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		})
	}
}
