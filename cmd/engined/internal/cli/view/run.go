package view

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
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
	return table(w, "STATUS\tWORKFLOW ID\tTYPE\tRUN ID\tSTARTED\tDURATION\tEVENTS", func(row func(...any)) {
		for _, r := range runs {
			end := r.Closed
			if end == 0 {
				end = now
			}
			row(Status(r), cut(Clean(r.WorkflowId), 60), cut(Clean(r.Type), 40), Clean(r.RunId), Ago(r.Started, now), span(time.Duration(end-r.Started)), r.Events)
		}
	})
}

// table writes rows under a head, in columns.
func table(w io.Writer, head string, rows func(row func(...any))) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
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
	if err := t.Flush(); err != nil {
		return err
	}
	p := printer{w: w}
	for l := range strings.Lines(b.String()) {
		p.line("%s", l)
	}
	return p.err
}

// SortWorkers puts those first that have slow runs.
func SortWorkers(workers []*pb.WorkerInfo) {
	slices.SortStableFunc(workers, func(a, b *pb.WorkerInfo) int { return cmp.Compare(b.Slow, a.Slow) })
}

// Workers writes a table of workers in their order.
func Workers(w io.Writer, workers []*pb.WorkerInfo, now int64) error {
	return table(w, "IDENTITY\tQUEUE\tBUILD\tSLOTS\tRUNS\tSINCE\tHEARD\tSTATE\tWORKER", func(row func(...any)) {
		for _, x := range workers {
			state := "ready"
			if x.Draining {
				state = "draining"
			}
			if x.Slow > 0 {
				state += ", " + count(int64(x.Slow), "slow run")
			}
			row(cut(Clean(x.Identity), 40), Clean(x.Queue), cut(Clean(x.Build), 24), slots(x.Slots, x.Free), x.Runs,
				Ago(x.Since, now), Ago(x.Heard, now), state, Clean(x.Worker))
		}
	})
}

func slots(all, free int32) string { return fmt.Sprintf("%d/%d", all-free, all) }

// Unknown says whether something waits for a type that no worker knows.
func Unknown(t *pb.QueueType) bool { return t.Workers == 0 && t.Waiting > 0 }

// SortQueues puts first what waits for a type that no worker knows, then what
// waits for a slot: the queues by the worst of their types, the types of each.
func SortQueues(queues []*pb.QueueInfo) {
	rank := func(t *pb.QueueType) int {
		switch {
		case Unknown(t):
			return 0
		case t.Waiting > 0:
			return 1
		}
		return 2
	}
	for _, q := range queues {
		slices.SortStableFunc(q.Types, func(a, b *pb.QueueType) int { return cmp.Compare(rank(a), rank(b)) })
	}
	worst := func(q *pb.QueueInfo) int {
		if len(q.Types) > 0 {
			return rank(q.Types[0])
		}
		return 2
	}
	slices.SortStableFunc(queues, func(a, b *pb.QueueInfo) int { return cmp.Compare(worst(a), worst(b)) })
}

// Queues writes a table of task queues in their order, a line for each type.
func Queues(w io.Writer, queues []*pb.QueueInfo) error {
	return table(w, "QUEUE\tWORKERS\tSLOTS\tTYPE\tKIND\tWAITING\t", func(row func(...any)) {
		for _, q := range queues {
			name, workers, used := Clean(q.Queue), fmt.Sprint(q.Workers), slots(q.Slots, q.Free)
			if len(q.Types) == 0 {
				row(name, workers, used)
			}
			for _, t := range q.Types {
				kind, note := "activity", ""
				if t.Workflow {
					kind = "workflow"
				}
				if Unknown(t) {
					note = "no worker knows it"
				}
				row(name, workers, used, cut(Clean(t.Type), 40), kind, t.Waiting, note)
				name, workers, used = "", "", ""
			}
		}
	})
}
