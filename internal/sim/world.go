package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/check"
	pb "github.com/engined/engined/proto/enginepb"
)

// World is a simulated world under a plan.
type World struct {
	scheduler
	plan    Plan
	disk    Disk
	node    *node   // the engine that serves
	zombies []*node // frozen, or back from it, while another serves
	workers []*worker
	service service
	acks    check.Acks
	runs    []*check.Run // as they were read last

	boots, hired, ids, answers int
	asking                     int   // clients that have not ended
	froze                      int   // freezes so far
	skew                       int64 // of the wall clock at the next boot
	fullUntil                  int64
	refused                    map[store.RunNo]int
	ordered                    map[store.RunNo]bool // to end, for they are quarantined
	floods                     int
	calm                       bool // the liveness phase
	restarted                  bool // the engine, in it
	nextLook                   int64
	did                        map[string]int
	story                      []string
	bad                        error // the first violation
}

// Outcome is what became of a seed.
type Outcome struct {
	Plan  Plan
	Sum   uint64 // of the trace
	Steps int
	// Did counts faults, by name, and what else is worth counting.
	Did   map[string]int
	Story []string
	// Err is the violation, or nil.
	Err error
}

// storyLines bounds a story; its beginning is dropped first.
const storyLines = 20_000

// Simulate runs a plan on a disk; nil is a new MemoryDisk.
func Simulate(ctx context.Context, p Plan, disk func(rnd func(n int) int) (Disk, error)) Outcome {
	w := &World{plan: p, refused: map[store.RunNo]int{}, ordered: map[store.RunNo]bool{}, did: map[string]int{}}
	w.ctx, w.rnd = ctx, rand.New(rand.NewPCG(p.Seed, 2))
	w.now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	w.failed = w.fail
	w.service = service{w: w, accounts: map[string]*account{}}
	w.disk = NewMemoryDisk(p.Shards, w.rnd.IntN)
	if disk != nil {
		var err error
		if w.disk, err = disk(w.rnd.IntN); err != nil {
			return Outcome{Plan: p, Err: err}
		}
	}
	w.begin()
	w.safety()
	w.liveness()
	w.close()
	w.judge()
	return Outcome{Plan: p, Sum: w.sum, Steps: w.steps, Did: w.did, Story: w.story, Err: w.bad}
}

func (w *World) begin() {
	w.boot()
	for i := range w.plan.Workers {
		w.hire(i)
	}
	for i := range w.plan.Clients {
		c := &client{w: w, name: fmt.Sprintf("client-%d", i+1), ids: "id", of: w.plan.IDs}
		c.begin(w.plan.Ops, 3e9)
	}
	if len(w.plan.Faults) > 0 {
		w.after(nil, w.rnd.Int64N(2*w.plan.Every), w.strike)
	}
}

// safety lets faults happen: as many steps as the plan has.
func (w *World) safety() {
	for w.bad == nil && w.steps < w.plan.Steps && w.step() {
	}
}

// The bounds of the liveness phase. Engines whose clocks were an hour apart fire
// timers so much later.
const (
	livenessTime  = int64(4 * time.Hour)
	livenessSteps = 200_000
)

// liveness lets everything come to its end.
func (w *World) liveness() {
	w.calmDown()
	until, steps := w.now+livenessTime, w.steps+livenessSteps
	for w.bad == nil && w.step() {
		if w.now < w.nextLook {
			continue
		}
		w.nextLook = w.now + 1e9
		left := w.left()
		if left == "" {
			return
		}
		if w.now > until || w.steps > steps {
			w.fail("L: after %v without a fault this is not over: %s", time.Duration(w.now-until+livenessTime), left)
		}
	}
	if left := w.left(); w.bad == nil && left != "" {
		w.fail("L: nothing will ever happen, and this is not over: %s", left)
	}
}

// left says what has not come to its end.
func (w *World) left() string {
	var open []string
	if w.asking > 0 {
		open = append(open, fmt.Sprintf("%d clients", w.asking))
	}
	if w.service.late > 0 {
		open = append(open, "requests to the service")
	}
	rows, err := w.disk.Peek().List(w.ctx, store.Query{})
	if err != nil {
		w.fail("I2: the database cannot be read: %v", err)
	}
	for _, r := range rows {
		var state pb.RunState
		if !r.Open {
			continue
		}
		if err := proto.Unmarshal(r.State, &state); err != nil {
			w.fail("I2: the state of run %d: %v", r.Run, err)
		}
		if !w.heldForGood(&r, &state) {
			open = append(open, fmt.Sprintf("%s (run %d, %d events, %d pending, %v, hold %v)",
				r.WorkflowID, r.Run, r.NextEvent-1, r.Pending, state.UndoState, state.Hold))
		}
	}
	return strings.Join(open, "; ")
}

// read reads all that the database has of every run.
func (w *World) read() []*check.Run {
	runs, err := check.Read(w.ctx, w.disk.Peek())
	if err != nil {
		w.fail("I2: the database cannot be read: %v", err)
	}
	w.runs = runs
	return runs
}

// judge holds all that there is against the invariants.
func (w *World) judge() {
	if w.bad != nil {
		return
	}
	w.checkDisk()
	for _, r := range w.runs {
		w.check(check.Replay(r, newRun)...)
	}
	w.check(check.Executions(w.runs, w.service.ran)...)
	w.service.judge(w.runs)
	w.did["answers"] += w.answers
	w.did["runs"] += len(w.runs)
}

// checkDisk holds what is durable against the invariants.
func (w *World) checkDisk() {
	runs := w.read()
	w.check(check.Rows(runs)...)
	w.check(w.acks.Hold(runs)...)
}

func (w *World) check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		w.fail("%v", err)
	}
}

// fail is a violation.
func (w *World) fail(format string, args ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf(format, args...)
	}
	w.say("VIOLATION: "+format, args...)
}

// say adds a line to the story, and to the sum of the trace.
func (w *World) say(format string, args ...any) {
	line := time.Unix(0, w.now).UTC().Format("02 15:04:05.000000 ") + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	h.Write([]byte(line))
	w.mix(h.Sum64())
	if len(w.story) >= storyLines {
		w.story = append(w.story[:0], w.story[storyLines/2:]...)
	}
	w.story = append(w.story, line)
}

// chance says yes with a probability, and never when all is to be calm.
func (w *World) chance(p float64) bool { return !w.calm && p > 0 && w.rnd.Float64() < p }

// hit counts a fault that has happened.
func (w *World) hit(what string) {
	w.did[what]++
	w.say("fault: %s", what)
}

// delay is how long a message takes.
func (w *World) delay() int64 {
	if w.chance(0.05) {
		return w.rnd.Int64N(2e9)
	}
	return 50_000 + w.rnd.Int64N(1e6)
}

// logs makes an engine's log part of the story.
func (w *World) logs(name string) slog.Handler { return &storyteller{w: w, name: name} }

type storyteller struct {
	slog.Handler
	w     *World
	name  string
	attrs []slog.Attr
}

func (s *storyteller) Enabled(context.Context, slog.Level) bool { return true }

func (s *storyteller) Handle(_ context.Context, r slog.Record) error {
	if f := s.w.cur; f != nil && f.dead {
		return nil // a process that has been killed says nothing
	}
	var b strings.Builder
	add := func(a slog.Attr) bool {
		if a.Key != "stack" || s.w.bad == nil {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		return true
	}
	for _, a := range s.attrs {
		add(a)
	}
	r.Attrs(add)
	s.w.say("%s says: %s%s", s.name, r.Message, b.String())
	return nil
}

func (s *storyteller) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *s
	c.attrs = append(c.attrs[:len(c.attrs):len(c.attrs)], attrs...)
	return &c
}

func (s *storyteller) WithGroup(string) slog.Handler { return s }
