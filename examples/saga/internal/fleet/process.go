package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/engined/engined/examples/saga/internal/service"
)

const (
	// startPatience is how long a service may take until it takes calls.
	startPatience = 15 * time.Second
	startTries    = 3
	// anyPort lets a service take a free port.
	anyPort = "127.0.0.1:0"
	// logTail is how much of a service's log an error quotes, in bytes.
	logTail = 2000
)

// process is one service and its present process.
type process struct {
	fleet  *Fleet
	config service.Config // Addr is where it listens since the first start
	deaths atomic.Int64

	mu       sync.Mutex
	cmd      *exec.Cmd
	stdin    io.Closer // the service ends when it does
	released bool      // do not start again
}

func (p *process) logPath() string { return strings.TrimSuffix(p.config.Path, ".db") + ".log" }

// keep starts the service again whenever its process ends, until it is released.
func (p *process) keep() {
	for {
		err := p.wait()
		if p.over() {
			return
		}
		p.deaths.Add(1)
		p.fleet.config.Log.Debug("a service has died", "service", p.config.Service, "how", err)
		if died := p.fleet.config.Died; died != nil {
			died(p.config.Service)
		}
		if err := p.restart(); err != nil && !errors.Is(err, errStopped) {
			p.fleet.cancel(fmt.Errorf("start again: %w", err))
			return
		}
	}
}

// restart starts the service again. It may be killed once more while it starts;
// one that dies at every start is broken.
func (p *process) restart() error {
	var errs []error
	for range startTries {
		err := p.start()
		if err == nil || errors.Is(err, errStopped) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// over says that the process that has ended was the last.
func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released || p.fleet.ctx.Err() != nil
}

// wait waits for the end of the present process.
func (p *process) wait() error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	return cmd.Wait()
}

func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil // dead already, and to be started again
	}
	return err
}

// release lets the service end, for good.
func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	_ = p.stdin.Close() // closed already when the process has ended
}

// start starts a process and returns when it takes calls. errStopped says that
// the service was released meanwhile.
func (p *process) start() error {
	cmd, out, err := p.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.config.Service, err)
	}
	patience, cancel := context.WithTimeout(p.fleet.ctx, startPatience)
	defer cancel()
	// A kill ends the read below.
	ready := context.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	ready()
	addr, said := strings.CutPrefix(strings.TrimSpace(line), service.Ready)
	if err == nil && said && p.listensAt(addr) {
		return nil
	}
	failed := errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	if p.over() {
		return errStopped
	}
	return fmt.Errorf("start %s: it printed %q and not where it listens: %w\n%s", p.config.Service, line, failed, p.tail())
}

// listensAt notes where the service listens, which must stay the same. Only the
// first start writes it, before anybody reads it.
func (p *process) listensAt(addr string) bool {
	if p.config.Addr == anyPort {
		p.config.Addr = addr
	}
	return p.config.Addr == addr
}

// spawn makes the process the present one, unless the service was released.
func (p *process) spawn() (*exec.Cmd, io.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return nil, nil, errStopped
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	config, err := json.Marshal(p.config)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(p.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.CommandContext(p.fleet.ctx, exe)
	cmd.Env = append(os.Environ(), service.Env+"="+string(p.config.Service))
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	if _, err := in.Write(append(config, '\n')); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("hand it its configuration: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	p.cmd, p.stdin = cmd, in
	return cmd, out, nil
}

// tail is the end of the service's log, for an error that people read.
func (p *process) tail() string {
	data, err := os.ReadFile(p.logPath())
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(bytes.TrimSpace(data[max(0, len(data)-logTail):]))
}
