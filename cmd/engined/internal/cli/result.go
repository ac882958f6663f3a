package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

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
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		if noWait && !settled(d.Info) {
			return &exitError{exitNotDone, fmt.Sprintf("%s is %s: %s waits for it", view.Clean(args[0]), view.Status(d.Info), s.try("workflow result", args[0])), nil}
		}
		return s.await(ctx, args[0], d.Info.RunId)
	})
	return c
}

func (g *globals) watch() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch WORKFLOW-ID",
		Short: "Follow a run, an event a line, to its end and its result",
		Args:  oneID,
	}
	run := runFlag(c)
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		s.goesOn(args[0])
		defer s.tellIfHeld(ctx, args[0], d.Info.RunId)()
		w, err := s.events(ctx, client.Get[any](s.cl, args[0], d.Info.RunId).Follow(ctx), true)
		if err != nil {
			return err
		}
		res, err := s.cl.Await(ctx, args[0], d.Info.RunId)
		if err != nil {
			return err
		}
		if err := w.end(res); err != nil {
			return err
		}
		return s.verdict(args[0], res)
	})
	return c
}

// goesOn says what becomes of a run whose watcher leaves.
func (s *session) goesOn(id string) {
	s.interrupted = "the run goes on: " + s.try("workflow result", id) + " waits for its result"
}

// await waits for the result and prints it.
func (s *session) await(ctx context.Context, id, run string) error {
	s.goesOn(id)
	stop := s.tellIfHeld(ctx, id, run)
	res, err := s.cl.Await(ctx, id, run)
	stop()
	if err != nil {
		return err
	}
	if !s.tables() {
		if err := s.raw(s.cmd.OutOrStdout(), view.JSON(res)); err != nil {
			return err
		}
	}
	return s.verdict(id, res)
}

// verdict tells people how the run ended: the result alone on standard output. A
// run that did not complete is an error of its own.
func (s *session) verdict(id string, res *pb.Result) error {
	if res.Status == pb.Status_STATUS_COMPLETED {
		if !s.tables() {
			return nil
		}
		_, err := fmt.Fprintf(s.cmd.OutOrStdout(), "%s\n", view.PayloadJSON(res.Result))
		return err
	}
	s.say("%s (run %s) %s", view.Clean(id), res.RunId, view.Status(&pb.RunInfo{Status: res.Status, UndoState: res.UndoState}))
	if err := view.Failure(s.cmd.ErrOrStderr(), res.Failure); err != nil {
		return err
	}
	return &exitError{exitNotDone, "the run did not complete: " + s.try("workflow history", id, "--run-id", res.RunId) + " tells why", nil}
}
