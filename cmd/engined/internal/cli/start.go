package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/sdk/client"
)

type startFlags struct {
	id, queue, input, file, request, conflict, reuse string
	wait                                             bool
}

var (
	conflicts = map[string]client.Conflict{"fail": client.Fail, "use-existing": client.UseExisting}
	reuses    = map[string]client.Reuse{"allow": client.AllowReuse, "if-not-completed": client.AllowIfNotCompleted, "reject": client.RejectReuse}
)

var (
	conflictWords = []string{"fail", "use-existing"}
	reuseWords    = []string{"allow", "if-not-completed", "reject"}
)

func (g *globals) start() *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use:   "start TYPE",
		Short: "Start a run of a workflow type",
		Example: `  engined workflow start PlaceOrder --id order-1 --input '{"item":"tea"}'
  engined workflow start PlaceOrder --id order-1 --input-file order.json --wait
  jq .order all.json | engined workflow start PlaceOrder --input-file -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage("give one workflow type: %s; `engined queue list` shows which the workers know", cmd.UseLine())
			}
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.id, "id", "", "the workflow id; one is made if it is empty")
	fl.StringVar(&f.queue, "queue", "default", "the task queue")
	fl.StringVar(&f.input, "input", "", "the input, as JSON; it is passed on as it is")
	fl.StringVar(&f.file, "input-file", "", "a file that holds the input, or - for standard input")
	fl.StringVar(&f.request, "request-id", "", "makes a repeat of this command harmless, also after the run has closed")
	fl.StringVar(&f.conflict, "on-conflict", "fail", "if the id has an open run: "+strings.Join(conflictWords, ", "))
	fl.StringVar(&f.reuse, "on-reuse", "allow", "if the id had runs that are closed: "+strings.Join(reuseWords, ", "))
	fl.BoolVar(&f.wait, "wait", false, "wait for the result and print it, as `engined workflow result` does")
	complete(c, "on-conflict", conflictWords...)
	complete(c, "on-reuse", reuseWords...)
	c.RunE = g.run(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		opts, input, err := f.options(cmd)
		if err != nil {
			return err
		}
		short, cancel := g.short(ctx)
		defer cancel()
		run, err := client.StartNamed[any](short, cl, args[0], input, opts...)
		if err != nil {
			return err
		}
		if f.wait {
			return g.await(ctx, cl, cmd, run.WorkflowID, run.RunID)
		}
		return g.started(cmd, run)
	})
	return c
}

func (g *globals) started(cmd *cobra.Command, run *client.Run[any]) error {
	if g.output != "table" {
		doc, err := marshal(map[string]any{"workflow_id": run.WorkflowID, "run_id": run.RunID, "started": run.Started})
		if err != nil {
			return err
		}
		return g.raw(cmd.OutOrStdout(), doc)
	}
	what := "started"
	if !run.Started {
		what = "was there already"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", view.Clean(run.WorkflowID))
	fmt.Fprintf(cmd.ErrOrStderr(), "run %s %s: `engined workflow watch %s` follows it\n", run.RunID, what, run.WorkflowID)
	return nil
}

// options checks what was given before anything is sent.
func (f *startFlags) options(cmd *cobra.Command) ([]client.StartOption, json.RawMessage, error) {
	if !slices.Contains(conflictWords, f.conflict) {
		return nil, nil, usage("--on-conflict %q: it is one of %s", f.conflict, strings.Join(conflictWords, ", "))
	}
	if !slices.Contains(reuseWords, f.reuse) {
		return nil, nil, usage("--on-reuse %q: it is one of %s", f.reuse, strings.Join(reuseWords, ", "))
	}
	input, err := f.read(cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	opts := []client.StartOption{
		client.Queue(f.queue), client.OnConflict(conflicts[f.conflict]), client.OnReuse(reuses[f.reuse]),
	}
	if f.id != "" {
		opts = append(opts, client.ID(f.id))
	}
	if f.request != "" {
		opts = append(opts, client.RequestID(f.request))
	}
	return opts, input, nil
}

// read returns the input byte for byte, without the white space around it.
func (f *startFlags) read(stdin io.Reader) (json.RawMessage, error) {
	data, from := []byte(f.input), "--input"
	switch {
	case f.input != "" && f.file != "":
		return nil, usage("--input and --input-file are both given: give one")
	case f.file == "-":
		from = "standard input"
		var err error
		if data, err = io.ReadAll(stdin); err != nil {
			return nil, fmt.Errorf("read the input from standard input: %w", err)
		}
	case f.file != "":
		from = f.file
		var err error
		if data, err = os.ReadFile(f.file); err != nil {
			return nil, usage("read the input: %v", err)
		}
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, nil
	}
	var bad *json.SyntaxError
	var v json.RawMessage
	if err := json.Unmarshal(data, &v); errors.As(err, &bad) {
		return nil, usage("%s is no JSON: %v at byte %d, near %q: a text needs quotes, as in '\"tea\"'", from, bad, bad.Offset, near(data, bad.Offset))
	} else if err != nil {
		return nil, usage("%s is no JSON: %v", from, err)
	}
	return data, nil
}

func near(data []byte, at int64) string {
	from, to := max(int(at)-10, 0), min(int(at)+10, len(data))
	return string(data[from:to])
}

// confirm asks on a terminal; elsewhere nobody can answer.
func confirm(cmd *cobra.Command, question string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if ok {
		info, err := in.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		return usage("this needs --yes where nobody can be asked")
	}
	fmt.Fprint(cmd.ErrOrStderr(), question, " [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return usage("nothing was done")
	}
	return nil
}
