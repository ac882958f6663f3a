package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/sdk/client"
)

type startFlags struct {
	id, queue, input, file, request, conflict, reuse string
	given                                            bool // an input, if only an empty one
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
	fl.BoolVar(&f.wait, "wait", false, "wait for the result and print it, as engined workflow result does")
	complete(c, "on-conflict", conflictWords...)
	complete(c, "on-reuse", reuseWords...)
	begin := g.run(func(ctx context.Context, s *session, args []string) error { return f.start(ctx, s, args[0]) })
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd); err != nil {
			return err
		}
		return begin(cmd, args)
	}
	return c
}

// check refuses what is wrong by itself, before anything is asked.
func (f *startFlags) check(cmd *cobra.Command) error {
	input := 0
	for _, flag := range []string{"input", "input-file"} {
		if cmd.Flags().Changed(flag) {
			input++
		}
	}
	f.given = input > 0
	if input > 1 {
		return usage("--input and --input-file are both given: give one")
	}
	return errors.Join(oneOf("on-conflict", f.conflict, conflictWords), oneOf("on-reuse", f.reuse, reuseWords))
}

func (f *startFlags) start(ctx context.Context, s *session, typ string) error {
	input, err := f.read(s.cmd.InOrStdin())
	if err != nil {
		return err
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
	s.interrupted = "the run may have been started: " + s.try("workflow list", "--type", typ) + " shows it"
	short, cancel := s.short(ctx)
	defer cancel()
	run, err := client.StartNamed[any](short, s.cl, typ, input, opts...)
	if err != nil {
		return s.taken(f, err)
	}
	if f.wait {
		return s.await(ctx, run.WorkflowID, run.RunID)
	}
	if err := s.started(run); err != nil {
		return err
	}
	f.tellIfUnknown(ctx, s, typ)
	return nil
}

// taken says what can be done about an id that has a run.
func (s *session) taken(f *startFlags, err error) error {
	var e *client.Error
	if !client.IsAlreadyExists(err) || !errors.As(err, &e) || e.RunID == "" {
		return err
	}
	id := or(f.id, f.request)
	return &exitError{exitConflict, fmt.Sprintf("%s: %s shows it; --id names another id, --on-conflict use-existing takes an open run as it is, --on-reuse says which closed ones are in the way",
		view.Clean(e.Message), s.try("workflow describe", id, "--run-id", e.RunID)), err}
}

func (s *session) started(run *client.Run[any]) error {
	if !s.tables() {
		return s.object(s.cmd.OutOrStdout(), map[string]any{"workflow_id": run.WorkflowID, "run_id": run.RunID, "started": run.Started})
	}
	what := "started"
	if !run.Started {
		what = "was there already"
	}
	if _, err := fmt.Fprintf(s.cmd.OutOrStdout(), "%s\n", view.Clean(run.WorkflowID)); err != nil {
		return err
	}
	s.say("run %s %s: %s follows it", run.RunID, what, s.try("workflow watch", run.WorkflowID))
	return nil
}

// tellIfUnknown warns that the run waits for a worker that knows its type: mostly
// the type is misspelt. It is silent if the engine does not say.
func (f *startFlags) tellIfUnknown(ctx context.Context, s *session, typ string) {
	queues, err := s.queues(ctx)
	if err != nil {
		return
	}
	var known []string
	for _, q := range queues {
		for _, t := range q.Types {
			if q.Queue != f.queue || !t.Workflow || t.Workers == 0 {
				continue
			}
			if t.Type == typ {
				return
			}
			known = append(known, view.Clean(t.Type))
		}
	}
	s.say("no connected worker on queue %s knows %s: the run waits for one%s; known there: %s",
		view.Clean(f.queue), view.Clean(typ), elsewhere(queues, f.queue, typ), or(strings.Join(known[:min(len(known), 10)], ", "), "none"))
}

// read returns the input byte for byte, without the white space around it.
func (f *startFlags) read(stdin io.Reader) (json.RawMessage, error) {
	data, from := []byte(f.input), "--input"
	var err error
	switch {
	case f.file == "-":
		from = "standard input"
		if data, err = io.ReadAll(stdin); err != nil {
			return nil, fmt.Errorf("read the input from standard input: %w", err)
		}
	case f.file != "":
		from = f.file
		if data, err = os.ReadFile(f.file); err != nil {
			return nil, usage("read the input: %v", err)
		}
	}
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 && f.given:
		// A variable or a file that is empty by mistake must not start anything.
		return nil, usage("%s is empty: leave it out to start without an input, or give null", view.Clean(from))
	case len(data) == 0:
		return nil, nil
	case !utf8.Valid(data):
		return nil, usage("%s is not valid UTF-8, so it is no JSON", view.Clean(from))
	}
	return data, checkJSON(view.Clean(from), data)
}

// checkJSON refuses what is no JSON text, and says where.
func checkJSON(from string, data []byte) error {
	var bad *json.SyntaxError
	var v json.RawMessage
	if err := json.Unmarshal(data, &v); !errors.As(err, &bad) {
		return err
	}
	// The offset counts what was read, the wrong byte included.
	at := min(max(int(bad.Offset)-1, 0), len(data))
	if isCutShort(data) {
		return usage("%s is no JSON: it ends too early, after %d bytes", from, len(data))
	}
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(data[:at], '\n')
	hint := "check what stands there"
	if at < len(data) && (unicode.IsLetter(rune(data[at])) || data[at] == '\'') {
		hint = `keys and texts need quotes, as in '{"id": "order-1"}'`
	}
	return usage("%s is no JSON: %v, at line %d, column %d, near %q: %s", from, bad, line, column, data[max(at-10, 0):min(at+10, len(data))], hint)
}

// isCutShort says whether more could make it JSON.
func isCutShort(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	var v json.RawMessage
	return errors.Is(d.Decode(&v), io.ErrUnexpectedEOF)
}
