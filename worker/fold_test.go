package worker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/replay"
	pb "github.com/engined/engined/proto/enginepb"
)

// parts cuts an assignment into messages of one event each.
func parts(a *pb.Assign) (all []*pb.Assign) {
	for i, e := range a.History {
		p := &pb.Assign{Run: a.Run, Stamp: a.Stamp, History: []*pb.Event{e}, More: true}
		if i == len(a.History)-1 {
			p.More, p.Processed, p.Folded = false, a.Processed, a.Folded
		}
		all = append(all, p)
	}
	return all
}

// longer is an assignment of an echo that has been scheduled, with its result
// still to be folded.
func longer(epoch int64) *pb.Assign {
	a := assign(epoch, "echoes")
	a.History = append(a.History,
		&pb.Event{Id: 2, Time: 1, Cause: 1, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{Op: "#1", Type: "shop.Echo"}}},
		echoed(3),
	)
	a.Processed, a.Folded = 1, 1
	return a
}

func echoed(id int64) *pb.Event {
	return &pb.Event{Id: id, Time: 2, Body: &pb.Event_ActivityCompleted{
		ActivityCompleted: &pb.ActivityCompleted{Op: "#1", Result: text("in")},
	}}
}

func TestALongHistoryComesInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.got()
		ps := parts(longer(1))
		kept := proto.CloneOf(ps[0])
		for _, p := range ps[:2] {
			l.give(&pb.WorkerDown{Assign: []*pb.Assign{p}})
			if up := l.got(); len(up.Decided)+len(up.Faults) != 0 {
				t.Fatalf("it was folded before it was whole: %v", up)
			}
		}
		l.give(&pb.WorkerDown{Assign: ps[2:]})
		d := l.got().Decided
		if len(d) != 1 || d[0].Through != 3 || d[0].Decisions[0].GetWorkflowCompleted() == nil {
			t.Errorf("decided %v, want a completion", d)
		}
		if !proto.Equal(kept, ps[0]) {
			t.Error("a message from the engine was changed")
		}
	})
}

func TestInputsBehindAnAssignmentInPartsWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.got()
		a := longer(1)
		a.History = a.History[:2] // the result comes as an input
		ps := parts(a)
		l.give(&pb.WorkerDown{Assign: ps[:1], Inputs: []*pb.Input{{Run: 1, Stamp: a.Stamp, Event: echoed(3)}}})
		l.give(&pb.WorkerDown{Assign: ps[1:]})
		if d := l.got().Decided; len(d) != 1 || d[0].Through != 3 {
			t.Errorf("decided %v, want all of it", d)
		}
	})
}

func TestAPartUnderAnotherStampReplacesWhatWasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, Options{}, register(newShop()))
		l.got()
		l.give(&pb.WorkerDown{Assign: parts(longer(1))[:2]})
		l.give(&pb.WorkerDown{Assign: parts(longer(2))})
		up := l.got()
		if len(up.Faults) != 0 || len(up.Decided) != 1 || up.Decided[0].Stamp.Epoch != 2 || up.Decided[0].Through != 3 {
			t.Errorf("decided %v, faults %v", up.Decided, up.Faults)
		}
		// A drop reaches a copy whose history is still on its way.
		l.give(&pb.WorkerDown{Assign: parts(longer(3))[:1]})
		l.give(&pb.WorkerDown{Drops: []*pb.Drop{{Run: 1, Stamp: longer(3).Stamp}}})
		if n := len(l.w.copies) + len(l.w.session.runs); n != 0 {
			t.Errorf("%d copies are kept of a run that was dropped", n)
		}
	})
}

func TestALongAnswerIsCutBetweenInputs(t *testing.T) {
	big := func(cause int64, size int) *pb.Event {
		return &pb.Event{Cause: cause, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
			Input: &pb.Payload{Data: make([]byte, size)},
		}}}
	}
	w := New(&engineEnd{}, Options{Build: "b"})
	s := newSession(w, &pipe{}, nil)
	r := &run{s: s, no: 1, code: replay.New(replay.Config{}, nil)}
	half := messageBytes / 2
	decisions := []*pb.Event{big(1, half), big(3, half), big(3, half), big(3, half), big(5, 10), big(7, 10)}
	if err := r.answer(decisions, 9); err != nil {
		t.Fatal(err)
	}
	var parts [][2]int64
	for _, it := range s.out.items {
		parts = append(parts, [2]int64{int64(len(it.decided.Decisions)), it.decided.Through})
	}
	if want := [][2]int64{{1, 1}, {3, 3}, {2, 9}}; !slices.Equal(parts, want) {
		t.Errorf("decisions and position of each part are %v, want %v", parts, want)
	}
	var limit *history.LimitError
	if err := r.answer([]*pb.Event{big(1, answerMax/2), big(1, answerMax/2)}, 1); !errors.As(err, &limit) {
		t.Errorf("an answer larger than a message: %v", err)
	}
}
