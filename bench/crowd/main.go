package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		stop()
		os.Exit(1)
	}
}

// Echo is the probe's workflow: one activity.
func Echo(ctx workflow.Context, in string) (string, error) { return workflow.Do(ctx, Say, in) }

// Say returns what it is given.
func Say(_ context.Context, in string) (string, error) { return in, nil }

// Blow is a workflow whose result is as large as its input says, in bytes.
func Blow(ctx workflow.Context, n int) (string, error) { return workflow.Do(ctx, Large, n) }

// Large makes a result of n bytes.
func Large(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }

// Many is a workflow of so many activities, for a history that is worth reading.
func Many(ctx workflow.Context, n int) (int, error) {
	for range n {
		if _, err := workflow.Do(ctx, Say, "again"); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("crowd", flag.ContinueOnError)
	path := flags.String("engined", "", "the engine's binary; built if empty")
	span := flags.Duration("for", 5*time.Second, "how long the probe watches each guest at least")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "engined-crowd-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *path == "" {
		*path = filepath.Join(dir, "engined")
		build := exec.CommandContext(ctx, "go", "build", "-o", *path, "github.com/engined/engined/cmd/engined")
		if msg, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the engine: %w\n%s", err, msg)
		}
	}
	e, err := startEngine(ctx, *path, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	c, err := client.Dial(e.address, client.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := worker.Dial(e.address, worker.Options{})
	if err != nil {
		return err
	}
	worker.Workflow(w, Echo)
	worker.Workflow(w, Blow)
	worker.Workflow(w, Many)
	worker.Activity(w, Say)
	worker.Activity(w, Large)
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(out, "%-34s %10s %9s %9s %9s  %s\n", "guest", "memory", "runs", "median", "p99", "")
	for _, g := range guests {
		said, p, err := beside(ctx, e, c, *span, g.visit)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		fmt.Fprintf(out, "%-34s %6d MiB %9d %9v %9v  %s\n", g.name, e.peak(), p.runs(), p.at(50), p.at(99), said)
	}
	return nil
}

// engineProcess is the engine under test.
type engineProcess struct {
	cmd     *exec.Cmd
	address string
	memory  memory
}

func startEngine(ctx context.Context, path, dir string) (*engineProcess, error) {
	cmd := exec.CommandContext(ctx, path, "serve", "--database", filepath.Join(dir, "engined.db"),
		"--grpc-address", "127.0.0.1:0", "--http-address", "", "--log-level", "error")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &engineProcess{cmd: cmd}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		for _, word := range strings.Fields(lines.Text()) {
			if strings.HasPrefix(word, "127.0.0.1:") {
				e.address = word
			}
		}
		if strings.Contains(lines.Text(), "ready") {
			return e, nil
		}
	}
	return nil, errors.Join(errors.New("the engine did not say that it is ready"), cmd.Process.Kill(), cmd.Wait())
}

func (e *engineProcess) stop() error {
	return errors.Join(e.cmd.Process.Signal(os.Interrupt), e.cmd.Wait())
}
