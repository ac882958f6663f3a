package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is now:\n%s\nand was:\n%s", name, got, want)
	}
}

var begin = time.Date(2026, 12, 1, 9, 0, 0, 123456789, time.UTC).UnixNano()

func at(d time.Duration) int64 { return begin + int64(d) }

func text1(s string) *pb.Payload { return &pb.Payload{Encoding: "json", Data: []byte(s)} }

// tried is the attempts that began at a time, each of 300 ms, a second apart.
func tried(from time.Duration, outcomes ...pb.Outcome) *pb.Tally {
	t := &pb.Tally{Attempts: int32(len(outcomes)), Deliveries: int32(len(outcomes))}
	for i, o := range outcomes {
		begun := from + time.Duration(i)*time.Second
		a := &pb.Attempt{
			Attempt: int32(i + 1), Delivery: int32(i + 1), Worker: "W1ABCDEFGHIJK", Outcome: o,
			Started: at(begun), Ended: at(begun + 300*time.Millisecond),
		}
		if o != pb.Outcome_OUTCOME_COMPLETED {
			a.Failure = &pb.Failure{Message: "the card service is away\x1b[31m"}
		}
		t.Log = append(t.Log, a)
	}
	return t
}

// story is a saga that fails and is undone, with user data that means harm.
func story() []*pb.Event {
	failed, done, final := pb.Outcome_OUTCOME_FAILED, pb.Outcome_OUTCOME_COMPLETED, pb.Outcome_OUTCOME_FAILED_FINAL
	when := map[int]time.Duration{2: 5 * time.Millisecond, 3: 2305 * time.Millisecond, 4: 2306 * time.Millisecond, 5: 4306 * time.Millisecond, 6: 4307 * time.Millisecond,
		7: 4607 * time.Millisecond, 8: 4608 * time.Millisecond, 9: 4608 * time.Millisecond, 10: 5908 * time.Millisecond, 11: 5908 * time.Millisecond}
	events := []*pb.Event{
		{Body: &pb.Event_WorkflowStarted{WorkflowStarted: &pb.WorkflowStarted{
			Namespace: "default", WorkflowId: "order-1\x1b]0;owned\a", RunId: "r1", Type: "PlaceOrder", Queue: "default",
			Input: text1(`{"amount": 9007199254740993, "note": "<b>\u202e"}`), Identity: "web-1",
		}}},
		{Cause: 1, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{
			Op: "#1", Type: "Shop.Charge", Input: text1(`"order-1"`), Undo: &pb.Undo{Type: "Shop.Refund"}, Source: "shop.go:12",
			Retry: &pb.RetryPolicy{Attempts: 5, Base: int64(time.Second)}, Timeouts: &pb.Timeouts{StartToClose: int64(10 * time.Second)},
		}}},
		{Body: &pb.Event_ActivityCompleted{ActivityCompleted: &pb.ActivityCompleted{Op: "#1", Result: text1(`{"id":"p1"}`), Tally: tried(when[2], failed, failed, done)}}},
		{Cause: 3, Body: &pb.Event_TimerStarted{TimerStarted: &pb.TimerStarted{Op: "#2", Duration: int64(2 * time.Second)}}},
		{Body: &pb.Event_TimerFired{TimerFired: &pb.TimerFired{Op: "#2"}}},
		{Cause: 5, Body: &pb.Event_ActivityScheduled{ActivityScheduled: &pb.ActivityScheduled{Op: "#3", Type: "Shop.Ship", Input: &pb.Payload{Encoding: "proto", Type: "shop.Parcel", Data: []byte{1, 2, 3}}}}},
		{Body: &pb.Event_ActivityFailed{ActivityFailed: &pb.ActivityFailed{Op: "#3", Failure: &pb.Failure{Outcome: final, Final: true, Message: "no such address"}, Tally: tried(when[6], final)}}},
		{Cause: 7, Body: &pb.Event_WorkflowFailed{WorkflowFailed: &pb.WorkflowFailed{Failure: &pb.Failure{Message: "activity Shop.Ship failed", Causes: []*pb.Failure{{Message: "no such address"}}}}}},
		{Body: &pb.Event_CompensationStarted{CompensationStarted: &pb.CompensationStarted{Ops: []string{"#1"}}}},
		{Body: &pb.Event_UndoCompleted{UndoCompleted: &pb.UndoCompleted{Op: "#1", Outcome: pb.EntryOutcome_ENTRY_OUTCOME_DONE, Road: "default", Tally: tried(when[9], failed, done)}}},
		{Body: &pb.Event_CompensationEnded{CompensationEnded: &pb.CompensationEnded{Undone: 1}}},
	}
	for i, e := range events {
		e.Id, e.Time = int64(i+1), at(when[i+1])
	}
	return events
}

func TestAHistoryForPeopleAndForPrograms(t *testing.T) {
	var lines, docs, picture bytes.Buffer
	h, line := NewHistory(&lines, Names{"W1ABCDEFGHIJK": "shop-1"}), Timeline{}
	for _, e := range story() {
		if err := h.Write(e); err != nil {
			t.Fatal(err)
		}
		line.Add(e)
		doc := JSON(e)
		if !json.Valid(doc) {
			t.Errorf("no JSON: %s", doc)
		}
		docs.Write(append(doc, '\n'))
	}
	if err := line.Draw(&picture, 100); err != nil {
		t.Fatal(err)
	}
	golden(t, "history.txt", lines.Bytes())
	golden(t, "history.jsonl", docs.Bytes())
	golden(t, "timeline.txt", picture.Bytes())
	for _, out := range []string{lines.String(), picture.String(), docs.String()} {
		if strings.ContainsAny(out, "\x1b\a\u202e") {
			t.Errorf("what a user wrote reaches the terminal: %q", out)
		}
	}
	if !strings.Contains(docs.String(), "9007199254740993") {
		t.Error("an integer has lost digits")
	}
}

func describe(t *testing.T, d *Description) string {
	t.Helper()
	var b strings.Builder
	if err := d.Describe(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestADescription(t *testing.T) {
	d := &pb.DescribeResponse{
		Info: &pb.RunInfo{
			WorkflowId: "order-1", RunId: "r1", Type: "PlaceOrder", Queue: "default", Status: pb.Status_STATUS_RUNNING, Started: begin, Events: 12, Run: 7,
			Hold: &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_STUCK, Since: at(time.Minute), Reason: "event 3 differs:\nthe history has Shop.Charge\nthe code asked for Shop.Pay", Builds: []string{"exe-1", "exe-2"}},
		},
		CancelRequested: true, Worker: "w1", Unfolded: 2, HistoryBytes: 4000,
		Waiting: []*pb.Waiting{
			{Op: "#1", Kind: "ledger", Type: "Shop.Refund", State: "armed", Outcome: pb.EntryOutcome_ENTRY_OUTCOME_UNKNOWN},
			{Op: "#3", Kind: "timer", State: "running", Until: at(49 * time.Hour), Ends: "the timer"},
			{Op: "#4", Kind: "activity", Type: "Shop.Mail", State: "waiting for a slot", Attempt: 2, Failure: &pb.Failure{Message: "no route"}},
			{Op: "#2", Kind: "activity", Type: "Shop.Ship", Queue: "default", State: "backoff", Since: at(time.Second), Until: at(3 * time.Minute), Attempt: 3,
				Limit: pb.Limit_LIMIT_START_TO_CLOSE, Ends: "the next attempt (3 of 20)", Attempts: tried(time.Second, pb.Outcome_OUTCOME_LOST, pb.Outcome_OUTCOME_FAILED).Log},
		},
	}
	golden(t, "describe.txt", []byte(describe(t, &Description{DescribeResponse: d, Now: at(2 * time.Minute)})))
	golden(t, "describe.json", append(JSON(d), '\n'))

	d.Info.Hold, d.Info.Status, d.Info.Closed, d.Waiting = nil, pb.Status_STATUS_FAILED, at(time.Hour), nil
	res := &pb.Result{Status: d.Info.Status, Failure: &pb.Failure{
		Type: "engined.ActivityError", Message: "activity Shop.Ship failed:\nno such address", Details: text1(`{"Op":"#2"}`),
		Causes: []*pb.Failure{{Type: "shop.NoAddress", Message: "no such address", Details: text1(`{"zip":"1"}`)}},
	}}
	golden(t, "describe_closed.txt", []byte(describe(t, &Description{DescribeResponse: d, Result: res, Now: at(60 * time.Hour)})))
}

func TestADescriptionSaysInASentenceWhatTheRunWaitsFor(t *testing.T) {
	soon := at(10 * time.Second)
	charge := func(state string, l pb.Limit) *pb.Waiting {
		return &pb.Waiting{Op: "#1", Kind: "activity", Type: "Shop.Charge", State: state, Attempt: 2, Until: soon, Limit: l}
	}
	for want, d := range map[string]*pb.DescribeResponse{
		"waits for timer #1, due in 10s":                                                           {Waiting: []*pb.Waiting{{Op: "#1", Kind: "timer", State: "running", Until: soon}}},
		"waits for activity #1 Shop.Charge: backoff, attempt 2, due in 10s":                        {Waiting: []*pb.Waiting{charge("backoff", 0)}},
		"waits for activity #1 Shop.Charge: started, attempt 2; its heartbeat limit passes in 10s": {Waiting: []*pb.Waiting{charge("started", pb.Limit_LIMIT_HEARTBEAT)}},
		"waits for activity #1 Shop.Charge: started, attempt 2, until 2026-12-01 09:00:10.123 UTC": {Waiting: []*pb.Waiting{charge("started", 0)}},
		"waits for its code to end after the cancel; the engine ends it in 10s":                    {Waiting: []*pb.Waiting{{Kind: "grace", Until: soon}}},
		"waits for 2 activities, 1 timer; 1 of these failed before":                                {Waiting: []*pb.Waiting{charge("started", 0), {Kind: "timer"}, {Kind: "activity", Attempt: 3, Failure: &pb.Failure{}}}},
		"waits for a worker":                                                    {},
		"waits for its own code, on worker w1":                                  {Worker: "w1"},
		"is kept from all workers; terminate ends it":                           {Info: &pb.RunInfo{Hold: &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_QUARANTINED}}},
		"is held; it does not go on by itself":                                  {Info: &pb.RunInfo{Hold: &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_PAUSED}}},
		"waits for a worker on queue q that knows T and can go on with the run": {Info: &pb.RunInfo{Queue: "q", Type: "T", Hold: &pb.Hold{Kind: pb.HoldKind_HOLD_KIND_NO_WORKER}}},
		"2 steps still to be undone":                                            {Info: &pb.RunInfo{UndoState: pb.UndoState_UNDO_STATE_COMPENSATING}, Waiting: []*pb.Waiting{{Kind: "undo"}, {Kind: "undo"}}},
		"":                                                                      {Info: &pb.RunInfo{Closed: 1}},
	} {
		if d.Info == nil {
			d.Info = &pb.RunInfo{}
		}
		if got := (&Description{DescribeResponse: d, Now: begin}).Summary(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestALongDescriptionShowsFirstWhatFails(t *testing.T) {
	d := &pb.DescribeResponse{Info: &pb.RunInfo{}}
	for i := range 2000 {
		op := fmt.Sprintf("#%d", i)
		d.Waiting = append(d.Waiting, &pb.Waiting{Op: op, Kind: "activity", Type: "T", State: "started"}, &pb.Waiting{Op: op, Kind: "ledger", Type: "T"})
	}
	d.Waiting[3998].State = "no worker"
	s := describe(t, &Description{DescribeResponse: d})
	if lines := strings.Count(s, "\n"); lines > 120 || strings.Count(s, "… and 1,950 more: -o json has all") != 2 {
		t.Errorf("it has %d lines:\n%s", lines, s)
	}
	if i := strings.Index(s, "#1999  activity  T  no worker"); i < 0 || i > strings.Index(s, "#0  activity") {
		t.Errorf("the step without a worker does not come first:\n%s", s[:min(len(s), 500)])
	}
}

func TestTablesPutFirstWhatSomebodyShouldLookAt(t *testing.T) {
	var runs []*pb.RunInfo
	add := func(id string, s pb.Status, u pb.UndoState, h pb.HoldKind) {
		r := &pb.RunInfo{WorkflowId: id, RunId: "r-" + id, Type: "T", Status: s, UndoState: u, Started: at(-time.Duration(len(runs)) * time.Hour), Events: 4}
		if h != 0 {
			r.Hold = &pb.Hold{Kind: h}
		}
		if s != pb.Status_STATUS_RUNNING {
			r.Closed = r.Started + int64(time.Minute)
		}
		runs = append(runs, r)
	}
	none := pb.UndoState_UNDO_STATE_NONE
	add("done", pb.Status_STATUS_COMPLETED, none, 0)
	add("runs", pb.Status_STATUS_RUNNING, none, 0)
	add("ended", pb.Status_STATUS_TERMINATED, pb.UndoState_UNDO_STATE_COMPENSATING, 0)
	add("failed", pb.Status_STATUS_FAILED, pb.UndoState_UNDO_STATE_COMPENSATED, 0)
	add("stuck", pb.Status_STATUS_RUNNING, none, pb.HoldKind_HOLD_KIND_STUCK)
	add("worst", pb.Status_STATUS_FAILED, pb.UndoState_UNDO_STATE_FAILED, 0)
	Sort(runs)
	var b bytes.Buffer
	if err := Runs(&b, runs, at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	workers := []*pb.WorkerInfo{
		{Identity: "1@a", Queue: "q", Build: "b", Slots: 100, Free: 90, Runs: 3, Since: at(-time.Hour), Heard: at(0), Worker: "W1"},
		{Identity: "2@a", Queue: "q", Build: "b", Slots: 100, Free: 100, Since: at(-time.Hour), Heard: at(0), Draining: true, Slow: 2, Worker: "W2"},
	}
	SortWorkers(workers)
	if err := Workers(&b, workers, at(time.Second)); err != nil {
		t.Fatal(err)
	}
	queues := []*pb.QueueInfo{{Queue: "idle", Workers: 1, Slots: 1, Free: 1}, {Queue: "q", Workers: 2, Slots: 200, Free: 190, Types: []*pb.QueueType{
		{Type: "PlaceOrder", Workflow: true, Workers: 2}, {Type: "Shop.Charge", Workers: 1, Waiting: 12}, {Type: "Shop.Gone", Waiting: 7},
	}}}
	SortQueues(queues)
	if err := Queues(&b, queues); err != nil {
		t.Fatal(err)
	}
	golden(t, "tables.txt", b.Bytes())
}

func TestPayloadsAreCutInTablesAndWholeInJSON(t *testing.T) {
	long := text1(`"` + strings.Repeat("x", 3<<20) + `"`)
	if s := Payload(long, 20); s != `"xxxxxxxxxxxxxxxxxx… (3.0 MiB; -o json has all)` {
		t.Errorf("cut to %q", s)
	}
	if len(PayloadJSON(long)) != 3<<20+2 {
		t.Error("the JSON form is cut")
	}
	for want, p := range map[string]*pb.Payload{
		"null": nil,
		`{"encoding":"proto","type":"a.B","size":2,"base64":"AQI="}`: {Encoding: "proto", Type: "a.B", Data: []byte{1, 2}},
		`{"encoding":"json","size":2,"base64":"e2I="}`:               {Encoding: "json", Data: []byte("{b")},
		`{"a":1.10,"b":[1,2]}`:                                       {Encoding: "json", Data: []byte("{ \"a\": 1.10,\n\"b\":[1, 2] }")},
	} {
		if got := string(PayloadJSON(p)); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
	}
}
