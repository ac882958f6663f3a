// Engined is the durable workflow engine as a program: the server, and the
// commands that look inside one.
//
// This package is wiring: it joins the commands, the configuration and the
// server, and says how the process ends. Everything else stands below it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/cli"
	"github.com/engined/engined/cmd/engined/internal/config"
	"github.com/engined/engined/cmd/engined/internal/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the system's own handling holds again: a second one
	// ends the process at once. Nothing acknowledged is lost by that.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root, begun := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var record *recordError
	if errors.As(err, &record) {
		slog.New(slog.NewJSONHandler(stderr, nil)).Error("engined ends", "err", err)
		return exitCode(err)
	}
	fmt.Fprintf(stderr, "engined: %v\n", err)
	if !*begun {
		fmt.Fprintf(stderr, "see %s --help\n", cmd.CommandPath())
		return server.ExitUsage
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	var wrong *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.As(err, &wrong):
		return server.ExitUsage
	}
	return server.ExitCode(err)
}

// newRoot returns the command line. begun becomes true when a command runs:
// an error before that is one of usage.
func newRoot() (root *cobra.Command, begun *bool) {
	begun = new(bool)
	root = &cobra.Command{
		Use:   "engined",
		Short: "A durable workflow engine: functions that survive crashes",
		Long: `A durable workflow engine: functions that survive crashes.

"engined dev" runs an engine to try things on, "engined serve" one to rely on.
The other commands reach a running engine. "engined completion --help" says how
a shell completes them.`,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { *begun = true },
	}
	root.AddCommand(devCommand(), serveCommand(), configCommand(), versionCommand())
	root.AddCommand(cli.Commands()...)
	for _, c := range root.Commands() {
		strict(c)
	}
	return root, begun
}

// strict lets groups of commands refuse a name that is none of theirs: cobra
// alone would print the help and succeed.
func strict(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = cobra.NoArgs
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}
