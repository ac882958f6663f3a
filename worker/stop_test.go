package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/workflow"
)

// stops begins a Stop that may take d, and returns where its error comes.
func (l *lab) stops(d time.Duration) <-chan error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), d)
	l.t.Cleanup(cancel)
	go func() { ended <- l.w.Stop(ctx) }()
	synctest.Wait()
	return ended
}

// acks plays an engine to which everything is durable at once, until the stream
// ends, and returns what came.
func (l *lab) acks(p *pipe) *pb.WorkerUp {
	all := &pb.WorkerUp{}
	for {
		select {
		case up := <-p.up:
			all.Done = append(all.Done, up.Done...)
			all.Draining = all.Draining || up.Draining
			p.down <- &pb.WorkerDown{Durable: up.Seq}
		case <-p.broken:
			return all
		}
	}
}

func TestStopHandsResultsOverAlsoWhenTheStreamBreaksMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Wait")}})
		ended := l.stops(time.Hour)
		l.stream().snap()
		close(s.gate)
		l.reconnects()
		up := l.acks(l.stream())
		if len(up.Done) != 1 || up.Done[0].Outcome != pb.Outcome_OUTCOME_COMPLETED || !up.Draining {
			t.Errorf("the next stream carried %v, draining %v", up.Done, up.Draining)
		}
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > 0 {
			t.Errorf("stop: %v, %v after all was durable", err, time.Since(began))
		}
	})
}

func TestStopTakesBackTasksThatWereOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		ended := l.stops(time.Hour)
		seq := l.got().Seq
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}}) // sent before the engine heard of the drain
		l.give(&pb.WorkerDown{Durable: seq})
		up := l.got()
		if len(up.Done) != 1 || up.Done[0].Outcome != pb.Outcome_OUTCOME_INTERRUPTED || s.called("echo") != 0 {
			t.Errorf("the task was answered %v and ran %d times", up.Done, s.called("echo"))
		}
		select {
		case err := <-ended:
			t.Fatalf("stop returned before the answer was durable: %v", err)
		default:
		}
		l.give(&pb.WorkerDown{Durable: up.Seq})
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestStopIsBoundedWhateverTheOtherEndDoes(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(l *lab)
		most    time.Duration
	}{
		"an engine that acknowledges nothing": {func(*lab) {}, time.Minute + 2*time.Second},
		"no engine, a result to hand over": {func(l *lab) {
			l.eng.refuse(errors.New("connection refused"))
			l.stream().snap()
		}, time.Minute + 2*time.Second},
		"an engine that is closed for good": {func(l *lab) {
			l.eng.refuse(apierr.New(apierr.Closed, "work", "the engine is closed", ""))
			l.stream().snap()
		}, 3 * time.Second}, // one try to connect again
		"an engine that reads nothing": {func(l *lab) { l.stream().full() }, time.Minute + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, Options{}, register(newShop()))
				l.got()
				l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}})
				c.prepare(l)
				began := time.Now()
				if err := <-l.stops(time.Minute); err != nil {
					t.Errorf("stop: %v", err)
				}
				if d := time.Since(began); d > c.most {
					t.Errorf("stop took %v, want at most %v", d, c.most)
				}
			})
		})
	}
}

func TestStopNamesTheWorkflowWhoseFoldDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := newLab(t, Options{}, func(w *Worker) {
			Workflow(w, func(workflow.Context, string) (string, error) { <-gate; return "", nil }, Name("blocks"))
		})
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "blocks")}})
		began := time.Now()
		err := <-l.stops(time.Second)
		if err == nil || !strings.Contains(err.Error(), "workflow w") {
			t.Errorf("stop: %v, want the workflow named", err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("stop took %v", d)
		}
		close(gate)
	})
}

func TestEveryStopWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Wait")}})
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := l.w.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Errorf("stop: %v", err)
				}
				if l.w.running != 0 {
					t.Error("stop returned while an activity ran")
				}
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errBroken)
		if err := l.w.Stop(gone); !errors.Is(err, errBroken) {
			t.Errorf("a stop whose context had ended: %v", err)
		}
		close(s.gate)
		l.acks(l.stream())
		all.Wait()
	})
}

func TestStopBeforeStartAndAHundredTimesAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := Options{Build: "b", Logger: slog.New(slog.DiscardHandler)}
		w := New(&engineEnd{}, quiet)
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop before the start: %v", err)
		}
		if err := w.Start(t.Context()); err == nil {
			t.Error("a worker started after its stop")
		}
		down := &engineEnd{}
		down.refuse(errors.New("connection refused"))
		for i := range 100 {
			w := New([]Conn{&engineEnd{}, down}[i%2], quiet)
			register(newShop())(w)
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i%4 < 2 {
				synctest.Wait() // else it is stopped while it starts
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := w.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
			cancel()
		}
		// What is left running would keep synctest from returning.
	})
}

func TestRunEndsWithItsContextWithinItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		eng := &engineEnd{}
		w := New(eng, Options{Build: "b", Grace: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		register(s)(w)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		l := &lab{t: t, w: w, eng: eng}
		synctest.Wait()
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#1", "shop.Wait")}})
		cancel()
		began := time.Now()
		go l.acks(l.stream())
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if d := time.Since(began).Round(time.Millisecond); d != time.Minute {
			t.Errorf("it ended %v after its context; the activity has a minute and heeds its context", d)
		}
	})
}

func TestADrainByTheEngineIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Drain: true, Tasks: []*pb.Task{taskOf("#1", "shop.Echo")}})
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#2", "shop.Echo")}})
		up := l.got()
		if !up.Draining || s.called("echo") != 1 || len(up.Done) != 2 || up.Done[1].Outcome != pb.Outcome_OUTCOME_INTERRUPTED {
			t.Errorf("draining %v, %d ran, answers %v", up.Draining, s.called("echo"), up.Done)
		}
	})
}

func TestWhyAStreamWasRefusedIsToldAndItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		eng := &engineEnd{}
		eng.refuseHello(apierr.New(apierr.InvalidArgument, "connect", "the worker speaks protocol 1", ""))
		w := New(eng, Options{Build: "b", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		register(newShop())(w)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		eng.mu.Lock()
		tries := len(eng.streams)
		eng.mu.Unlock()
		if tries < 20 || tries > 500 {
			t.Errorf("%d tries in a minute", tries)
		}
		if err := w.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
		if !strings.Contains(log.String(), "the worker speaks protocol 1") {
			t.Errorf("the log does not say why:\n%.500s", log.String())
		}
	})
}
