package layer

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// project writes a module with one layer of this name.
func project(t *testing.T, body string) (Layer, Order) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/toy\n\ngo 1.26\n",
		"toy/toy_test.go": `package toy
import ("flag"; "fmt"; "testing")
var budget = flag.Duration("budget", 0, "")
var seed = flag.Uint64("seed", 0, "")
func TestToy(t *testing.T) {
	_ = budget
` + body + `
	fmt.Printf("{\"layer\":\"sim\",\"seed\":%d,\"runs\":2}\n", *seed)
}`,
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	l := layerOf(t, "sim")
	l.Folder, l.Test = "toy", "^TestToy$"
	return l, Order{Root: root, Binary: filepath.Join(t.TempDir(), "toy"), Budget: time.Minute, Seed: 5, Out: io.Discard}
}

func TestALayerIsBuiltAndRun(t *testing.T) {
	for _, c := range []struct {
		body           string
		passed, caught bool
	}{
		{``, true, false},
		{`t.Error("seed 5: I3: two runs")`, false, true},
		{`t.Error("void: nothing happened")`, false, false},
		{`t.SkipNow()`, false, false}, // it says nothing of itself
	} {
		l, o := project(t, c.body)
		if err := l.Build(t.Context(), o.Root, o.Binary); err != nil {
			t.Fatal(err)
		}
		r, err := l.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Passed != c.passed || r.Caught() != c.caught {
			t.Errorf("%q: passed %v, caught %v (%q)", c.body, r.Passed, r.Caught(), r.Verdict)
		}
		if c.passed && (r.Seed != 5 || r.Runs != 2) {
			t.Errorf("seed %d, %d runs", r.Seed, r.Runs)
		}
	}
}

func TestWhatDoesNotCompileIsSaidSo(t *testing.T) {
	l, o := project(t, `undefined()`)
	if err := l.Build(t.Context(), o.Root, o.Binary); err == nil || !strings.Contains(err.Error(), "undefined") {
		t.Errorf("the error is %v", err)
	}
}

func TestAStoppedRunHasCaughtNothing(t *testing.T) {
	l, o := project(t, `t.Log("seed 5: I3: x"); fmt.Println("running"); select {}`)
	if err := l.Build(t.Context(), o.Root, o.Binary); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o.Out = stopper{"running", stop}
	r, err := l.Run(ctx, o)
	if err != nil || r.Passed || r.Caught() {
		t.Errorf("passed %v, caught %v, %v", r.Passed, r.Caught(), err)
	}
}

// stopper stops once something is printed.
type stopper struct {
	word string
	stop func()
}

func (s stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.word) {
		s.stop()
	}
	return len(p), nil
}
