package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

func (g *globals) history() *cobra.Command {
	var follow, timeline bool
	c := &cobra.Command{
		Use:   "history WORKFLOW-ID",
		Short: "Show a run's events, or draw them",
		Example: `  engined workflow history order-1
  engined workflow history order-1 --timeline
  engined workflow history order-1 -o jsonl | jq 'select(.kind == "ActivityFailed")'`,
		Args: oneID,
	}
	run := runFlag(c)
	c.Flags().BoolVar(&follow, "follow", false, "go on as the run does, to its end")
	c.Flags().BoolVar(&timeline, "timeline", false, "draw a row for each activity, timer and undo")
	c.MarkFlagsMutuallyExclusive("follow", "timeline")
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		if timeline && g.output != "table" {
			return usage("--timeline is a picture: it has no form in %s", g.output)
		}
		if err := g.reach(ctx, cl, args[0], *run); err != nil {
			return err
		}
		r := client.Get[any](cl, args[0], *run)
		out := cmd.OutOrStdout()
		switch {
		case follow:
			return g.events(r.Follow(ctx), out)
		case !timeline:
			return g.events(r.History(ctx), out)
		}
		var t view.Timeline
		for e, err := range r.History(ctx) {
			if err != nil {
				return err
			}
			t.Add(e)
		}
		return t.Draw(out, columns())
	})
	return c
}

// columns is how wide the terminal says that it is.
func columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 100
}

// events writes a history as it comes.
func (g *globals) events(all iter.Seq2[*pb.Event, error], out io.Writer) error {
	h := view.NewHistory(out)
	switch g.output {
	case "table":
		for e, err := range all {
			if err == nil {
				err = h.Write(e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case "jsonl":
		for e, err := range all {
			if err == nil {
				err = g.document(out, e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	// One document, event by event: a long history is never in memory whole.
	before := `{"events":[`
	for e, err := range all {
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n  %s", before, view.JSON(e))
		}
		if err != nil {
			return err
		}
		before = ","
	}
	if before != "," {
		if _, err := io.WriteString(out, before); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, "\n]}\n")
	return err
}

func (g *globals) watch() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch WORKFLOW-ID",
		Short: "Follow a run, an event a line, to its end and its result",
		Args:  oneID,
	}
	run := runFlag(c)
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		if err := g.reach(ctx, cl, args[0], *run); err != nil {
			return err
		}
		if err := g.events(client.Get[any](cl, args[0], *run).Follow(ctx), cmd.OutOrStdout()); err != nil {
			return err
		}
		return g.await(ctx, cl, cmd, args[0], *run)
	})
	return c
}

// reach says soon that there is no engine, or no such run, where what follows
// would wait for either.
func (g *globals) reach(ctx context.Context, cl *client.Client, id, run string) error {
	ctx, cancel := g.short(ctx)
	defer cancel()
	_, err := client.Get[any](cl, id, run).Describe(ctx)
	return err
}

func (g *globals) result() *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use:   "result WORKFLOW-ID",
		Short: "Wait for a run's result and print it",
		Long: `Wait until a run is settled, its compensation included, and print its result as JSON on
standard output, and nothing else there. A run that did not complete exits with 5
and tells on standard error what it failed with.`,
		Args: oneID,
	}
	run := runFlag(c)
	c.Flags().BoolVar(&noWait, "no-wait", false, "fail if the run is not settled")
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		if noWait {
			short, cancel := g.short(ctx)
			defer cancel()
			d, err := client.Get[any](cl, args[0], *run).Describe(short)
			if err != nil {
				return err
			}
			if d.Info.Closed == 0 && d.Info.UndoState != pb.UndoState_UNDO_STATE_FAILED {
				return &exitError{exitNotDone, fmt.Errorf("%s is %s: `engined workflow result %s` waits for it", args[0], view.Status(d.Info), args[0])}
			}
		} else if err := g.reach(ctx, cl, args[0], *run); err != nil {
			return err
		}
		return g.await(ctx, cl, cmd, args[0], *run)
	})
	return c
}

// await prints the result; a run that did not complete is an error of its own.
func (g *globals) await(ctx context.Context, cl *client.Client, cmd *cobra.Command, id, run string) error {
	res, err := cl.Await(ctx, id, run)
	if err != nil {
		return err
	}
	if g.output != "table" {
		if err := g.document(cmd.OutOrStdout(), res); err != nil {
			return err
		}
	}
	status := view.Status(&pb.RunInfo{Status: res.Status, UndoState: res.UndoState})
	if res.Status != pb.Status_STATUS_COMPLETED {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s (run %s) %s\n", view.Clean(id), res.RunId, status)
		if err := view.Failure(cmd.ErrOrStderr(), res.Failure); err != nil {
			return err
		}
		return &exitError{exitNotDone, fmt.Errorf("the run did not complete: `engined workflow history %s` tells why", id)}
	}
	if g.output != "table" {
		return nil
	}
	return g.value(cmd.OutOrStdout(), view.PayloadJSON(res.Result))
}

// value prints a result alone, as it is.
func (g *globals) value(w io.Writer, v json.RawMessage) error {
	_, err := fmt.Fprintf(w, "%s\n", v)
	return err
}
