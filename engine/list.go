package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	"github.com/engined/engined/internal/apierr"
	pb "github.com/engined/engined/proto/enginepb"
)

// List returns runs, newest first: what is durable of them.
func (e *Engine) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	const op = "list"
	if err := e.serving(op); err != nil {
		return nil, err
	}
	if err := history.CheckName("namespace", req.Namespace); err != nil {
		return nil, apierr.Wrap(apierr.InvalidArgument, op, err)
	}
	q := store.Query{
		Namespace: req.Namespace, WorkflowID: req.WorkflowId, Type: req.Type, Status: int32(req.Status), Limit: int(req.Limit),
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	if req.Page != "" {
		var err error
		if q.BeforeStarted, q.BeforeRun, err = parsePage(req.Page); err != nil {
			return nil, apierr.New(apierr.InvalidArgument, op, err.Error(), "pass the page as the last answer gave it")
		}
	}
	rows, err := e.store.List(ctx, q)
	if err != nil {
		return nil, apierr.Wrap(apierr.Internal, op, err)
	}
	res := &pb.ListResponse{}
	for i := range rows {
		state := &pb.RunState{}
		if err := proto.Unmarshal(rows[i].State, state); err != nil {
			return nil, apierr.Wrap(apierr.Internal, op, fmt.Errorf("run %s: decode its state: %w", rows[i].RunID, err))
		}
		info := machine.InfoOf(&rows[i], state)
		e.explainHold(info, rows[i].Open && state.ClosingEvent == 0 && state.LastInput != state.Processed)
		res.Runs = append(res.Runs, info)
	}
	if n := len(rows); n == q.Limit {
		res.Next = fmt.Sprintf("%d.%d", rows[n-1].Started, rows[n-1].Run)
	}
	return res, nil
}

func parsePage(page string) (int64, store.RunNo, error) {
	started, run, ok := strings.Cut(page, ".")
	at, err1 := strconv.ParseInt(started, 10, 64)
	no, err2 := strconv.ParseInt(run, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("the page %q is none that a list gave out", page)
	}
	return at, store.RunNo(no), nil
}
