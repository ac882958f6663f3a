package view

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// History writes events as lines, one after the other. It keeps the name of each
// operation, and nothing else of what it has written.
type History struct {
	w       io.Writer
	started int64
	names   map[string]string // of activities, by operation
}

// NewHistory returns a History that writes to w.
func NewHistory(w io.Writer) *History { return &History{w: w, names: map[string]string{}} }

// Write writes one event: its id, the time since the start, its kind, what it
// belongs to with its values, and the attempts that it ends.
func (h *History) Write(e *pb.Event) error {
	if h.started == 0 {
		h.started = e.Time
	}
	op := history.Op(e)
	if a := e.GetActivityScheduled(); a != nil {
		h.names[op] = a.Type
		if a.Undo != nil {
			h.names["undo "+op] = a.Undo.Type
		}
	}
	p := printer{w: h.w}
	p.line("%6d  %11s  %-23s  %s", e.Id, "+"+span(time.Duration(e.Time-h.started)), history.Kind(e), h.rest(e, op))
	if t := tally(e); t != nil && (len(t.Log) > 1 || e.GetActivityCompleted() == nil && e.GetUndoCompleted() == nil) {
		p.attempts(t.Log, strings.Repeat(" ", 23))
	}
	return p.err
}

// rest is the event's line behind its kind, with the name of what it belongs to.
func (h *History) rest(e *pb.Event, op string) string {
	s := strings.TrimPrefix(history.Line(e), strconv.FormatInt(e.Id, 10)+" "+history.Kind(e))
	s = strings.TrimPrefix(s, " ")
	name := h.names[op]
	if e.GetUndoCompleted() != nil || e.GetUndoFailed() != nil {
		name = h.names["undo "+op]
	}
	if name == "" || e.GetActivityScheduled() != nil || op == "" {
		return s
	}
	// An operation is shown as it is: it has no spaces to be quoted.
	return strings.TrimSpace(op + " " + Clean(name) + strings.TrimPrefix(s, op))
}

func tally(e *pb.Event) *pb.Tally {
	switch b := e.Body.(type) {
	case *pb.Event_ActivityCompleted:
		return b.ActivityCompleted.Tally
	case *pb.Event_ActivityFailed:
		return b.ActivityFailed.Tally
	case *pb.Event_ActivityTimedOut:
		return b.ActivityTimedOut.Tally
	case *pb.Event_ActivityCancelled:
		return b.ActivityCancelled.Tally
	case *pb.Event_UndoCompleted:
		return b.UndoCompleted.Tally
	case *pb.Event_UndoFailed:
		return b.UndoFailed.Tally
	default:
		return nil
	}
}
