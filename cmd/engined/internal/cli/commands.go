package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
	"github.com/engined/engined/sdk/client"
)

// The environment variables that stand for flags.
const (
	addressEnv   = "ENGINED_ADDRESS"
	namespaceEnv = "ENGINED_NAMESPACE"
)

// globals are what all commands share.
type globals struct {
	address, namespace, output string
	timeout                    time.Duration
	now                        func() time.Time
}

// Commands returns the commands, to be added to a root.
func Commands() []*cobra.Command {
	g := &globals{now: time.Now}
	trees := []*cobra.Command{g.workflow(), g.worker(), g.queue()}
	for _, c := range trees {
		f := c.PersistentFlags()
		f.StringVar(&g.address, "address", or(os.Getenv(addressEnv), "127.0.0.1:7450"), "where the engine is, host:port; several separated by commas (env "+addressEnv+")")
		f.StringVar(&g.namespace, "namespace", or(os.Getenv(namespaceEnv), "default"), "the namespace (env "+namespaceEnv+")")
		f.StringVarP(&g.output, "output", "o", "table", "table, json (one document) or jsonl (one object a line)")
		f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait for an answer; commands that follow or await a run are not bounded")
		complete(c, "output", outputs...)
	}
	return append(trees, exitCodesTopic())
}

var outputs = []string{"table", "json", "jsonl"}

// complete tells a shell the words that a flag takes.
func complete(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was just added
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// check refuses what no command can work with.
func (g *globals) check() error {
	if !slices.Contains(outputs, g.output) {
		return usage("--output %q: it is one of %s", g.output, strings.Join(outputs, ", "))
	}
	if g.timeout <= 0 {
		return usage("--timeout %v: give more than 0, such as 10s", g.timeout)
	}
	return nil
}

// run makes a command's function: with a client, and errors that say what to do.
func (g *globals) run(f func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if err := g.check(); err != nil {
			return err
		}
		c, err := client.Dial(g.address, client.Options{
			Namespace: g.namespace, Codec: rawCodec{}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return g.told(err)
		}
		if err := g.hello(cmd.Context()); err != nil {
			return err
		}
		err = g.told(f(cmd.Context(), c, cmd, args))
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		return err
	}
}

// short bounds a call that is answered at once.
func (g *globals) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.timeout)
}

// document writes one object: as a document, or, for jsonl, as a line.
func (g *globals) document(w io.Writer, m proto.Message) error {
	return g.raw(w, view.JSON(m))
}

func (g *globals) raw(w io.Writer, doc json.RawMessage) error {
	if g.output == "jsonl" {
		_, err := fmt.Fprintf(w, "%s\n", doc)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// list writes a list: as one document, an object with the list under its name, or
// as a line each.
func list[M proto.Message](g *globals, w io.Writer, name string, all []M, next string) error {
	if g.output == "jsonl" {
		for _, m := range all {
			if err := g.document(w, m); err != nil {
				return err
			}
		}
		return nil
	}
	doc := map[string]any{}
	items := []json.RawMessage{}
	for _, m := range all {
		items = append(items, view.JSON(m))
	}
	doc[name] = items
	if next != "" {
		doc["next"] = next
	}
	data, err := marshal(doc)
	if err != nil {
		return err
	}
	return g.raw(w, data)
}

// marshal is json.Marshal without the escapes that HTML would need.
func marshal(v any) (json.RawMessage, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), err
}
