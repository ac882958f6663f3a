package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
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
	exitInterrupted = 130 // as shells count a process that Ctrl-C has ended
)

// exitError carries the exit code to main, with the words for a person.
type exitError struct {
	code int
	text string
	err  error // may be nil
}

func (e *exitError) Error() string { return e.text }
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is how the process ends.
func (e *exitError) ExitCode() int { return e.code }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...), nil}
}

// told makes of an error one that has an exit code and says what to do next.
func (s *session) told(ctx context.Context, err error) error {
	var coded *exitError
	why := ""
	if err != nil {
		why = reason(err)
	}
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, "interrupted: " + or(s.interrupted, "nothing was changed"), err}
	case client.IsNotFound(err):
		return &exitError{exitNotFound, why + ": " + s.try("workflow list") + " shows which there are", err}
	case client.IsAlreadyExists(err):
		return &exitError{exitConflict, why, err}
	case client.IsInvalidArgument(err):
		return &exitError{exitUsage, fmt.Sprintf("%s: see `%s --help`", why, s.cmd.CommandPath()), err}
	case errors.Is(err, context.DeadlineExceeded), client.IsUnavailable(err):
		return &exitError{exitUnreachable, fmt.Sprintf("%s has not done it within %v: %s: try again, or allow for more by --timeout", s.address, s.timeout, why), err}
	case client.IsResourceExhausted(err):
		return &exitError{exitFailure, why + ": try again later", err}
	default:
		return &exitError{exitFailure, why, err}
	}
}

// reason is why a call failed, in the engine's words without those that are for
// programs.
func reason(err error) string {
	var e *client.Error
	known := errors.As(err, &e)
	switch {
	case known && status.Code(e.Err) == codes.DeadlineExceeded, !known && errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case !known:
		return oneLine(err.Error())
	case e.Hint == "" || client.IsUnavailable(err) || client.IsNotFound(err):
		// What to do is said here, and for who types.
		return oneLine(e.Message)
	default:
		return oneLine(e.Message + ", " + e.Hint)
	}
}

// oneLine is a text without what a terminal would obey, and without the frames
// in which gRPC tells why it could not connect.
func oneLine(text string) string {
	if framed, ok := strings.CutPrefix(text, `connection error: desc = "`); ok {
		text = strings.TrimPrefix(strings.TrimSuffix(framed, `"`), "transport: Error while dialing: ")
	}
	return view.Clean(strings.ReplaceAll(text, "\n", " "))
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes of the commands",
		Long: `0     done
1     the engine refused, or failed
2     wrong usage: a flag, an argument, an input that is no JSON, a question that
      was not answered with yes; nothing was done
3     there is no such run
4     no engine answered in time
5     the awaited run did not complete: it failed, was cancelled or terminated, or
      timed out; with --no-wait: it is not settled yet
6     the workflow id is taken
130   interrupted by Ctrl-C or SIGTERM`,
	}
}
