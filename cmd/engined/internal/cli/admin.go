package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/internal/dial"
	"github.com/engined/engined/internal/rpcerr"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/proto/enginerpc"
	"github.com/engined/engined/sdk/client"
)

// ask makes one call of the operator's, within the time limit.
func ask[Req, Res any](g *globals, call func(enginerpc.AdminClient) func(context.Context, Req, ...grpc.CallOption) (Res, error), req Req, show func(*cobra.Command, Res) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := g.check(); err != nil {
			return err
		}
		if err := g.hello(cmd.Context()); err != nil {
			return err
		}
		conn, err := dial.New(g.address, dial.Options{})
		if err != nil {
			return g.told(err)
		}
		defer func() { _ = conn.Close() }() // it was only asked
		ctx, cancel := g.short(cmd.Context())
		defer cancel()
		res, err := call(enginerpc.NewAdminClient(conn))(ctx, req, grpc.WaitForReady(true))
		if err != nil {
			return g.told(rpcerr.FromStatus(ctx, cmd.CommandPath(), err))
		}
		return show(cmd, res)
	}
}

func (g *globals) worker() *cobra.Command {
	c := &cobra.Command{Use: "worker", Short: "Look at the workers"}
	ls := &cobra.Command{Use: "list", Short: "List the workers that are connected", Args: cobra.NoArgs}
	ls.RunE = func(cmd *cobra.Command, args []string) error {
		return ask(g, func(a enginerpc.AdminClient) func(context.Context, *pb.ListWorkersRequest, ...grpc.CallOption) (*pb.ListWorkersResponse, error) {
			return a.ListWorkers
		}, &pb.ListWorkersRequest{Namespace: g.namespace}, g.showWorkers)(cmd, args)
	}
	c.AddCommand(ls)
	return c
}

func (g *globals) showWorkers(cmd *cobra.Command, res *pb.ListWorkersResponse) error {
	out := cmd.OutOrStdout()
	if g.output != "table" {
		return list(g, out, "workers", res.Workers, "")
	}
	if len(res.Workers) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no worker is connected in namespace %s: a program with worker.Dial(%q, …) is one; see docs/quickstart.md\n", g.namespace, g.address)
		return nil
	}
	return view.Workers(out, res.Workers, g.now().UnixNano())
}

func (g *globals) queue() *cobra.Command {
	c := &cobra.Command{Use: "queue", Short: "Look at the task queues"}
	ls := &cobra.Command{
		Use:   "list",
		Short: "List the task queues: who serves them, what waits; first the types that no worker knows",
		Args:  cobra.NoArgs,
	}
	ls.RunE = func(cmd *cobra.Command, args []string) error {
		return ask(g, func(a enginerpc.AdminClient) func(context.Context, *pb.ListQueuesRequest, ...grpc.CallOption) (*pb.ListQueuesResponse, error) {
			return a.ListQueues
		}, &pb.ListQueuesRequest{Namespace: g.namespace}, g.showQueues)(cmd, args)
	}
	c.AddCommand(ls)
	return c
}

func (g *globals) showQueues(cmd *cobra.Command, res *pb.ListQueuesResponse) error {
	out := cmd.OutOrStdout()
	if g.output != "table" {
		return list(g, out, "queues", res.Queues, "")
	}
	if len(res.Queues) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no queue has a worker in namespace %s, and nothing waits: `engined worker list`\n", g.namespace)
		return nil
	}
	return view.Queues(out, res.Queues)
}

// helloFor is how long an engine may be away, as while it is started again,
// before a command says that there is none.
const helloFor = 2 * time.Second

// hello makes sure that an engine answers, so that a wrong address is told soon:
// the client would ask again until its time is over.
func (g *globals) hello(ctx context.Context) error {
	conn, err := dial.New(g.address, dial.Options{})
	if err != nil {
		return g.told(err)
	}
	defer func() { _ = conn.Close() }() // it was only asked
	within, cancel := context.WithTimeout(ctx, min(helloFor, g.timeout))
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := enginerpc.NewAdminClient(conn).GetServerInfo(within, &pb.ServerInfoRequest{})
		if err = rpcerr.FromStatus(ctx, "connect", err); err == nil || !client.IsUnavailable(err) {
			return g.told(err)
		}
		select {
		case <-again.C:
		case <-within.Done():
			return &exitError{exitUnreachable, fmt.Errorf("no engine answers at %s: %w: `engined dev` starts one, --address names another", g.address, err)}
		}
	}
}
