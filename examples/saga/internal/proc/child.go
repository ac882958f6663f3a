package proc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Again returns a Command for this program itself, with an entry added to its
// environment that tells it what to be.
func Again(env string) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, exe)
		cmd.Env = append(os.Environ(), env)
		return cmd, nil
	}
}

// Child returns a context for a process of a Group whose standard input is in:
// it ends when the group wants the process to end, and when the group's own
// process is gone, by whatever means.
func Child(ctx context.Context, in io.Reader) context.Context {
	ctx, end := context.WithCancel(ctx)
	// Nobody waits for this: it ends with the process.
	var aside sync.WaitGroup
	aside.Go(func() {
		// Nothing is ever written there: it ends, or its end fails, and both mean that
		// nobody is left.
		_, _ = io.Copy(io.Discard, in)
		end()
	})
	return ctx
}
