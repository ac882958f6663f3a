package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

func (g *globals) workflow() *cobra.Command {
	c := &cobra.Command{
		Use:   "workflow",
		Short: "Start runs, look at them, and end them",
	}
	c.AddCommand(g.start(), g.list(), g.describe(), g.history(), g.result(), g.watch(), g.cancel(), g.terminate())
	return c
}

// runFlag lets a command name one run of an id.
func runFlag(c *cobra.Command) *string {
	return c.Flags().String("run-id", "", "a run of the id that is not the newest")
}

// The statuses that a list can be narrowed to.
var statuses = map[string]pb.Status{
	"running": pb.Status_STATUS_RUNNING, "completed": pb.Status_STATUS_COMPLETED, "failed": pb.Status_STATUS_FAILED,
	"cancelled": pb.Status_STATUS_CANCELLED, "terminated": pb.Status_STATUS_TERMINATED, "timed-out": pb.Status_STATUS_TIMED_OUT,
}

var statusWords = []string{"running", "completed", "failed", "cancelled", "terminated", "timed-out"}

func (g *globals) list() *cobra.Command {
	var status, typ, id, page string
	var limit int32
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs: failures and held runs first, then those that run",
		Long: `List runs, a page at a time, the newest first. Within the page those come first that
somebody should look at: compensation failed, held (stuck, quarantined, without a
worker), failed.`,
		Example: `  engined workflow list --status failed
  engined workflow list --type PlaceOrder -o jsonl`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&status, "status", "", "only runs of this status: "+strings.Join(statusWords, ", "))
	f.StringVar(&typ, "type", "", "only runs of this workflow type")
	f.StringVar(&id, "id", "", "only runs of this workflow id")
	f.Int32Var(&limit, "limit", 50, "how many runs a page has, 1 to 1000")
	f.StringVar(&page, "page", "", "the page that the last list named")
	complete(c, "status", statusWords...)
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, _ []string) error {
		if status != "" && !slices.Contains(statusWords, status) {
			return usage("--status %q: it is one of %s", status, strings.Join(statusWords, ", "))
		}
		if limit < 1 || limit > 1000 {
			return usage("--limit %d: give 1 to 1000", limit)
		}
		ctx, cancel := g.short(ctx)
		defer cancel()
		res, err := cl.List(ctx, &pb.ListRequest{Status: statuses[status], Type: typ, WorkflowId: id, Limit: limit, Page: page})
		if err != nil {
			return err
		}
		view.Sort(res.Runs)
		out := cmd.OutOrStdout()
		if g.output != "table" {
			return list(g, out, "runs", res.Runs, res.Next)
		}
		if len(res.Runs) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "no runs in namespace %s match: `engined workflow start TYPE` starts one\n", g.namespace)
			return nil
		}
		if err := view.Runs(out, res.Runs, g.now().UnixNano()); err != nil {
			return err
		}
		if res.Next != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "there are more: the same command with --page %s\n", res.Next)
		}
		return nil
	})
	return c
}

func (g *globals) describe() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe WORKFLOW-ID",
		Short: "Tell a run's state: what it waits for, since when, and what would end that",
		Args:  oneID,
	}
	run := runFlag(c)
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		ctx, cancel := g.short(ctx)
		defer cancel()
		d, err := client.Get[any](cl, args[0], *run).Describe(ctx)
		if err != nil {
			return err
		}
		if g.output != "table" {
			return g.document(cmd.OutOrStdout(), d)
		}
		return view.Describe(cmd.OutOrStdout(), d, g.now().UnixNano())
	})
	return c
}

// oneID wants exactly one workflow id.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usage("give one workflow id: %s; `engined workflow list` shows which there are", cmd.UseLine())
	}
	return nil
}

// ending is what cancel and terminate share.
func (g *globals) cancel() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel WORKFLOW-ID",
		Short: "Ask a run to end by itself; its code may clean up, what was armed is undone",
		Args:  oneID,
	}
	run := runFlag(c)
	reason := c.Flags().String("reason", "", "why, for the history")
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		ctx, cancel := g.short(ctx)
		defer cancel()
		if err := client.Get[any](cl, args[0], *run).Cancel(ctx, *reason); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is asked to end; after its grace the engine ends it: `engined workflow watch %s` shows how\n", args[0], args[0])
		return nil
	})
	return c
}

func (g *globals) terminate() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "terminate WORKFLOW-ID",
		Short: "End a run at once, whatever its code says; what was armed is undone",
		Long: `End a run at once. Its code is not asked and does not clean up; the engine undoes the
steps that have an undo. "engined workflow cancel" is gentler.`,
		Args: oneID,
	}
	run := runFlag(c)
	reason := c.Flags().String("reason", "", "why, for the history")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		if !yes {
			if err := confirm(cmd, fmt.Sprintf("Terminate %s in namespace %s? Its code does not clean up.", args[0], g.namespace)); err != nil {
				return err
			}
		}
		ctx, cancel := g.short(ctx)
		defer cancel()
		if err := client.Get[any](cl, args[0], *run).Terminate(ctx, *reason); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is terminated; what was armed is undone now: `engined workflow describe %s` shows how far\n", args[0], args[0])
		return nil
	})
	return c
}
