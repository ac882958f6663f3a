package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/engined/engined/examples/saga/internal/proc"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/sdk/client"
)

// separate runs the shop as it would be run for good: engined and two workers,
// each in a process of its own. The customers are here. It returns when all
// orders have ended. Without an engined one is built.
func (s *supervisor) separate(ctx context.Context, engined string) (err error) {
	if engined == "" {
		if engined, err = s.build(ctx); err != nil {
			return err
		}
	}
	address, engine, err := s.startEngine(engined)
	if err != nil {
		return err
	}
	var workers []*proc.Process
	for _, name := range []string{"worker 1", "worker 2"} {
		w, err := s.startWorker(name, address)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	c, err := client.Dial(address, client.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all := &customers{client: c, orders: s.orders, say: s.take}
	s.plan(all, engine, workers)
	if err := s.strikeDuring(s.fleet.Context(), all.placeAll); err != nil {
		return err
	}
	sum, err := all.summarize(s.fleet.Context(), s.tell())
	s.take(news{Closed: sum})
	return err
}

func (s *supervisor) build(ctx context.Context) (engined string, err error) {
	engined = s.path("engined")
	// Without what debuggers need it is linked in half the time.
	out, err := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-o", engined, "github.com/engined/engined/cmd/engined").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build engined (-engined gives one that is there): %w\n%s", err, out)
	}
	s.show.line("engined is built")
	return engined, nil
}

// startEngine starts engined, on a port that it chooses at its first start and
// has from then on.
func (s *supervisor) startEngine(engined string) (address string, p *proc.Process, err error) {
	address = "127.0.0.1:0"
	p, err = s.fleet.Group.Start(proc.Config{
		Name: "engined",
		Command: func(ctx context.Context) (*exec.Cmd, error) {
			return exec.CommandContext(ctx, engined, "serve", "--database", s.path("engined.db"),
				"--grpc-address", address, "--http-address", ""), nil
		},
		Said: func(line string) (ready bool, err error) {
			if at, ok := strings.CutPrefix(line, "grpc: "); ok {
				address = at
			}
			return line == "ready", nil
		},
		Ask: syscall.SIGTERM,
		Log: s.path("engined.log"),
	})
	return address, p, err
}

func (s *supervisor) startWorker(name, engine string) (*proc.Process, error) {
	c := s.shopConfig()
	c.Name, c.Engine = name, engine
	return s.fleet.Group.Start(proc.Config{
		Name:    name,
		Command: proc.Again(shopEnv + "=" + workerPart),
		Input:   func() ([]byte, error) { return json.Marshal(c) },
		Said:    func(string) (bool, error) { return true, nil },
		Log:     s.path(name + ".log"),
	})
}

// plan sets the blows: the engine is killed twice and each worker once, in an
// order that is drawn; then one of the workers is frozen for longer than the
// engine waits.
func (s *supervisor) plan(c *customers, engine *proc.Process, workers []*proc.Process) {
	killEngine := &blow{
		Blow: report.Blow{What: "the engine was killed with -9", Least: 2},
		strike: func(ctx context.Context) (*taken, error) {
			if err := engine.Kill(); err != nil {
				return nil, err
			}
			// The engine has these from its database: the call waits until it is back.
			after, err := c.underWay(ctx)
			return takenUp(nil, after), err
		},
	}
	s.blows = []*blow{killEngine, killEngine}
	for i, w := range workers {
		s.blows = append(s.blows, &blow{
			Blow: report.Blow{What: fmt.Sprintf("worker %d was killed with -9", i+1), Least: 1},
			strike: c.losing(func(ctx context.Context) error {
				err := w.Kill()
				rest(ctx, 300*time.Millisecond) // the engine sees the connection break at once
				return err
			}),
		})
	}
	s.rand.Shuffle(len(s.blows), func(i, j int) { s.blows[i], s.blows[j] = s.blows[j], s.blows[i] })
	i := s.rand.IntN(len(workers))
	nap := s.draw(4*time.Second, 5*time.Second) // the engine gives it up after 3 s
	s.blows = append(s.blows, &blow{
		Blow: report.Blow{What: fmt.Sprintf("worker %d was frozen with SIGSTOP", i+1), Least: 1},
		strike: c.losing(func(ctx context.Context) error {
			began, err := time.Now(), workers[i].Freeze()
			rest(ctx, nap)
			s.show.line("worker %d goes on, after %.1fs", i+1, time.Since(began).Seconds())
			return errors.Join(err, workers[i].Thaw())
		}),
	})
}

// losing strikes at a worker, and returns which orders it loses to another.
func (c *customers) losing(strike func(context.Context) error) func(context.Context) (*taken, error) {
	return func(ctx context.Context) (*taken, error) {
		before, err := c.underWay(ctx)
		if err != nil {
			return nil, err
		}
		if err := strike(ctx); err != nil {
			return nil, err
		}
		after, err := c.underWay(ctx)
		return takenUp(before, after), err
	}
}
