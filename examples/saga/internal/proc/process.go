package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// startPatience is how long a process may take until it is ready.
	startPatience = 15 * time.Second
	startTries    = 3
	// logTail is how much of a log an error quotes, in bytes.
	logTail = 2000
	// maxLine bounds a line that a process prints.
	maxLine = 16 << 20
)

// Config says what to run. Its functions are called by one goroutine at a time.
type Config struct {
	// Name is what errors call it.
	Name string
	// Command returns the command of each start.
	Command func(ctx context.Context) (*exec.Cmd, error)
	// Input, if set, returns what each start writes to the standard input, which
	// then stays open: its end asks the process to end (see Child).
	Input func() ([]byte, error)
	// Said hears each line of the standard output. Nobody waits for the process any
	// more when one of them has made it ready.
	Said func(line string) (ready bool, err error)
	// Log is the file to which its standard error is appended.
	Log string
	// Ask, if set, is the signal that asks the process to end, besides the end of
	// its input.
	Ask os.Signal
	// Frail says that it may die by itself, and is started again then, too.
	Frail bool
	// Died, if set, is called after each death that was not asked for by Stop.
	Died func(how error)
}

// Process is one program and its present process. It is made by Group.Start.
type Process struct {
	group  *Group
	c      Config
	deaths atomic.Int64
	lines  *bufio.Scanner // what the present process prints

	mu       sync.Mutex
	cmd      *exec.Cmd
	stdin    io.Closer
	killed   bool // the present process, by Kill
	released bool // do not start again
}

// Deaths counts how often the program had to be started again.
func (p *Process) Deaths() int64 { return p.deaths.Load() }

// Kill ends the process as kill -9 does. It is started again at once.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil // dead already, and to be started again
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", p.c.Name, err)
	}
	p.killed = true
	return nil
}

// Freeze stops the process where it stands, until Thaw.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to %s: %w", s, p.c.Name, err)
	}
	return nil
}

// release asks the process to end, for good.
func (p *Process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	// Both fail when the process has ended already.
	_ = p.stdin.Close()
	if p.c.Ask != nil {
		_ = p.cmd.Process.Signal(p.c.Ask)
	}
}

// keep starts the program again whenever its process ends, until it is released.
func (p *Process) keep() {
	for {
		asked, how := p.wait()
		if p.over() {
			return
		}
		if !asked && !p.c.Frail {
			p.group.cancel(fmt.Errorf("%s has ended by itself: %w\n%s", p.c.Name, how, p.tail()))
			return
		}
		p.deaths.Add(1)
		if p.c.Died != nil {
			p.c.Died(how)
		}
		if err := p.restart(); err != nil && !errors.Is(err, errStopped) {
			p.group.cancel(fmt.Errorf("start again: %w", err))
			return
		}
	}
}

// restart starts the program again. It may be killed once more while it starts;
// one that dies at every start is broken.
func (p *Process) restart() error {
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
func (p *Process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.released || p.group.ctx.Err() != nil
}

// wait hears the present process until its end. asked says that Kill ended it.
func (p *Process) wait() (asked bool, how error) {
	for p.lines.Scan() {
		if _, err := p.c.Said(p.lines.Text()); err != nil {
			p.group.cancel(fmt.Errorf("%s: %w", p.c.Name, err))
		}
	}
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	how = errors.Join(p.lines.Err(), cmd.Wait())
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed && cmd.ProcessState.ExitCode() < 0, how
}

// start starts a process and returns when it is ready. errStopped says that the
// program was released meanwhile.
func (p *Process) start() error {
	cmd, out, err := p.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.c.Name, err)
	}
	patience, cancel := context.WithTimeout(p.group.ctx, startPatience)
	defer cancel()
	// A kill ends the reading.
	inTime := context.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer inTime()
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, maxLine)
	ready, err := p.hear()
	if ready {
		return nil
	}
	failed := errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	if p.over() {
		return errStopped
	}
	return fmt.Errorf("start %s: it ended, or said nothing, before it was ready: %w\n%s", p.c.Name, failed, p.tail())
}

// hear hears the present process until it is ready.
func (p *Process) hear() (ready bool, err error) {
	for p.lines.Scan() {
		if ready, err = p.c.Said(p.lines.Text()); ready || err != nil {
			return ready, err
		}
	}
	return false, p.lines.Err()
}

// spawn makes a process the present one, unless the program was released.
func (p *Process) spawn() (*exec.Cmd, io.Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return nil, nil, errStopped
	}
	log, err := os.OpenFile(p.c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd, err := p.c.Command(p.group.ctx)
	if err != nil {
		return nil, nil, err
	}
	cmd.Stderr, cmd.SysProcAttr = log, apart()
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
	if err := p.hand(in); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("hand it its input: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	p.cmd, p.stdin, p.killed = cmd, in, false
	return cmd, out, nil
}

func (p *Process) hand(in io.Writer) error {
	if p.c.Input == nil {
		return nil
	}
	data, err := p.c.Input()
	if err == nil {
		_, err = in.Write(data)
	}
	return err
}

// tail is the end of the program's log, for an error that people read.
func (p *Process) tail() string {
	data, err := os.ReadFile(p.c.Log)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(bytes.TrimSpace(data[max(0, len(data)-logTail):]))
}
