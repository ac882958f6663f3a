package sim

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/engined/engined/engine"
	"github.com/engined/engined/internal/clock"
)

// node is an engine's process.
type node struct {
	process
	w    *World
	e    *engine.Engine // nil until it is open
	skew int64          // of its clock, against the world's time
	// closing: it is being stopped in order.
	closing bool
}

// Now implements clock.Clock, as does Wait.
func (n *node) Now() int64 { return n.w.now + n.skew }

func (n *node) Wait(ctx context.Context, at int64, a, b, c <-chan struct{}) clock.Cause {
	if at != clock.Never {
		at = max(at-n.skew, 1)
	}
	return n.w.wait(ctx, at, a, b, c)
}

// boot starts an engine's process on the disk.
func (w *World) boot() {
	w.boots++
	n := &node{process: process{name: fmt.Sprintf("engine-%d", w.boots)}, w: w, skew: w.skew}
	w.node = n
	w.say("%s starts, its clock %v off", n.name, n.skew)
	w.spawn(&n.process, n.name+" open", func() {
		st, err := w.disk.Open(w.pause)
		if err != nil {
			w.fail("%s cannot open the database: %v", n.name, err)
			return
		}
		w.checkDisk()
		e, err := engine.Open(w.ctx, engine.Config{
			Store: &database{Store: st, w: w, n: n}, Clock: n,
			Spawn:        func(name string, work func()) { w.spawn(&n.process, n.name+" "+name, work) },
			Random:       w.rnd.Uint64,
			NewID:        func(uint64) string { w.ids++; return fmt.Sprintf("ID%06d", w.ids) },
			Logger:       slog.New(w.logs(n.name)),
			ResidentRuns: w.plan.Resident,
		})
		if err != nil {
			w.say("%s does not open: %v", n.name, err)
			w.exit(n)
			return
		}
		n.e = e
		w.wait(w.ctx, clock.Never, e.Stopped(), nil, nil)
		w.stopped(n)
	})
}

// stopped is the end of an engine that cannot go on: its process ends.
func (w *World) stopped(n *node) {
	w.say("%s has stopped: %v", n.name, n.e.Err())
	if !w.mayStop(n.e.Err()) {
		w.fail("%s has stopped by itself: %v", n.name, n.e.Err())
	}
	w.exit(n)
}

// exit ends a process from outside of it, and has another started.
func (w *World) exit(n *node) {
	w.after(nil, 0, func() {
		if !n.dead {
			w.killNode(n, false)
		}
	})
}

// killNode ends an engine's process at once, perhaps with the power.
func (w *World) killNode(n *node, power bool) {
	w.say("%s dies", n.name)
	w.kill(&n.process)
	if n == w.node {
		w.say("%s was on its way to the disk", w.disk.Cut(w.ctx, power))
	}
	for _, x := range w.workers {
		if x.conn != nil && x.conn.n == n {
			x.conn.broken("the engine died", true, true)
		}
	}
	if n != w.node {
		return // somebody else serves
	}
	w.after(nil, w.rnd.Int64N(2e9), func() {
		if w.node == n {
			w.boot()
		}
	})
}
