package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

func (g *globals) describe() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe WORKFLOW-ID",
		Short: "Tell a run's state: what it waits for, since when, and what would end that",
		Args:  oneID,
	}
	run := runFlag(c)
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		all := view.Description{DescribeResponse: d, Workers: s.names(ctx), Now: s.now().UnixNano()}
		if settled(d.Info) {
			short, cancel := s.short(ctx)
			defer cancel()
			if all.Result, err = s.cl.Await(short, args[0], d.Info.RunId); err != nil {
				return err
			}
		}
		out := s.cmd.OutOrStdout()
		if s.tables() {
			return all.Describe(out)
		}
		doc := view.JSON(d)
		if all.Result != nil {
			doc = view.With(doc, "result", view.JSON(all.Result))
		}
		return s.raw(out, doc)
	})
	return c
}

// look asks for the state of a run. It says soon that there is no such run, also
// where what follows would wait for it.
func (s *session) look(ctx context.Context, id, run string) (*pb.DescribeResponse, error) {
	ctx, cancel := s.short(ctx)
	defer cancel()
	return client.Get[any](s.cl, id, run).Describe(ctx)
}

// settled says whether a run has its result: its outcome is decided, and its undos
// are done or given up.
func settled(r *pb.RunInfo) bool {
	return r.Closed > 0 || r.UndoState == pb.UndoState_UNDO_STATE_FAILED
}
