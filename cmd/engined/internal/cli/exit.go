package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/engined/engined/sdk/client"
)

// The exit codes; docs/cli.md and "engined help exit-codes" list them.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
	exitNotDone     = 5
	exitConflict    = 6
)

// exitError carries the exit code to main.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is how the process ends.
func (e *exitError) ExitCode() int { return e.code }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// told adds to an error of the engine the exit code, and what to do next.
func (g *globals) told(err error) error {
	var coded *exitError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case client.IsNotFound(err):
		return &exitError{exitNotFound, fmt.Errorf("%w: see `engined workflow list`", err)}
	case client.IsAlreadyExists(err):
		return &exitError{exitConflict, err}
	case client.IsInvalidArgument(err):
		return &exitError{exitUsage, err}
	case client.IsUnavailable(err), errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitUnreachable, fmt.Errorf("no answer from %s within %v: %w: is an engine running there? `engined dev` starts one, --address names another", g.address, g.timeout, err)}
	default:
		return &exitError{exitFailure, err}
	}
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes of the commands",
		Long: `0   done
1   the engine refused, or failed
2   wrong usage: a flag, an argument, an input that is no JSON
3   there is no such run
4   no engine answered in time
5   the awaited run did not complete: it failed, was cancelled or terminated, or timed out
6   the workflow id is taken`,
	}
}
