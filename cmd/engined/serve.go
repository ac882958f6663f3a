package main

import (
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/config"
	"github.com/engined/engined/cmd/engined/internal/server"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an engine as it is configured",
		Long: `Run an engine as it is configured: by flags, by the environment, by a file
(--config), in this order. "engined config docs" documents every option, "engined
config show" says what holds and why.

On standard output it prints what runs and where, a line each, the last one
"ready". Logs go to standard error. SIGTERM and SIGINT drain and stop it; a second
one ends it at once.

Exit codes: 0 stopped in order, 1 failed, 2 wrong usage or configuration, 70 the
engine ended by itself, as after a failed sync: start it again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, func(*config.Config, *server.Server) {})
		},
	}
	fileFlag(cmd)
	optionFlags(cmd)
	return cmd
}

func devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run an engine to try things on, on ./engined.db",
		Long: `Run an engine to try things on, with its database in ./engined.db, which is kept
between starts. It is "engined serve" without a file; the flags and the environment
are the same.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, tryIt(cmd)) },
	}
	optionFlags(cmd)
	return cmd
}

func serve(cmd *cobra.Command, ready func(*config.Config, *server.Server)) error {
	c, err := settle(cmd)
	if err != nil {
		return err
	}
	o := server.Options{Config: c, Build: build(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
	err = server.Run(cmd.Context(), o, func(s *server.Server) { ready(c, s) })
	if err != nil && c.LogFormat == "json" {
		return &recordError{err}
	}
	return err
}

// recordError is told as a record, since whoever reads the logs expects those.
type recordError struct{ err error }

func (e *recordError) Error() string { return e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }

func settle(cmd *cobra.Command) (*config.Config, error) {
	return config.Load(cmd.Context(), config.Sources{Flags: cmd.Flags(), Environ: os.Environ()})
}

// tryIt says what to do with an engine that has started.
func tryIt(cmd *cobra.Command) func(*config.Config, *server.Server) {
	return func(c *config.Config, s *server.Server) {
		if c.LogFormat != "text" {
			return
		}
		out, file := cmd.OutOrStdout(), "is new, and is kept when this ends"
		if s.Kept() {
			file = "was here; what it holds goes on"
		}
		address := ""
		if _, port, err := net.SplitHostPort(s.GRPCAddr().String()); err != nil || port != "7450" {
			address = " --address " + s.GRPCAddr().String()
		}
		fmt.Fprintf(out, "\nThe database %s.\nTry, in another terminal:\n\n    engined workflow list%s\n\n", file, address)
		if a := s.HTTPAddr(); a != nil {
			fmt.Fprintf(out, "Metrics: http://%s/metrics. ", a)
		}
		fmt.Fprintln(out, "Ctrl-C stops it.")
	}
}

// optionFlags adds the flags of the options, and how a shell completes them.
func optionFlags(cmd *cobra.Command) {
	config.Flags(cmd.Flags())
	must(cmd.MarkFlagFilename("database"))
	for name, words := range config.Choices() {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(slices.Clone(words), cobra.ShellCompDirectiveNoFileComp)))
	}
}

func fileFlag(cmd *cobra.Command) {
	config.FileFlag(cmd.Flags())
	must(cmd.MarkFlagFilename("config", "yaml", "yml"))
}

// must is for what can only fail if a flag that was just added is not there.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
