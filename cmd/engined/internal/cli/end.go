package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
)

func (g *globals) cancel() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel WORKFLOW-ID",
		Short: "Ask a run to end by itself; its code may clean up, steps that have an undo are undone",
		Args:  oneID,
	}
	run := runFlag(c)
	reason := c.Flags().String("reason", "", "why, for the history")
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		s.mayHaveDone(d.Info)
		short, cancel := s.short(ctx)
		defer cancel()
		if err := client.Get[any](s.cl, args[0], d.Info.RunId).Cancel(short, *reason); err != nil {
			return s.tooLate(d.Info, err)
		}
		return s.cancelled(ctx, d)
	})
	return c
}

// cancelled tells what comes after a cancel. d is how the run was before.
func (s *session) cancelled(ctx context.Context, d *pb.DescribeResponse) error {
	id, again := d.Info.WorkflowId, d.CancelRequested
	d, err := s.look(ctx, id, d.Info.RunId)
	if err != nil {
		return err
	}
	if !s.tables() {
		return s.object(s.cmd.OutOrStdout(), map[string]any{"run": view.JSON(d.Info), "already": again})
	}
	watch := s.try("workflow watch", id)
	switch grace := graceOf(d); {
	case d.Info.Status != pb.Status_STATUS_RUNNING:
		s.say("%s is %s: %s shows how it ended", view.Clean(id), view.Status(d.Info), s.try("workflow history", id))
	case grace > 0:
		asked := "is asked to end"
		if again {
			asked = "was asked to end before"
		}
		s.say("%s %s; if its code does not, the engine ends it %s; steps that have an undo are undone: %s follows it",
			view.Clean(id), asked, view.In(grace, s.now().UnixNano()), watch)
	default:
		s.say("%s is asked to end: %s follows it", view.Clean(id), watch)
	}
	return nil
}

// graceOf is when the engine ends a cancelled run, 0 if that is not known.
func graceOf(d *pb.DescribeResponse) int64 {
	for _, x := range d.Waiting {
		if x.Kind == "grace" {
			return x.Until
		}
	}
	return 0
}

// mayHaveDone says what to do when the command is interrupted while it acts.
func (s *session) mayHaveDone(r *pb.RunInfo) {
	s.interrupted = "it may have been done: " + s.try("workflow describe", r.WorkflowId, "--run-id", r.RunId) + " shows it"
}

// tooLate is the error of a run that had ended.
func (s *session) tooLate(r *pb.RunInfo, err error) error {
	if !client.IsNotRunning(err) {
		return err
	}
	return &exitError{exitFailure, reason(err) + ": " + s.try("workflow describe", r.WorkflowId, "--run-id", r.RunId) + " shows how it ended", err}
}

func (g *globals) terminate() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "terminate WORKFLOW-ID",
		Short: "End a run at once, whatever its code says; steps that have an undo are undone",
		Long: `End a run at once. Its code is not asked and does not clean up; the engine undoes the
steps that have an undo. "engined workflow cancel" is gentler.

It shows the run and asks before. Where nobody can be asked, --yes must be given.`,
		Args: oneID,
	}
	run := runFlag(c)
	reason := c.Flags().String("reason", "", "why, for the history")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		if !yes && d.Info.Status == pb.Status_STATUS_RUNNING {
			if err := s.confirm(d); err != nil {
				return err
			}
		}
		s.mayHaveDone(d.Info)
		short, cancel := s.short(ctx)
		defer cancel()
		if err := client.Get[any](s.cl, args[0], d.Info.RunId).Terminate(short, *reason); err != nil {
			return s.tooLate(d.Info, err)
		}
		return s.terminated(ctx, d.Info)
	})
	return c
}

func (s *session) terminated(ctx context.Context, r *pb.RunInfo) error {
	d, err := s.look(ctx, r.WorkflowId, r.RunId)
	if err != nil {
		return err
	}
	if !s.tables() {
		return s.object(s.cmd.OutOrStdout(), map[string]any{"run": view.JSON(d.Info)})
	}
	what := "nothing had to be undone"
	switch d.Info.UndoState {
	case pb.UndoState_UNDO_STATE_COMPENSATING:
		what = "what was armed is being undone: " + s.try("workflow watch", r.WorkflowId) + " follows it"
	case pb.UndoState_UNDO_STATE_COMPENSATED:
		what = "what was armed is undone: " + s.try("workflow history", r.WorkflowId) + " shows it"
	case pb.UndoState_UNDO_STATE_FAILED:
		what = "an undo has failed for good: " + s.try("workflow describe", r.WorkflowId) + " shows which"
	}
	s.say("%s is %s; %s", view.Clean(r.WorkflowId), view.Status(&pb.RunInfo{Status: d.Info.Status}), what)
	return nil
}

// confirm shows the run, and where it is, and asks. It is this very run that is
// ended then, and not one that has its id meanwhile.
func (s *session) confirm(d *pb.DescribeResponse) error {
	r, in := d.Info, s.cmd.InOrStdin()
	if s.terminal(in) == 0 {
		return usage("to terminate %s (run %s) needs --yes where nobody can be asked: nothing was done", view.Clean(r.WorkflowId), view.Clean(r.RunId))
	}
	var undos []string
	for _, x := range d.Waiting {
		if x.Kind == "ledger" {
			undos = append(undos, x.Op+" "+x.Type)
		}
	}
	const shown = 5
	undo := "nothing is armed to be undone"
	if n := len(undos); n > shown {
		undo = fmt.Sprintf("%d steps are undone: %s, …", n, strings.Join(undos[:shown], ", "))
	} else if n > 0 {
		undo = "these steps are undone: " + strings.Join(undos, ", ")
	}
	s.say("Terminate %s at %s, in namespace %s?", view.Clean(r.WorkflowId), s.address, s.namespace)
	s.say("  %s, %s, started %s, run %s", view.Clean(r.Type), view.Status(r), view.Ago(r.Started, s.now().UnixNano()), view.Clean(r.RunId))
	s.say("  its code does not clean up; %s", view.Clean(undo))
	fmt.Fprint(s.cmd.ErrOrStderr(), "[y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return usage("nothing was done: the answer was not yes")
	}
	return nil
}
