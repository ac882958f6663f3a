package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
)

func (g *globals) worker() *cobra.Command {
	c := &cobra.Command{Use: "worker", Short: "Look at the workers"}
	ls := &cobra.Command{
		Use:   "list",
		Short: "List the workers that are connected; first those that have slow runs",
		Args:  cobra.NoArgs,
	}
	ls.RunE = g.run(func(ctx context.Context, s *session, _ []string) error {
		ctx, cancel := s.short(ctx)
		defer cancel()
		res, err := s.admin.ListWorkers(ctx, &pb.ListWorkersRequest{Namespace: s.namespace}, grpc.WaitForReady(true))
		if err != nil {
			return rpcerr.FromStatus(ctx, "list workers", err)
		}
		view.SortWorkers(res.Workers)
		return s.showWorkers(res.Workers)
	})
	c.AddCommand(ls)
	return c
}

func (s *session) showWorkers(workers []*pb.WorkerInfo) error {
	out := s.cmd.OutOrStdout()
	switch {
	case !s.tables():
		return list(s.globals, out, "workers", workers, "")
	case len(workers) == 0:
		s.say("no worker is connected in namespace %s: a program with worker.Dial(%q, …) is one; see docs/quickstart.md", view.Clean(s.namespace), s.address)
		return nil
	}
	if err := view.Workers(out, workers, s.now().UnixNano()); err != nil {
		return err
	}
	for _, w := range workers {
		if w.Slow > 0 {
			s.say("runs are slow whose code has not given control back for 2 s, as when it waits for something outside of workflow.Context; the log of the worker tells where")
			break
		}
	}
	return nil
}

func (g *globals) queue() *cobra.Command {
	c := &cobra.Command{Use: "queue", Short: "Look at the task queues"}
	ls := &cobra.Command{
		Use:   "list",
		Short: "List the task queues: who serves them, what waits; first the types that no worker knows",
		Args:  cobra.NoArgs,
	}
	ls.RunE = g.run(func(ctx context.Context, s *session, _ []string) error {
		queues, err := s.queues(ctx)
		if err != nil {
			return err
		}
		return s.showQueues(queues)
	})
	c.AddCommand(ls)
	return c
}

func (s *session) showQueues(queues []*pb.QueueInfo) error {
	out := s.cmd.OutOrStdout()
	switch {
	case !s.tables():
		return list(s.globals, out, "queues", queues, "")
	case len(queues) == 0:
		s.say("no queue has a worker in namespace %s, and nothing waits: %s", view.Clean(s.namespace), s.try("worker list"))
		return nil
	}
	if err := view.Queues(out, queues); err != nil {
		return err
	}
	for _, q := range queues {
		if len(q.Types) > 0 && view.Unknown(q.Types[0]) {
			s.say("what waits for a type that no worker knows goes on when a worker of its queue registers that type: %s shows who is there", s.try("worker list"))
			break
		}
	}
	return nil
}
