package cli

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
	// terminal tells how wide the terminal is that x is, 0 if it is none.
	terminal func(x any) int
}

// Commands returns the commands, to be added to a root.
func Commands() []*cobra.Command { return commands(time.Now, terminalWidth) }

func commands(now func() time.Time, terminal func(any) int) []*cobra.Command {
	g := &globals{now: now, terminal: terminal}
	trees := []*cobra.Command{g.workflow(), g.worker(), g.queue()}
	for _, c := range trees {
		f := c.PersistentFlags()
		f.StringVar(&g.address, "address", or(os.Getenv(addressEnv), "127.0.0.1:7450"), "where the engine is, host:port; several separated by commas (env "+addressEnv+")")
		f.StringVar(&g.namespace, "namespace", or(os.Getenv(namespaceEnv), "default"), "the namespace (env "+namespaceEnv+")")
		f.StringVarP(&g.output, "output", "o", "table", "table, json (one document) or jsonl (one object a line)")
		f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait for an answer; what follows or awaits a run is not bounded")
		complete(c, "output", outputs...)
		for _, sub := range c.Commands() {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
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

// oneOf refuses a word that a flag does not take; an empty one is no choice.
func oneOf(flag, word string, words []string) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return usage("--%s %q: it is one of %s", flag, word, strings.Join(words, ", "))
}

// oneID wants exactly one workflow id.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usage("give one workflow id: %s; `engined workflow list` shows which there are", cmd.UseLine())
	}
	return nil
}

// runFlag lets a command name one run of an id.
func runFlag(c *cobra.Command) *string {
	return c.Flags().String("run-id", "", "a run of the id that is not the newest")
}

func (g *globals) workflow() *cobra.Command {
	c := &cobra.Command{
		Use:   "workflow",
		Short: "Start runs, look at them, and end them",
	}
	c.AddCommand(g.start(), g.list(), g.describe(), g.history(), g.result(), g.watch(), g.cancel(), g.terminate())
	return c
}
