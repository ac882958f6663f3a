package view

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Timeline draws a history: a row for each activity, timer and undo, time from
// left to right. Its zero value is empty.
type Timeline struct {
	started, last int64
	rows          []*row
	by            map[string]*row
	end           string
}

// row is one operation. A mark stands at a moment, a stretch between two.
type row struct {
	label      string
	from, to   int64
	open, fail bool
	timer      bool
	attempts   []*pb.Attempt
	outcome    string
}

// Add takes the next event.
func (t *Timeline) Add(e *pb.Event) {
	if t.by == nil {
		t.by, t.started = map[string]*row{}, e.Time
	}
	t.last = max(t.last, e.Time)
	op := history.Op(e)
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		t.begin(op, op+" "+b.ActivityScheduled.Type, e.Time)
		if u := b.ActivityScheduled.Undo; u != nil {
			t.by["undo "+op] = &row{label: op + " " + u.Type}
		}
	case *pb.Event_TimerStarted:
		t.begin(op, op+" timer "+span(time.Duration(b.TimerStarted.Duration)), e.Time).timer = true
	case *pb.Event_TimerFired:
		t.finish(op, e.Time, nil, "")
	case *pb.Event_TimerCancelled:
		t.finish(op, e.Time, nil, "cancelled")
	case *pb.Event_ActivityCompleted:
		t.finish(op, e.Time, b.ActivityCompleted.Tally, "")
	case *pb.Event_ActivityFailed:
		t.finish(op, e.Time, b.ActivityFailed.Tally, "failed"+failure(b.ActivityFailed.Failure)).bad()
	case *pb.Event_ActivityTimedOut:
		t.finish(op, e.Time, b.ActivityTimedOut.Tally, "timed out").bad()
	case *pb.Event_ActivityCancelled:
		t.finish(op, e.Time, b.ActivityCancelled.Tally, "cancelled")
	case *pb.Event_UndoCompleted:
		t.undo(op, e.Time, b.UndoCompleted.Tally, "undone")
	case *pb.Event_UndoFailed:
		t.undo(op, e.Time, b.UndoFailed.Tally, "undo failed"+failure(b.UndoFailed.Failure)).bad()
	default:
		if history.Closes(e) {
			t.end = words(history.ClosingStatus(e))
		}
	}
}

func (t *Timeline) begin(op, label string, at int64) *row {
	r := &row{label: label, from: at, open: true}
	t.by[op] = r
	t.rows = append(t.rows, r)
	return r
}

func (t *Timeline) finish(op string, at int64, tally *pb.Tally, outcome string) *row {
	r := t.by[op]
	if r == nil {
		return &row{} // its beginning is not in what was given
	}
	r.to, r.open, r.outcome, r.attempts = at, false, outcome, tally.GetLog()
	return r
}

// undo is a row of its own, from the start of its first attempt.
func (t *Timeline) undo(op string, at int64, tally *pb.Tally, outcome string) *row {
	r := t.by["undo "+op]
	if r == nil {
		return &row{}
	}
	r.from = at
	if log := tally.GetLog(); len(log) > 0 {
		r.from = log[0].Started
	}
	if r.to == 0 {
		t.rows = append(t.rows, r)
	}
	r.to, r.outcome, r.attempts = at, outcome, tally.GetLog()
	return r
}

func (r *row) bad() { r.fail = true }

// Draw writes the picture, so many characters wide; at least 60.
func (t *Timeline) Draw(w io.Writer, width int) error {
	p := printer{w: w}
	if t.by == nil {
		p.line("no events")
		return p.err
	}
	label := 0
	for _, r := range t.rows {
		label = max(label, utf8.RuneCountInString(cut(Clean(r.label), maxLabel)))
	}
	s := scale{from: t.started, to: max(t.last, t.started+1), width: max(width, 60) - label - 2 - outcomeWidth}
	s.width = max(s.width, 20)
	ruler := "0" + strings.Repeat(" ", max(s.width-1-len(span(time.Duration(s.to-s.from))), 1)) + span(time.Duration(s.to-s.from))
	p.line("%-*s  %s", label, "", ruler)
	for _, r := range t.rows {
		name := cut(Clean(r.label), maxLabel)
		pad := strings.Repeat(" ", label-utf8.RuneCountInString(name))
		p.line("%s", strings.TrimRight(name+pad+"  "+s.bar(r, t.last)+"  "+cut(Clean(r.outcome), outcomeWidth), " "))
	}
	if t.end != "" {
		p.line("%s after %s", t.end, span(time.Duration(t.last-t.started)))
	}
	p.line("= running   . waiting, between attempts   ~ timer   x an attempt failed   > not ended")
	return p.err
}

const (
	maxLabel     = 30
	outcomeWidth = 24
)

// scale turns times into columns.
type scale struct {
	from, to int64
	width    int
}

func (s scale) column(at int64) int {
	at = min(max(at, s.from), s.to)
	return int(float64(at-s.from) / float64(s.to-s.from) * float64(s.width-1))
}

func (s scale) bar(r *row, last int64) string {
	cells := []rune(strings.Repeat(" ", s.width))
	fill := func(from, to int64, c rune) {
		for i := s.column(from); i <= s.column(to); i++ {
			cells[i] = c
		}
	}
	end := r.to
	if r.open {
		end = last
	}
	switch {
	case r.timer:
		fill(r.from, end, '~')
	case len(r.attempts) == 0 && !r.open:
		fill(r.from, end, '=')
	default:
		fill(r.from, end, '.')
	}
	for _, a := range r.attempts {
		fill(a.Started, max(a.Ended, a.Started), '=')
	}
	for _, a := range r.attempts {
		if a.Outcome != pb.Outcome_OUTCOME_COMPLETED {
			cells[s.column(a.Ended)] = 'x'
		}
	}
	if r.fail {
		cells[s.column(end)] = 'x'
	}
	if r.open {
		cells[s.column(end)] = '>'
	}
	return string(cells)
}
