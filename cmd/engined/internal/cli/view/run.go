package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// Status is a run's status with what stands beside it: "running (stuck)",
// "failed, compensated".
func Status(r *pb.RunInfo) string {
	s := words(r.GetStatus())
	if k := r.GetHold().GetKind(); k != pb.HoldKind_HOLD_KIND_NONE {
		s += " (" + words(k) + ")"
	}
	switch r.GetUndoState() {
	case pb.UndoState_UNDO_STATE_COMPENSATING:
		s += ", compensating"
	case pb.UndoState_UNDO_STATE_COMPENSATED:
		s += ", compensated"
	case pb.UndoState_UNDO_STATE_FAILED:
		s += ", compensation failed"
	}
	return s
}

// rank puts first what somebody should look at.
func rank(r *pb.RunInfo) int {
	switch {
	case r.UndoState == pb.UndoState_UNDO_STATE_FAILED:
		return 0
	case r.Hold.GetKind() != pb.HoldKind_HOLD_KIND_NONE:
		return 1
	case r.Status == pb.Status_STATUS_FAILED || r.Status == pb.Status_STATUS_TIMED_OUT:
		return 2
	case r.Status == pb.Status_STATUS_TERMINATED || r.Status == pb.Status_STATUS_CANCELLED:
		return 3
	case r.Status == pb.Status_STATUS_RUNNING:
		return 4
	default:
		return 5
	}
}

// Sort puts failures and held runs first, then those that run, then the rest; the
// newest first among equals.
func Sort(runs []*pb.RunInfo) {
	slices.SortStableFunc(runs, func(a, b *pb.RunInfo) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Started, a.Started))
	})
}

// Runs writes a table of runs in their order.
func Runs(w io.Writer, runs []*pb.RunInfo, now int64) error {
	return table(w, "STATUS\tWORKFLOW ID\tTYPE\tRUN ID\tSTARTED\tTOOK\tEVENTS", func(row func(...any)) {
		for _, r := range runs {
			end := r.Closed
			if end == 0 {
				end = now
			}
			row(Status(r), cut(Clean(r.WorkflowId), 60), cut(Clean(r.Type), 40), Clean(r.RunId), ago(r.Started, now), span(time.Duration(end-r.Started)), r.Events)
		}
	})
}

// table writes rows under a head, in columns.
func table(w io.Writer, head string, rows func(row func(...any))) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, c)
		}
		fmt.Fprintln(t)
	})
	return t.Flush()
}

// Workers writes a table of workers; those that need a look come first.
func Workers(w io.Writer, workers []*pb.WorkerInfo, now int64) error {
	trouble := func(x *pb.WorkerInfo) int { return -int(x.Slow) }
	slices.SortStableFunc(workers, func(a, b *pb.WorkerInfo) int { return cmp.Compare(trouble(a), trouble(b)) })
	return table(w, "IDENTITY\tQUEUE\tBUILD\tSLOTS\tRUNS\tSINCE\tHEARD\tSTATE\tWORKER", func(row func(...any)) {
		for _, x := range workers {
			state := "ready"
			if x.Draining {
				state = "draining"
			}
			if x.Slow > 0 {
				state += fmt.Sprintf(", %d runs do not give control back", x.Slow)
			}
			row(cut(Clean(x.Identity), 40), Clean(x.Queue), cut(Clean(x.Build), 24), fmt.Sprintf("%d/%d", x.Slots-x.Free, x.Slots), x.Runs,
				ago(x.Since, now), ago(x.Heard, now), state, Clean(x.Worker))
		}
	})
}

// Queues writes a table of task queues, a line for each type; what nobody knows
// comes first.
func Queues(w io.Writer, queues []*pb.QueueInfo) error {
	return table(w, "QUEUE\tWORKERS\tSLOTS\tTYPE\tKIND\tWAITING\t", func(row func(...any)) {
		for _, q := range queues {
			for i, t := range q.Types {
				name, workers, slots := "", "", ""
				if i == 0 {
					name, workers = Clean(q.Queue), fmt.Sprint(q.Workers)
					slots = fmt.Sprintf("%d/%d", q.Slots-q.Free, q.Slots)
				}
				kind, note := "activity", ""
				if t.Workflow {
					kind = "workflow"
				}
				if t.Workers == 0 {
					note = "no worker knows it"
				}
				row(name, workers, slots, cut(Clean(t.Type), 40), kind, t.Waiting, note)
			}
		}
	})
}
