package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/engined/engined/sdk/activity"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// workerEnv makes a process of this program a worker; its value is a
// workerConfig.
const workerEnv = "ENGINED_BENCH_WORKER"

type workerConfig struct{ Address, Queue, Name string }

// news is what a worker says on its standard output, a line of JSON each.
type news struct {
	Event   string // "started", "cancelled"
	Order   string
	Attempt int64
}

// desk is the worker's only activity.
type desk struct {
	name   string
	mu     sync.Mutex
	out    *json.Encoder
	finish chan struct{} // one element for each line of standard input
}

func (d *desk) say(n news) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.out.Encode(n) // who does not listen any more has seen enough
}

// Hold holds an order until it is told to finish, and returns who held it.
func (d *desk) Hold(ctx context.Context, order string) (string, error) {
	d.say(news{Event: "started", Order: order, Attempt: activity.GetInfo(ctx).Attempt})
	select {
	case <-d.finish:
		return d.name, nil
	case <-ctx.Done():
		d.say(news{Event: "cancelled", Order: order})
		return d.name, nil // it has not heard that nobody wants it
	}
}

var theDesk *desk

// Order is the workflow: one activity.
func Order(ctx workflow.Context, order string) (string, error) {
	return workflow.Do(ctx, theDesk.Hold, order)
}

func workerMain(ctx context.Context, config string, in io.Reader, out io.Writer) error {
	var c workerConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	d := &desk{name: c.Name, out: json.NewEncoder(out), finish: make(chan struct{}, 10)}
	w, err := worker.Dial(c.Address, worker.Options{Queue: c.Queue, Slots: 1, Identity: c.Name})
	if err != nil {
		return err
	}
	worker.Workflow(w, Order)
	w.Activities(d)
	if err := w.Start(ctx); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		d.finish <- struct{}{}
	}
	return lines.Err() // the parent has gone
}

// process is a worker process, seen from outside.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan news
}

func startWorker(ctx context.Context, c workerConfig) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(config))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: c.Name, cmd: cmd, in: in, said: make(chan news, 100)}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(p.said)
		for d := json.NewDecoder(out); ; {
			var n news
			if err := d.Decode(&n); err != nil {
				return
			}
			p.said <- n
		}
	})
	return p, nil
}

// hears waits until the worker says that something has happened to an order.
func (p *process) hears(ctx context.Context, event, order string) (news, error) {
	for {
		select {
		case n, ok := <-p.said:
			if !ok {
				return n, fmt.Errorf("worker %s has ended, and did not say that %s was %s", p.name, order, event)
			}
			if n.Event == event && n.Order == order {
				return n, nil
			}
		case <-ctx.Done():
			return news{}, fmt.Errorf("worker %s did not say that %s was %s: %w", p.name, order, event, context.Cause(ctx))
		}
	}
}

func (p *process) finish() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may be dead
	_ = p.cmd.Wait()         // killed: of course it fails
}
