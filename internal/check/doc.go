// Package check holds what must be true of every engine, whatever has happened
// to it: one set of invariants for every layer that tries to break one. Names
// like I1 are those of docs/VERIFICATION.md.
//
//	I1  what was acknowledged is there: Acks
//	I2  histories are gap-free, valid, and never change: Rows, Acks
//	I3  one open run for a workflow id, one run for a request: Rows, Acks
//	I4  each thing that was asked for has one outcome: Rows
//	I5  no more attempts than the policy allows, nothing begun twice that may
//	    begin once: Rows, Executions
//	I8  replay gives the decisions that were recorded: Replay
//	I9  timers are never early: Rows
//	I15 what was done is done or undone: Rows for what the engine knows,
//	    Executions for what really happened
//
// It knows rows, histories and answers, and reads them through a store.Store. It
// must not know how the engine comes to them: nothing here is code of the engine's
// core, so that a fault there cannot hide itself.
package check

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Run is all that a database has of a run.
type Run struct {
	Row     store.RunRow
	State   *pb.RunState
	Events  []*pb.Event
	Pending map[string]*pb.Pending
}

// Problem is a broken invariant.
type Problem struct {
	Invariant string // "I3"
	// Run is empty when it is about several.
	Run string
	Why string
}

func (p *Problem) Error() string {
	if p.Run == "" {
		return p.Invariant + ": " + p.Why
	}
	return fmt.Sprintf("%s: %s: %s", p.Invariant, p.Run, p.Why)
}

// name is how a run is called in a Problem.
func (r *Run) name() string { return fmt.Sprintf("%s (run %d)", r.Row.WorkflowID, r.Row.Run) }

// historyBytes bounds what is read of a history at once.
const historyBytes = 1 << 20

// Read reads every run of a store, newest first. A row that cannot be decoded is
// an error, as is one that the store finds damaged.
func Read(ctx context.Context, st store.Store) ([]*Run, error) {
	rows, err := st.List(ctx, store.Query{})
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	runs := make([]*Run, 0, len(rows))
	for _, row := range rows {
		r, err := readRun(ctx, st, row.Run)
		if err != nil {
			return nil, fmt.Errorf("run %d of workflow id %s: %w", row.Run, row.WorkflowID, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func readRun(ctx context.Context, st store.Store, no store.RunNo) (*Run, error) {
	found, err := st.Load(ctx, []store.Key{{Run: no}})
	if err != nil {
		return nil, err
	}
	if found[0].Run == nil {
		return nil, fmt.Errorf("it is listed, and not there")
	}
	r := &Run{Row: *found[0].Run, State: &pb.RunState{}, Pending: map[string]*pb.Pending{}}
	if err := proto.Unmarshal(r.Row.State, r.State); err != nil {
		return nil, fmt.Errorf("decode its state: %w", err)
	}
	for _, row := range found[0].Pending {
		p := &pb.Pending{}
		if err := proto.Unmarshal(row.Data, p); err != nil {
			return nil, fmt.Errorf("decode pending row %s: %w", row.Op, err)
		}
		r.Pending[row.Op] = p
	}
	for last := int64(0); last < r.Row.NextEvent-1; {
		rows, err := st.History(ctx, no, last, historyBytes)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("its history ends at event %d, its row says %d", last, r.Row.NextEvent-1)
		}
		for _, row := range rows {
			events, err := history.Decode(row.Data)
			if err != nil {
				return nil, fmt.Errorf("events %d..%d: %w", row.First, row.Last, err)
			}
			r.Events = append(r.Events, events...)
			last = row.Last
		}
	}
	return r, nil
}
