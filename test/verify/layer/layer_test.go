package layer

import (
	"strings"
	"testing"
)

// What layers print, shortened.
const (
	simFails = `=== RUN   TestSimulation
    sim_test.go:127: [0] worker w1 starts seed 3
        plan {"Seed":7}
        seed 7: I3: order (run 11): the workflow id has another open run, 12
{"layer":"sim","seed":7,"runs":3,"counts":{"cut power":5},"void":0,"failed":3,"seconds":2}
--- FAIL: TestSimulation (2.00s)
FAIL
`
	simVoid = `    sim_test.go:155: void: in 300 seeds this never happened: flood
{"layer":"sim","seed":7,"runs":300,"counts":{},"void":0,"failed":0,"seconds":2}
--- FAIL: TestSimulation (2.00s)
`
	propertyFails = `        property_test.go:54: the core and the model differ:
            start a
            !! #1 was sent twice
{"layer":"property","seed":9,"runs":0,"failed":1}
`
)

func layerOf(t *testing.T, name string) Layer {
	t.Helper()
	l, ok := named(name)
	if !ok {
		t.Fatalf("there is no layer %s", name)
	}
	return l
}

func TestWhatALayerPrintsIsRead(t *testing.T) {
	for _, c := range []struct {
		layer, printed, verdict string
		seed                    uint64
		failed                  int64
	}{
		{"sim", simFails, "seed 7: I3: order (run 11): the workflow id has another open run, 12", 7, 3},
		{"sim", simVoid, "", 7, 0},
		{"sim", "panic: runtime error\n", "panic: runtime error", 0, 0},
		{"sim", "# github.com/engined/engined/engine\nengine/a.go:1: undefined: x\n", "", 0, 0},
		{"property", propertyFails, "#1 was sent twice", 9, 1},
		// Another layer's line is not this layer's.
		{"sim", propertyFails, "", 0, 0},
	} {
		r := layerOf(t, c.layer).read(strings.NewReader(c.printed))
		if r.Verdict != c.verdict || r.Seed != c.seed || r.Failed != c.failed {
			t.Errorf("%s printed\n%s\nwhich is read as %q, seed %d, %d failed", c.layer, c.printed, r.Verdict, r.Seed, r.Failed)
		}
	}
}

func TestCountsAreRead(t *testing.T) {
	if r := layerOf(t, "sim").read(strings.NewReader(simFails)); r.Runs != 3 || r.Counts["cut power"] != 5 || r.Seconds != 2 {
		t.Errorf("%+v", r)
	}
}

func TestAVoidRunHasCaughtNothing(t *testing.T) {
	r := layerOf(t, "sim").read(strings.NewReader(simVoid))
	if r.Caught() {
		t.Errorf("a run in which the wanted fault never happened counts as %q", r.Verdict)
	}
}

func TestUnknownLayersAreRefused(t *testing.T) {
	if _, err := Named("sim,sums"); err == nil || !strings.Contains(err.Error(), "sums") {
		t.Errorf("sums is no layer, and the error is %v", err)
	}
	if all, err := Named("all"); err != nil || len(all) != len(Layers) {
		t.Errorf("all: %v, %v", all, err)
	}
}
