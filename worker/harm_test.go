package worker

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/workflow"
)

// badError panics when it is read.
type badError struct{}

func (badError) Error() string { panic("unreadable") }

// nothing is a map that was never made.
var nothing map[string]int

// harms is what user code may do to its goroutine; says is in the report of it.
var harms = map[string]struct {
	do   func()
	says string
}{
	"panic":          {func() { panic("kaboom") }, "kaboom"},
	"unreadable":     {func() { panic(badError{}) }, "unreadable"},
	"nil map":        {func() { nothing["a"]++ }, "nil map"},
	"nil pointer":    {func() { var p *shop; p.calls = nil }, "nil pointer"},
	"out of range":   {func() { var s []int; i := 3; s[i]++ }, "out of range"},
	"Goexit":         {runtime.Goexit, "Goexit"},
	"FailNow":        {(&testing.T{}).FailNow, "FailNow"},
	"panic in defer": {func() { defer func() { panic("second") }(); panic("first") }, "second"},
}

func TestHarmfulCodeCostsItsTaskAlone(t *testing.T) {
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				l := newLab(t, Options{}, func(w *Worker) {
					register(s)(w)
					Activity(w, func(context.Context, string) error { harm.do(); return nil }, Name("harms"))
					Workflow(w, func(workflow.Context, string) (string, error) { harm.do(); return "", nil }, Name("harmful"))
				})
				l.got()
				l.give(&pb.WorkerDown{
					Assign: []*pb.Assign{assign(1, "harmful"), ofRun(2, assign(1, "echoes"))},
					Tasks:  []*pb.Task{taskOf("#1", "shop.Wait"), taskOf("#2", "harms"), taskOf("#3", "shop.Echo")},
				})
				up := l.got()
				if len(up.Faults) != 1 || up.Faults[0].Run != 1 || up.Faults[0].Kind != pb.FaultKind_FAULT_KIND_PANIC ||
					!strings.Contains(up.Faults[0].Failure.Message, harm.says) {
					t.Errorf("faults %v, want one that says %q", up.Faults, harm.says)
				}
				if len(up.Decided) != 1 || up.Decided[0].Run != 2 {
					t.Errorf("the run beside it decided %v", up.Decided)
				}
				done := map[string]*pb.Done{}
				for _, d := range up.Done {
					done[d.Delivery.Op] = d
				}
				if d := done["#2"]; d.GetOutcome() != pb.Outcome_OUTCOME_CODE_FAULT || !strings.Contains(d.Failure.GetMessage(), harm.says) {
					t.Errorf("the activity was answered %v, want %q", d, harm.says)
				}
				if d := done["#3"]; len(done) != 2 || d.GetOutcome() != pb.Outcome_OUTCOME_COMPLETED {
					t.Errorf("the activity beside it was answered %v", d)
				}
				close(s.gate)
				if up := l.got(); len(up.Done) != 1 {
					t.Errorf("the activity that ran all the time was answered %v", up.Done)
				}
			})
		})
	}
}
