package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

func TestOnlyWhatWasNeverBegunIsSaidToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		undecodable := taskOf("#3", "shop.Echo")
		undecodable.Input = &pb.Payload{Encoding: "json", Data: []byte("17")}
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{
			taskOf("#1", "shop.Wait"), taskOf("#2", "shop.Missing"), undecodable, taskOf("#4", "shop.Fail"), taskOf("#5", "shop.Panic"),
		}})
		ended := l.stops(time.Second)
		l.give(&pb.WorkerDown{Tasks: []*pb.Task{taskOf("#6", "shop.Echo")}})
		up := l.acks(l.stream())
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
		unbegun := map[string]bool{"#1": false, "#2": true, "#3": true, "#4": false, "#5": false, "#6": true}
		if len(up.Done) != len(unbegun) {
			t.Errorf("%d answers for %d tasks", len(up.Done), len(unbegun))
		}
		for _, d := range up.Done {
			if d.Unbegun != unbegun[d.Delivery.Op] {
				t.Errorf("unbegun is %v in %v", d.Unbegun, d)
			}
			if op := d.Delivery.Op; (op == "#1" || op == "#6") && d.Outcome != pb.Outcome_OUTCOME_INTERRUPTED {
				t.Errorf("the drain answered %v", d)
			}
		}
	})
}

func TestRunsAreFoldedUntilTheStopIsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		l := newLab(t, Options{}, register(s))
		l.got()
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "echoes")}, Tasks: []*pb.Task{taskOf("#9", "shop.Wait")}})
		ended := l.stops(time.Minute)
		up := l.got()
		l.give(&pb.WorkerDown{Durable: up.Seq, Inputs: []*pb.Input{{Run: 1, Stamp: assign(1, "").Stamp, Event: echoed(3)}}})
		if d := l.got().Decided; len(d) != 1 || d[0].Through != 3 {
			t.Errorf("while it drains it decided %v", d)
		}
		p := l.stream()
		if p.closed.Load() {
			t.Error("the stream was closed while an activity ran")
		}
		close(s.gate)
		l.acks(p)
		if err := <-ended; err != nil || !p.closed.Load() {
			t.Errorf("stop: %v; the stream was closed: %v", err, p.closed.Load())
		}
	})
}

func TestWhatBecomesDurableAfterTheLastMessageIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buffer
		l := newLab(t, Options{Logger: log.logger()}, register(newShop()))
		l.got()
		p := l.stream()
		p.lasting = true
		ended := l.stops(time.Minute)
		l.give(&pb.WorkerDown{Assign: []*pb.Assign{assign(1, "echoes")}})
		decided := l.got().Seq
		l.give(&pb.WorkerDown{Durable: decided - 1}) // the word of the drain
		if !p.closed.Load() {
			t.Fatal("the stream was not closed when all was handed over")
		}
		l.give(&pb.WorkerDown{Durable: decided})
		if !strings.Contains(log.String(), "begins") {
			t.Error("what the engine said last was not heard")
		}
		p.snap()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}
