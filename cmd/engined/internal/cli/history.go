package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

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
		Long: `Show a run's events, one a line; or draw them. Long inputs, results and messages are
cut there: -o json has all of them, and the stacks of panics.`,
		Example: `  engined workflow history order-1
  engined workflow history order-1 --timeline
  engined workflow history order-1 -o jsonl | jq 'select(.kind == "ActivityFailed")'`,
		Args: oneID,
	}
	run := runFlag(c)
	c.Flags().BoolVar(&follow, "follow", false, "go on as the run does, to its end")
	c.Flags().BoolVar(&timeline, "timeline", false, "draw a row for each activity, timer and undo")
	c.MarkFlagsMutuallyExclusive("follow", "timeline")
	c.RunE = g.run(func(ctx context.Context, s *session, args []string) error {
		if timeline && !s.tables() {
			return usage("--timeline is a picture: it has no form in %s", s.output)
		}
		d, err := s.look(ctx, args[0], *run)
		if err != nil {
			return err
		}
		r := client.Get[any](s.cl, args[0], d.Info.RunId)
		if timeline {
			return s.timeline(ctx, r, d)
		}
		all := s.inTime(ctx, r)
		if follow {
			all = r.Follow(ctx)
			s.goesOn(args[0])
		}
		w, err := s.events(ctx, all, follow)
		if err != nil {
			return err
		}
		if err := w.end(nil); err != nil {
			return err
		}
		if !follow && !settled(d.Info) && s.tables() {
			s.say("%s is %s: --follow goes on with it, %s tells what it waits for", view.Clean(args[0]), view.Status(d.Info), s.try("workflow describe", args[0]))
		}
		return nil
	})
	return c
}

// inTime yields a history, and gives up when the engine does not give the next
// page within the time limit. How long the reader takes does not count.
func (s *session) inTime(ctx context.Context, r *client.Run[any]) iter.Seq2[*pb.Event, error] {
	return func(yield func(*pb.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		late := time.AfterFunc(s.timeout, func() { cancel(context.DeadlineExceeded) })
		defer late.Stop()
		for e, err := range r.History(ctx) {
			late.Stop()
			if !yield(e, err) {
				return
			}
			late.Reset(s.timeout)
		}
	}
}

// timeline draws the history and, of a run that is open, what it is at.
func (s *session) timeline(ctx context.Context, r *client.Run[any], d *pb.DescribeResponse) error {
	var t view.Timeline
	for e, err := range s.inTime(ctx, r) {
		if err != nil {
			return err
		}
		t.Add(e)
	}
	if !settled(d.Info) {
		t.GoesOn(d.Waiting, s.now().UnixNano())
	}
	out := s.cmd.OutOrStdout()
	return t.Draw(out, s.columns(out))
}

// defaultWidth is how wide a picture is where no terminal says.
const defaultWidth = 100

// columns is how wide the terminal is, by itself or by the environment.
func (g *globals) columns(out io.Writer) int {
	if n := g.terminal(out); n > 0 {
		return n
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return defaultWidth
}

// events writes a history as it comes, and returns what ends the output.
func (s *session) events(ctx context.Context, all iter.Seq2[*pb.Event, error], live bool) (*eventWriter, error) {
	out := bufio.NewWriterSize(s.cmd.OutOrStdout(), 64<<10)
	w := &eventWriter{output: s.output, out: out, lines: view.NewHistory(out, s.names(ctx))}
	for e, err := range all {
		if err == nil {
			err = w.write(e)
		}
		if err == nil && live {
			err = out.Flush()
		}
		if err != nil {
			_ = out.Flush() // the error is what is told
			return nil, err
		}
	}
	return w, out.Flush()
}

// eventWriter writes events in the form that was asked for, one after the other: a
// long history is never in memory whole.
type eventWriter struct {
	output string
	out    *bufio.Writer
	lines  *view.History
	some   bool
}

func (w *eventWriter) write(e *pb.Event) error {
	switch w.output {
	case "table":
		return w.lines.Write(e)
	case "jsonl":
		_, err := fmt.Fprintf(w.out, "%s\n", view.JSON(e))
		return err
	}
	before := `{"events":[`
	if w.some {
		before = ","
	}
	w.some = true
	_, err := fmt.Fprintf(w.out, "%s\n  %s", before, view.JSON(e))
	return err
}

// end writes what comes behind the events: the result, if there is one, and the
// end of the document.
func (w *eventWriter) end(res *pb.Result) error {
	switch {
	case w.output == "jsonl" && res != nil:
		fmt.Fprintf(w.out, "{\"result\":%s}\n", view.JSON(res))
	case w.output == "json":
		if !w.some {
			fmt.Fprint(w.out, `{"events":[`)
		}
		fmt.Fprint(w.out, "\n]")
		if res != nil {
			fmt.Fprintf(w.out, ",\n\"result\":%s", view.JSON(res))
		}
		fmt.Fprint(w.out, "}\n")
	}
	return w.out.Flush() // which has the error of what was written before
}
