package rpc

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/engined/engined/proto/enginepb"
)

func payload(n int) *pb.Payload {
	return &pb.Payload{Encoding: "json", Data: bytes.Repeat([]byte("1"), n)}
}

func event(id int64, bytes int) *pb.Event {
	return &pb.Event{Id: id, Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: "#1", Result: payload(bytes)}}}
}

// join puts parts together as a worker does.
func join(parts []*pb.WorkerDown) *pb.WorkerDown {
	all := &pb.WorkerDown{}
	more := false
	for _, p := range parts {
		p = proto.CloneOf(p)
		for _, a := range p.Assign {
			if more {
				last := all.Assign[len(all.Assign)-1]
				last.History = append(last.History, a.History...)
			} else {
				all.Assign = append(all.Assign, a)
			}
			more, a.More = a.More, false
		}
		p.Assign = nil
		proto.Merge(all, p)
	}
	return all
}

func TestPartsTogetherAreTheMessage(t *testing.T) {
	const max = 1000
	d := &pb.WorkerDown{Durable: 7, Drain: true, Welcome: &pb.Welcome{Engine: "e"}}
	for i := range 30 {
		a := &pb.Assign{Run: int64(i), Stamp: &pb.Stamp{Incarnation: 1, Epoch: int64(i)}, Processed: 3}
		for id := range i {
			a.History = append(a.History, event(int64(id+1), 10*i+id))
		}
		d.Assign = append(d.Assign, a)
		d.Inputs = append(d.Inputs, &pb.Input{Run: int64(i), Event: event(1, i*i)})
		d.Drops = append(d.Drops, &pb.Drop{Run: int64(i)})
		d.Tasks = append(d.Tasks, &pb.Task{Type: fmt.Sprint(i), Input: payload(100 * i)})
		d.Cancels = append(d.Cancels, &pb.CancelTask{Cause: fmt.Sprint(i)})
	}
	parts := split(d, max)
	if len(parts) < 10 {
		t.Fatalf("%d parts", len(parts))
	}
	if !proto.Equal(join(parts), d) {
		t.Error("the parts together are not the message")
	}
	for i, p := range parts {
		items := len(p.Assign) + len(p.Inputs) + len(p.Drops) + len(p.Tasks) + len(p.Cancels)
		if n := proto.Size(p); n > max+100 && items > 1 {
			t.Errorf("part %d has %d bytes and %d items", i, n, items)
		}
		if last := i == len(parts)-1; (p.Durable != 0) != last || p.Drain != last || (p.Welcome != nil) != (i == 0) {
			t.Errorf("part %d of %d: durable %d, drain %v, welcome %v", i, len(parts), p.Durable, p.Drain, p.Welcome)
		}
	}
	if one := split(&pb.WorkerDown{Durable: 1}, max); len(one) != 1 {
		t.Errorf("a small message became %d parts", len(one))
	}
}

func TestOneItemIsNeverCut(t *testing.T) {
	d := &pb.WorkerDown{Tasks: []*pb.Task{{Input: payload(5000)}, {Input: payload(5000)}}, Assign: []*pb.Assign{{
		Run: 1, History: []*pb.Event{event(1, 5000), event(2, 5000), event(3, 1)},
	}}}
	parts := split(d, 1000)
	if !proto.Equal(join(parts), d) || len(parts) != 5 {
		t.Errorf("%d parts", len(parts))
	}
}
