package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

func draw(t *testing.T, line *Timeline, width int) string {
	t.Helper()
	var b strings.Builder
	if err := line.Draw(&b, width); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An open run is drawn up to now, with the attempts of what it waits for.
func TestTheTimelineOfAnOpenRunGoesUpToNow(t *testing.T) {
	var line Timeline
	for _, e := range story()[:2] {
		line.Add(e)
	}
	line.Add(&pb.Event{Id: 3, Time: at(time.Second), Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "#2", Duration: int64(time.Hour)}}})
	line.Add(&pb.Event{Id: 4, Time: at(9 * time.Second), Body: &pb.Event_CancelRequested{CancelRequested: &pb.CancelRequested{}}})
	failed := pb.Outcome_OUTCOME_FAILED
	line.GoesOn([]*pb.Waiting{
		{Op: "#1", Kind: "activity", State: "started", Attempt: 3, Since: at(8 * time.Second), Attempts: tried(time.Second, failed, failed).Log},
		{Op: "#2", Kind: "timer", State: "running"},
	}, at(10*time.Second))
	golden(t, "timeline_open.txt", []byte(draw(t, &line, 80)))
}

func TestALongTimelineLeavesOutWhatWentWell(t *testing.T) {
	var line Timeline
	now := begin
	add := func(e *pb.Event) {
		now += int64(time.Millisecond)
		e.Time = now
		line.Add(e)
	}
	for i := range 5000 {
		op := fmt.Sprintf("#%d", i+1)
		add(&pb.Event{Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{Op: op, Type: "T"}}})
		if i == 2500 {
			add(&pb.Event{Body: &pb.Event_ActivityFailed{ActivityFailed: &pb.ActivityFailed{Op: op, Failure: &pb.Failure{Message: "no"}}}})
			continue
		}
		add(&pb.Event{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: op}}})
	}
	s := draw(t, &line, 100)
	for _, want := range []string{"#199 T ", "\n… 2,301 operations; -o jsonl has all\n#2501 T ", "failed: no\n… 2,499 operations; -o jsonl has all\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("it lacks %q:\n%s", want, s)
		}
	}
	if n := strings.Count(s, "\n"); n > maxRows+10 {
		t.Errorf("it has %d lines", n)
	}
}

func TestATimelineWithoutEventsSaysSo(t *testing.T) {
	if s := draw(t, &Timeline{}, 100); s != "no events\n" {
		t.Errorf("it says %q", s)
	}
}
