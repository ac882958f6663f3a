package view

import (
	"fmt"
	"io"
	"slices"
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
	// closed is when the outcome was decided, settled when its undos were over.
	closed, settled int64
	end             string
}

// row is one operation.
type row struct {
	label    string
	from, to int64
	// fill is how the time is drawn in which no attempt runs.
	fill       rune
	open, fail bool
	attempts   []*pb.Attempt
	outcome    string
}

// The marks of a row.
const (
	running  = '='
	waiting  = '.'
	timer    = '~'
	failed   = 'x'
	goesOn   = '>'
	occurred = '!'
)

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
			t.by["undo "+op] = &row{label: op + " " + u.Type, fill: waiting}
		}
	case *pb.Event_TimerStarted:
		t.begin(op, op+" timer "+span(time.Duration(b.TimerStarted.Duration)), e.Time).fill = timer
	case *pb.Event_CancelRequested:
		t.rows = append(t.rows, &row{label: "cancel is asked for", from: e.Time, to: e.Time, fill: occurred})
	case *pb.Event_CompensationEnded:
		if b.CompensationEnded.Op == "" {
			t.settled = e.Time
		}
	default:
		t.ends(op, e)
		if history.Closes(e) {
			t.closed, t.end = e.Time, words(history.ClosingStatus(e))
		}
	}
}

func (t *Timeline) ends(op string, e *pb.Event) {
	log := tallyOf(e).GetLog()
	switch b := e.Body.(type) {
	case *pb.Event_TimerFired:
		t.finish(op, e.Time, nil, "")
	case *pb.Event_TimerCancelled:
		t.finish(op, e.Time, nil, "cancelled")
	case *pb.Event_ActivityCompleted:
		t.finish(op, e.Time, log, "")
	case *pb.Event_ActivityFailed:
		t.finish(op, e.Time, log, "failed"+failure(b.ActivityFailed.Failure)).fail = true
	case *pb.Event_ActivityTimedOut:
		t.finish(op, e.Time, log, "timed out: "+words(b.ActivityTimedOut.Limit)).fail = true
	case *pb.Event_ActivityCancelled:
		t.finish(op, e.Time, log, "cancelled")
	case *pb.Event_UndoCompleted:
		t.undo(op, e.Time, log, "undone").fail = false
	case *pb.Event_UndoFailed:
		t.undo(op, e.Time, log, "undo failed"+failure(b.UndoFailed.Failure)).fail = true
	}
}

func (t *Timeline) begin(op, label string, at int64) *row {
	r := &row{label: label, from: at, fill: waiting, open: true}
	t.by[op] = r
	t.rows = append(t.rows, r)
	return r
}

func (t *Timeline) finish(op string, at int64, log []*pb.Attempt, outcome string) *row {
	r := t.by[op]
	if r == nil {
		return &row{} // its beginning is not in what was given
	}
	delete(t.by, op)
	r.to, r.open, r.outcome, r.attempts = at, false, outcome, log
	return r
}

// undo is a row of its own, from the start of its first attempt. A step that
// answered late is undone a second time: that is the same row.
func (t *Timeline) undo(op string, at int64, log []*pb.Attempt, outcome string) *row {
	r := t.by["undo "+op]
	if r == nil {
		return &row{}
	}
	if r.from == 0 {
		r.from = at
		if len(log) > 0 {
			r.from = log[0].Started
		}
		t.rows = append(t.rows, r)
	}
	r.to, r.open, r.outcome = at, false, outcome
	r.attempts = append(r.attempts, log...)
	return r
}

// GoesOn takes what an open run waits for now: the attempts of what is open are in
// no event yet.
func (t *Timeline) GoesOn(all []*pb.Waiting, now int64) {
	if t.by == nil {
		return
	}
	t.last = max(t.last, now)
	for _, x := range all {
		r := t.by[x.Op]
		if x.Kind == "undo" {
			if r = t.by["undo "+x.Op]; r != nil && r.from == 0 {
				r.from = max(x.Since, t.started)
				t.rows = append(t.rows, r)
			}
		}
		if r == nil || x.Kind == "ledger" || x.State == "failed for good" {
			continue
		}
		r.open, r.attempts, r.outcome = true, x.Attempts, state(x)
		if x.Kind == "timer" {
			r.outcome = ""
		}
		if x.State == "started" {
			r.attempts = append(slices.Clone(r.attempts), &pb.Attempt{Started: x.Since, Ended: now, Outcome: pb.Outcome_OUTCOME_COMPLETED})
		}
	}
}

const (
	maxLabel   = 30
	maxOutcome = 40
	minBar     = 20
	maxRows    = 200
)

// Draw writes the picture, so many characters wide; at least 60.
func (t *Timeline) Draw(w io.Writer, width int) error {
	p := printer{w: w}
	if t.by == nil {
		p.line("no events")
		return p.err
	}
	rows := t.shown()
	label, outcome := 0, 0
	for _, r := range rows {
		label = max(label, utf8.RuneCountInString(cut(Clean(r.label), maxLabel)))
		outcome = max(outcome, utf8.RuneCountInString(cut(Clean(r.outcome), maxOutcome)))
	}
	width = max(width, 60) - label - 2
	if outcome > 0 {
		outcome = min(outcome, max(width-minBar-2, width/3))
		width -= outcome + 2
	}
	s := scale{from: t.started, to: max(t.last, t.started+1), width: max(width, minBar)}
	total := span(time.Duration(s.to - s.from))
	p.line("%-*s  0%*s", label, "", max(s.width-1, len(total)+1), total)
	for _, r := range rows {
		if r.fill == 0 {
			p.line("%s", r.label)
			continue
		}
		name := cut(Clean(r.label), maxLabel)
		pad := strings.Repeat(" ", label-utf8.RuneCountInString(name))
		p.line("%s%s  %s  %s", name, pad, s.bar(r, t.last), cut(Clean(r.outcome), max(outcome, 1)))
	}
	p.line("%s", t.ending())
	p.line("= running   . waiting   ~ timer   x an attempt failed   ! asked for   > goes on")
	return p.err
}

func (t *Timeline) ending() string {
	after := func(at int64) string { return " after " + span(time.Duration(at-t.started)) }
	switch {
	case t.end == "":
		return "running for " + span(time.Duration(t.last-t.started))
	case t.settled > 0 && after(t.settled) != after(t.closed):
		return t.end + after(t.closed) + ", settled" + after(t.settled)
	default:
		return t.end + after(t.closed)
	}
}

// shown leaves out of a long history what has gone well; a row without a fill
// says how much.
func (t *Timeline) shown() []*row {
	if len(t.rows) <= maxRows {
		return t.rows
	}
	var out []*row
	var gone, bad int64
	gap := func() {
		if gone == 0 {
			return
		}
		label := "… " + count(gone, "operation")
		if bad > 0 {
			label += fmt.Sprintf(", %s of them failed, tried again or open", thousands(bad))
		}
		out = append(out, &row{label: label + "; -o jsonl has all"})
		gone, bad = 0, 0
	}
	for i, show := range t.choose() {
		switch r := t.rows[i]; {
		case show:
			gap()
			out = append(out, r)
		case r.tells():
			bad++
			gone++
		default:
			gone++
		}
	}
	gap()
	return out
}

// choose picks maxRows rows: first those that tell something, then the others in
// their order.
func (t *Timeline) choose() []bool {
	chosen, left := make([]bool, len(t.rows)), maxRows
	for _, telling := range []bool{true, false} {
		for i, r := range t.rows {
			if left > 0 && r.tells() == telling {
				chosen[i] = true
				left--
			}
		}
	}
	return chosen
}

// tells says whether somebody may look for the row: it failed, was tried again, is
// open, or is no operation.
func (r *row) tells() bool {
	return r.fail || r.open || len(r.attempts) > 1 || r.fill == occurred
}

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
	if !r.open && len(r.attempts) == 0 && r.fill == waiting {
		fill(r.from, end, running) // nothing is known of its attempts
	} else {
		fill(r.from, end, r.fill)
	}
	for _, a := range r.attempts {
		fill(a.Started, max(a.Ended, a.Started), running)
	}
	for _, a := range r.attempts {
		if a.Outcome != pb.Outcome_OUTCOME_COMPLETED {
			cells[s.column(a.Ended)] = failed
		}
	}
	if r.fail {
		cells[s.column(end)] = failed
	}
	if r.open {
		cells[s.column(end)] = goesOn
	}
	return string(cells)
}
