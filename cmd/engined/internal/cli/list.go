package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
)

// filter is a word for --status: a status that the engine looks for, or what a run
// may be beside its status, for which pages are read until enough are found.
type filter struct {
	word   string
	status pb.Status
	keeps  func(*pb.RunInfo) bool
}

var filters = []filter{
	{"running", pb.Status_STATUS_RUNNING, nil},
	{"completed", pb.Status_STATUS_COMPLETED, nil},
	{"failed", pb.Status_STATUS_FAILED, nil},
	{"cancelled", pb.Status_STATUS_CANCELLED, nil},
	{"terminated", pb.Status_STATUS_TERMINATED, nil},
	{"timed-out", pb.Status_STATUS_TIMED_OUT, nil},
	{"held", pb.Status_STATUS_RUNNING, func(r *pb.RunInfo) bool { return r.Hold.GetKind() != pb.HoldKind_HOLD_KIND_NONE }},
	{"stuck", pb.Status_STATUS_RUNNING, func(r *pb.RunInfo) bool { return r.Hold.GetKind() == pb.HoldKind_HOLD_KIND_STUCK }},
	{"quarantined", pb.Status_STATUS_RUNNING, func(r *pb.RunInfo) bool { return r.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED }},
	{"compensating", 0, func(r *pb.RunInfo) bool { return r.UndoState == pb.UndoState_UNDO_STATE_COMPENSATING }},
	{"compensation-failed", 0, func(r *pb.RunInfo) bool { return r.UndoState == pb.UndoState_UNDO_STATE_FAILED }},
}

func filterWords() (all []string) {
	for _, f := range filters {
		all = append(all, f.word)
	}
	return all
}

func filterOf(word string) filter {
	for _, f := range filters {
		if f.word == word {
			return f
		}
	}
	return filter{}
}

func (g *globals) list() *cobra.Command {
	var status string
	var q pb.ListRequest
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs: failures and held runs first, then those that run",
		Long: `List runs, a page at a time, the newest first. Within the page those come first that
somebody should look at: compensation failed, held (stuck, quarantined), failed.

The engine looks for a status, a type or an id by itself. For what stands beside the
status (held, stuck, quarantined, compensating, compensation-failed) this command reads
up to 20,000 runs and shows those that fit.`,
		Example: `  engined workflow list --status failed
  engined workflow list --status held
  engined workflow list --type PlaceOrder -o jsonl`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&status, "status", "", "only runs of this status: "+strings.Join(filterWords(), ", "))
	f.StringVar(&q.Type, "type", "", "only runs of this workflow type")
	f.StringVar(&q.WorkflowId, "id", "", "only runs of this workflow id")
	f.Int32Var(&q.Limit, "limit", 50, "how many runs a page has, 1 to 1000")
	f.StringVar(&q.Page, "page", "", "the page that the last list named")
	complete(c, "status", filterWords()...)
	c.RunE = g.run(func(ctx context.Context, s *session, _ []string) error {
		if err := oneOf("status", status, filterWords()); err != nil {
			return err
		}
		if q.Limit < 1 || q.Limit > pageMax {
			return usage("--limit %d: give 1 to %d", q.Limit, pageMax)
		}
		by := filterOf(status)
		q.Status = by.status
		res, err := s.find(ctx, &q, by)
		if err != nil {
			return err
		}
		view.Sort(res.Runs)
		return s.showRuns(ctx, res)
	})
	return c
}

const (
	pageMax = 1000 // the engine's own limit
	readMax = 20   // pages of that size in one command
)

// find reads a page. What the engine does not look for by itself is looked for
// here, in as many of its pages as it takes, up to readMax.
func (s *session) find(ctx context.Context, q *pb.ListRequest, by filter) (*pb.ListResponse, error) {
	if by.keeps == nil {
		ctx, cancel := s.short(ctx)
		defer cancel()
		return s.cl.List(ctx, q)
	}
	found := &pb.ListResponse{}
	page := &pb.ListRequest{Status: q.Status, Type: q.Type, WorkflowId: q.WorkflowId, Limit: pageMax, Page: q.Page}
	for range readMax {
		res, err := s.find(ctx, page, filter{})
		if err != nil {
			return nil, err
		}
		for _, r := range res.Runs {
			if by.keeps(r) {
				found.Runs = append(found.Runs, r)
			}
		}
		// A page is shown whole, so that the next one leaves nothing out.
		found.Next, page.Page = res.Next, res.Next
		if res.Next == "" || len(found.Runs) >= int(q.Limit) {
			break
		}
	}
	return found, nil
}

func (s *session) showRuns(ctx context.Context, res *pb.ListResponse) error {
	out := s.cmd.OutOrStdout()
	switch {
	case !s.tables():
		if err := list(s.globals, out, "runs", res.Runs, res.Next); err != nil {
			return err
		}
	case len(res.Runs) > 0:
		if err := view.Runs(out, res.Runs, s.now().UnixNano()); err != nil {
			return err
		}
	case res.Next == "":
		s.say("no runs in namespace %s match: %s starts one, fewer flags show more", view.Arg(s.namespace), s.try("workflow start TYPE"))
	}
	if res.Next != "" && s.output != "json" {
		s.say("there are more: the same command with --page %s", view.Arg(res.Next))
	}
	if s.tables() {
		s.tellUnknown(ctx)
	}
	return nil
}

// unknownMax is how many types are told that no worker knows.
const unknownMax = 3

// tellUnknown tells which types no worker knows although something waits for them:
// such runs look like others that run. It is silent if the engine does not say.
func (s *session) tellUnknown(ctx context.Context) {
	queues, err := s.queues(ctx)
	if err != nil {
		return
	}
	n := 0
	for _, q := range queues {
		for _, t := range q.Types {
			if !view.Unknown(t) {
				continue
			}
			if n++; n <= unknownMax {
				s.say("no worker on queue %s knows %s, %d waiting for it: %s tells more", view.Clean(q.Queue), view.Clean(t.Type), t.Waiting, s.try("queue list"))
			}
		}
	}
	if n > unknownMax {
		s.say("there are %d more such types: %s", n-unknownMax, s.try("queue list"))
	}
}
