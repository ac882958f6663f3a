package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	budget = flag.Duration("budget", 0, "how long to simulate; 0 is the short form")
	from   = flag.Uint64("seed", 0, "the first seed; 0 is one that nobody chose")
	one    = flag.Bool("one", false, "simulate -seed alone, and tell its story")
	plan   = flag.String("plan", "", "simulate this plan, as a story prints it")
)

// report adds seeds up.
type report struct {
	mu     sync.Mutex
	seeds  int
	steps  int
	short  int // seeds of too few steps
	again  int // run twice
	did    map[string]int
	failed []Outcome
}

func (r *report) add(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeds++
	r.steps += o.Steps
	if o.Steps < 300 {
		r.short++
	}
	for what, n := range o.Did {
		r.did[what] += n
	}
	if o.Err != nil {
		r.failed = append(r.failed, o)
	}
}

func TestSimulation(t *testing.T) {
	first := *from
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	if *plan != "" {
		var p Plan
		if err := json.Unmarshal([]byte(*plan), &p); err != nil {
			t.Fatalf("-plan: %v", err)
		}
		*one = true
		tell(t, Simulate(t.Context(), p, nil))
		return
	}
	if *one {
		tell(t, Simulate(t.Context(), NewPlan(first), nil))
		return
	}
	// One goroutine at a time runs: what collects garbage should not take as long.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	r := &report{did: map[string]int{}}
	began := time.Now()
	enough := func(n int) bool {
		if len(r.failed) >= 3 {
			return true
		}
		if *budget > 0 {
			return time.Since(began) >= *budget
		}
		return n >= shortSeeds
	}
	for n := 0; !enough(n); n++ {
		o := Simulate(t.Context(), NewPlan(first+uint64(n)), nil)
		r.add(o)
		if n%100 == 0 {
			r.again++
			if twice := Simulate(t.Context(), NewPlan(first+uint64(n)), nil); twice.Sum != o.Sum || twice.Steps != o.Steps {
				t.Errorf("seed %d: run twice, it has two traces: %x of %d steps, %x of %d; the first line that differs: %s",
					first+uint64(n), o.Sum, o.Steps, twice.Sum, twice.Steps, difference(o.Story, twice.Story))
			}
		}
	}
	for _, o := range r.failed {
		tell(t, shrink(t, o))
	}
	r.tell(t, first, time.Since(began))
}

const shortSeeds = 300

// shrink looks for a smaller plan that breaks, too.
func shrink(t *testing.T, o Outcome) Outcome {
	for tries := 0; tries < 300; {
		smaller := false
		for _, p := range o.Plan.smaller() {
			tries++
			if next := Simulate(t.Context(), p, nil); next.Err != nil && kind(next.Err) == kind(o.Err) {
				o, smaller = next, true
				break
			}
		}
		if !smaller {
			break
		}
	}
	return o
}

// kind is the invariant that is broken.
func kind(err error) string {
	name, _, _ := strings.Cut(err.Error(), ":")
	return name
}

// tell prints the story of a seed that broke something.
func tell(t *testing.T, o Outcome) {
	story := o.Story
	if n := len(story); n > 400 && !*one {
		story = story[n-400:]
	}
	if o.Err == nil {
		t.Logf("%s\nseed %d: %d steps, trace %x, %v", strings.Join(story, "\n"), o.Plan.Seed, o.Steps, o.Sum, o.Did)
		return
	}
	t.Errorf("%s\nplan %s\nseed %d: %v", strings.Join(story, "\n"), o.Plan, o.Plan.Seed, o.Err)
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%d: %q and %q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(a), len(b))
}

func (r *report) tell(t *testing.T, first uint64, took time.Duration) {
	// A fault that never happened proves nothing.
	if r.seeds >= shortSeeds && len(r.failed) == 0 {
		for _, what := range append(slices.Clone(Faults), happenings...) {
			if r.did[what] == 0 {
				t.Errorf("void: in %d seeds this never happened: %s", r.seeds, what)
			}
		}
		for _, what := range rare {
			if r.did[what] == 0 && r.seeds >= 10_000 {
				t.Errorf("void: in %d seeds this never happened: %s", r.seeds, what)
			}
		}
	}
	if r.short > 0 {
		t.Errorf("void: %d seeds had fewer than 300 steps", r.short)
	}
	line, err := json.Marshal(map[string]any{
		"layer": "sim", "seed": first, "runs": r.seeds, "counts": r.did, "void": r.short, "failed": len(r.failed),
		"steps": r.steps, "again": r.again, "seconds": int(took.Seconds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f seeds/s, %s", float64(r.seeds)/took.Seconds(), strings.Join(slices.Sorted(maps.Keys(r.did)), ", "))
	fmt.Println(string(line))
}

// happenings are what must happen besides the plan's faults.
var happenings = []string{
	"unknown, lost", "unknown, landed", "unknown, lands late", "refused", "sync failed", "unavailable", "full",
	"slow commit", "slow read", "old read", "unreadable", "request lost", "answer lost", "request twice", "bad build",
	"activity fails", "activity fails, done", "quarantined",
}

// rare is what a few hundred seeds may well do without.
var rare = []string{"once interrupted"}
