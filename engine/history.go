package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

const (
	// historyPage bounds what is read of a history at once, in bytes; a client's
	// page is a quarter of that, since many clients may read at once, and
	// historyLimit events.
	historyPage  = 1 << 20
	clientPage   = historyPage / 4
	historyLimit = 1000
	// followFor is how long a page that waits may be waited for.
	followFor = 20 * time.Second
)

// History returns a page of a run's durable history. One that waits is answered
// when there is something behind `after`, when the run can grow no more, or
// empty after 20 s.
func (e *Engine) History(ctx context.Context, req *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	const op = "history"
	id, err := checkRef(op, req.Run)
	if err != nil {
		return nil, err
	}
	if err := e.serving(op); err != nil {
		return nil, err
	}
	runID := req.Run.RunId
	if req.Wait {
		if runID, err = e.follow(ctx, op, id, req); err != nil {
			return nil, err
		}
	}
	found, err := e.store.Load(ctx, []store.Key{{Namespace: id.Namespace, WorkflowID: id.WorkflowID, RunID: runID}})
	if err != nil {
		return nil, apierr.Wrap(apierr.Internal, op, err)
	}
	row := found[0].Run
	if row == nil {
		return nil, apierr.New(apierr.NotFound, op, "no run has the workflow id "+id.WorkflowID+" in namespace "+id.Namespace, "list the runs to see which there are")
	}
	limit := int64(req.Limit)
	if limit <= 0 || limit > historyLimit {
		limit = historyLimit
	}
	after, end := max(req.After, 0), row.NextEvent-1
	res := &pb.HistoryResponse{Open: row.Open, RunId: row.RunID}
	if res.Events, err = e.readPage(ctx, row.Run, after, min(after+limit, end)); err != nil {
		return nil, apierr.Wrap(apierr.Internal, op, err)
	}
	if n := len(res.Events); n > 0 {
		after = res.Events[n-1].Id
	}
	if after < end {
		res.Next = after
	}
	return res, nil
}

// follow waits until a page has something to tell, and returns the run that it
// is about.
func (e *Engine) follow(ctx context.Context, op string, id machine.ID, req *pb.HistoryRequest) (string, error) {
	within, cancel := context.WithTimeoutCause(ctx, followFor, errNothingCame)
	defer cancel()
	v, err := e.ask(within, op, id, func(to *call) machine.Input {
		return &machine.Follow{Ref: req.Run, After: req.After, To: to}
	})
	switch {
	case err == nil:
		return v.(*machine.Followed).RunID, nil
	case errors.Is(err, errNothingCame) && ctx.Err() == nil:
		return req.Run.RunId, nil
	default:
		return "", err
	}
}

var errNothingCame = fmt.Errorf("nothing came within %v", followFor)

// readPage reads the events after+1..upto of a run, as many as fit in a page.
func (e *Engine) readPage(ctx context.Context, run store.RunNo, after, upto int64) ([]*pb.Event, error) {
	if after >= upto {
		return nil, nil
	}
	events, err := e.readSome(ctx, run, after, upto)
	if err != nil {
		return nil, err
	}
	size := 0
	for i, ev := range events {
		if size += proto.Size(ev); size > clientPage && i > 0 {
			return events[:i], nil
		}
	}
	return events, nil
}

// readEvents reads all of the events after+1..upto of a run.
func (e *Engine) readEvents(ctx context.Context, run store.RunNo, after, upto int64) ([]*pb.Event, error) {
	var events []*pb.Event
	for after < upto {
		some, err := e.readSome(ctx, run, after, upto)
		if err != nil {
			return nil, err
		}
		events = append(events, some...)
		after = some[len(some)-1].Id
	}
	return events, nil
}

// readSome reads at least one of the events after+1..upto. That there is none is
// damage.
func (e *Engine) readSome(ctx context.Context, run store.RunNo, after, upto int64) ([]*pb.Event, error) {
	rows, err := e.store.History(ctx, run, after, historyPage)
	if err != nil {
		return nil, err
	}
	damaged := func(why string) error {
		return &store.CorruptError{Table: "events", Key: fmt.Sprintf("run %d", run), Why: why}
	}
	var events []*pb.Event
	for _, row := range rows {
		batch, err := history.Decode(row.Data)
		var newer *history.NewerFormatError
		switch {
		case errors.As(err, &newer):
			return nil, fmt.Errorf("run %d: events %d..%d: %w", run, row.First, row.Last, err)
		case err != nil:
			return nil, damaged(fmt.Sprintf("events %d..%d: %v", row.First, row.Last, err))
		}
		for _, ev := range batch {
			if ev.Id > after && ev.Id <= upto {
				events = append(events, ev)
			}
		}
	}
	if len(events) == 0 {
		return nil, damaged(fmt.Sprintf("it ends at event %d, and should reach %d", after, upto))
	}
	return events, nil
}
