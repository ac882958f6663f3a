package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
)

// heldAfter is how long a run is waited for before it is asked what holds it.
const heldAfter = 3 * time.Second

// tellIfHeld tells somebody who waits for a run, once and after a while, that it is
// held, and what would end that. It is silent if the engine does not say. The
// function that it returns ends it.
func (s *session) tellIfHeld(ctx context.Context, id, run string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	later := time.AfterFunc(heldAfter, func() {
		defer close(done)
		d, err := s.look(ctx, id, run)
		if err != nil {
			return
		}
		if why := s.held(ctx, d); why != "" {
			s.say("%s", why)
		}
	})
	return func() {
		if cancel(); !later.Stop() {
			<-done
		}
	}
}

// held says what holds a run, and what would end that; "" if nothing does.
func (s *session) held(ctx context.Context, d *pb.DescribeResponse) string {
	r := d.Info
	describe := "; " + s.try("workflow describe", r.WorkflowId) + " tells more"
	if h := r.Hold; h.GetKind() != pb.HoldKind_HOLD_KIND_NONE {
		why, _, _ := strings.Cut(h.Reason, "\n")
		if h.Kind == pb.HoldKind_HOLD_KIND_NO_WORKER {
			why += s.elsewhere(ctx, r.Queue, r.Type)
		}
		why = view.Clean(r.WorkflowId + " is held: " + why)
		if todo := view.ToDo(r); todo != "" {
			why += "; what to do: " + todo
		}
		return why + describe
	}
	for _, x := range d.Waiting {
		if x.State == "no worker" {
			return view.Clean(fmt.Sprintf("%s waits for %s %s: no connected worker on queue %s knows it%s",
				r.WorkflowId, x.Op, x.Type, x.Queue, s.elsewhere(ctx, x.Queue, x.Type))) + describe
		}
	}
	return ""
}

func (s *session) elsewhere(ctx context.Context, queue, typ string) string {
	queues, err := s.queues(ctx)
	if err != nil {
		return "" // it is only a help
	}
	return elsewhere(queues, queue, typ)
}

// elsewhere names the other queues whose workers know a type, if there are any.
func elsewhere(queues []*pb.QueueInfo, queue, typ string) string {
	var others []string
	for _, q := range queues {
		for _, t := range q.Types {
			if q.Queue != queue && t.Type == typ && t.Workers > 0 {
				others = append(others, view.Clean(q.Queue))
			}
		}
	}
	const shown = 5
	switch n := len(others); {
	case n == 0:
		return ""
	case n > shown:
		return ", workers on other queues do: " + strings.Join(others[:shown], ", ") + ", …"
	default:
		return ", workers on another queue do: " + strings.Join(others, ", ")
	}
}
