package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Names are the identities of workers by their ids.
type Names map[string]string

// of is the worker's identity, or the first letters of its id, by which a list of
// workers shows it.
func (n Names) of(worker string) string {
	if name := n[worker]; name != "" {
		return Clean(name)
	}
	return Clean(worker[:min(len(worker), 8)])
}

// History writes events as lines, one after the other. It remembers the operations
// that are open, and nothing else of what it has written.
type History struct {
	w       io.Writer
	workers Names
	started int64
	open    map[string]operation
}

// operation is what later events of an operation are told with.
type operation struct {
	event      int64
	name, undo string
}

// NewHistory returns a History that writes to w.
func NewHistory(w io.Writer, workers Names) *History {
	return &History{w: w, workers: workers, open: map[string]operation{}}
}

// Write writes one event: its id, the time since the start, the event that it
// belongs to, its kind, its operation with its values, and the attempts that it
// ends.
func (h *History) Write(e *pb.Event) error {
	if h.started == 0 {
		h.started = e.Time
	}
	belongs := ""
	of := h.operation(e)
	if of.event > 0 {
		belongs = fmt.Sprintf("of %d", of.event)
	}
	p := printer{w: h.w}
	p.line("%6d  %10s  %-7s  %-23s  %s", e.Id, offset(time.Duration(e.Time-h.started)), belongs, history.Kind(e), describeEvent(e, of))
	t := tallyOf(e)
	if len(t.GetLog()) > 1 || e.GetActivityCompleted() == nil && e.GetUndoCompleted() == nil {
		if n := int64(t.GetAttempts()) - int64(len(t.GetLog())); n > 0 && len(t.GetLog()) > 0 {
			p.line("%25s%s before these", "", count(n, "attempt"))
		}
		p.attempts(t.GetLog(), strings.Repeat(" ", 25), h.workers)
	}
	return p.err
}

// operation returns what the event belongs to: the operation that it ends or that
// it asks to end. One that is over and has no undo is forgotten.
func (h *History) operation(e *pb.Event) operation {
	op := history.Op(e)
	switch b := e.Body.(type) {
	case *pb.Event_ActivityScheduled:
		a := b.ActivityScheduled
		h.open[op] = operation{event: e.Id, name: a.Type, undo: a.Undo.GetType()}
		return operation{name: a.Type}
	case *pb.Event_TimerStarted, *pb.Event_SagaCompensate:
		h.open[op] = operation{event: e.Id}
		return operation{}
	}
	of, known := h.open[op]
	switch e.Body.(type) {
	case *pb.Event_UndoCompleted, *pb.Event_UndoFailed:
		of.name = of.undo
	case *pb.Event_ActivityCancelRequested:
	default:
		if known && of.undo == "" {
			delete(h.open, op)
		}
	}
	return of
}

func tallyOf(e *pb.Event) *pb.Tally {
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
