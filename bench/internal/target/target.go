// Package target is the engine under test: the shipped binary in a process of its
// own, on a database and ports of its own.
package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Process is a running engine. Make it with Start.
type Process struct {
	// Address is where it listens.
	Address string
	cmd     *exec.Cmd
}

// Start starts the binary at path, or, if that is empty, one that it builds into
// dir, and returns when it serves.
func Start(ctx context.Context, path, dir string) (*Process, error) {
	if path == "" {
		path = filepath.Join(dir, "engined")
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/engined/engined/cmd/engined")
		if msg, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the engine: %w\n%s", err, msg)
		}
	}
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
	p := &Process{cmd: cmd}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "grpc: "); ok {
			p.Address = addr
		}
		if lines.Text() == "ready" {
			return p, nil
		}
	}
	return nil, errors.Join(errors.New("the engine did not say that it is ready"), cmd.Process.Kill(), cmd.Wait())
}

// Pid is the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stop ends it in order.
func (p *Process) Stop() error {
	return errors.Join(p.cmd.Process.Signal(os.Interrupt), p.cmd.Wait())
}
