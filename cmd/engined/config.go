package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/engined/engined/cmd/engined/internal/config"
	"github.com/engined/engined/cmd/engined/internal/server"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration, or the documentation of every option",
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print what is in force, and where each value comes from",
		Long: `Print what "engined serve" would run with, given the same flags, environment and
file: as a file that says the same, with the source of each value beside it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := settle(cmd)
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				cmd.PrintErrln("engined: " + w)
			}
			return c.Show(cmd.OutOrStdout())
		},
	}
	fileFlag(show)
	optionFlags(show)
	cmd.AddCommand(show, &cobra.Command{
		Use:   "docs",
		Short: "Print the documentation of every option, as Markdown",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return docs(cmd.OutOrStdout()) },
	})
	return cmd
}

// docs writes docs/configuration.md.
func docs(w io.Writer) error {
	for _, part := range []func(io.Writer) error{
		text(intro), config.Docs, text(operating), server.MetricDocs, text(completion),
	} {
		if err := part(w); err != nil {
			return err
		}
	}
	return nil
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

const intro = `# Configuration

How ` + "`engined serve` and `engined dev`" + ` are configured and operated. This page is
what ` + "`engined config docs`" + ` prints; a test compares the two.

`

const operating = `
## Start

On standard output a start prints a line for each of these, in this order, and
nothing else before the last; what follows the colon may be relied on. Logs go to
standard error.

` + "```text" + `
version: v0.1.0
database: /var/lib/engined/engined.db
file: new
shards: 16
grpc: 127.0.0.1:7450
http: 127.0.0.1:7451
ready
` + "```" + `

` + "`file` is `new` or `kept`; `grpc` and `http` have the port that was taken where 0 was" + `
asked for; ` + "`http` is `off`" + ` when it is. With ` + "`log-format: json`" + ` each line is a record,
with the word before the colon as ` + "`msg`" + ` and the rest as ` + "`value`" + `.

## Stop

SIGTERM and SIGINT stop it in order: it is not ready any more, new calls are
refused, calls that only wait are sent away to come back, short ones are finished
within ` + "`drain-budget`" + `, the workers' streams are ended, the last commit is made and
the database is given back. A second signal ends the process at once, as the
system does it. Nothing that was acknowledged is lost, either way or with
` + "`kill -9`" + `: what was under way goes on after the next start.

| Exit code | |
|---|---|
| 0 | stopped in order |
| 1 | it failed: a port is taken, the database cannot be opened, … |
| 2 | the command line or the configuration is wrong; nothing was begun |
| 70 | the engine ended by itself, as after a failed sync; a start afterwards finds the truth on disk, so a supervisor should start it again |

## HTTP

| Path | |
|---|---|
| ` + "`/healthz`" + ` | 200 while the process answers |
| ` + "`/readyz`" + ` | 200 while requests are served, else 503 and the reason in a line: it starts, it is being shut down, the database cannot be written, the engine has stopped |
| ` + "`/metrics`" + ` | metrics in the text form of Prometheus |

The gRPC port also has the standard health service, and reflection.

## Metrics

Counts are since the start. Those of Go's runtime (` + "`go_…`) and of the process (`process_…`)" + `
are there as well.

`

const completion = `
## Shell completion

` + "`engined completion bash`" + ` (or ` + "`zsh`, `fish`, `powershell`" + `) prints a script; its
` + "`--help`" + ` says where the shell looks for one. For this session of bash alone:

` + "```sh" + `
source <(engined completion bash)
` + "```" + `
`
