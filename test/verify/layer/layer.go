// Package layer knows the layers of verification and how each is run: it builds a
// layer's test binary in a copy of the project, runs it with a budget and a seed,
// and reads what it says of itself.
//
// Every layer is a Go test that takes -budget and -seed, and prints as its last
// line of JSON what it did (Line). A run of which no such line was printed is a
// failed one, whatever its exit code.
//
// The package must not know what becomes of the results (test/verify/ledger,
// test/planted), nor what is in a layer.
package layer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Layer is one way to look for bugs at seeds that nobody chose.
type Layer struct {
	Name   string
	Module string // the folder of its module, below the project
	Folder string // the folder of its package, below the module
	Test   string // a pattern of tests
	Tags   string
	Whole  bool // it has no seeds: it searches all there is

	verdict *regexp.Regexp // what it says of what it has found
}

// Layers are all there are, from the fastest to find something to the slowest.
var Layers = []Layer{
	{
		Name: "property", Module: ".", Folder: "internal/sim/property", Test: "^TestTheCoreDoesWhatTheModelSays$",
		verdict: regexp.MustCompile(`^\s*!! (.*)`),
	},
	{
		Name: "core", Module: ".", Folder: "engine/machine", Test: "^TestEveryRunEndsWhateverHappens$",
		verdict: regexp.MustCompile(`^\s+\w+_test\.go:\d+: (.*)`),
	},
	{
		Name: "sim", Module: ".", Folder: "internal/sim", Test: "^TestSimulation$",
		verdict: regexp.MustCompile(`^\s*(?:\w+_test\.go:\d+: )?(seed \d+: .*)`),
	},
}

// Named finds the layers of a comma-separated list of names; "all" is all.
func Named(names string) ([]Layer, error) {
	if names == "all" {
		return Layers, nil
	}
	var found []Layer
	for name := range strings.SplitSeq(names, ",") {
		l, ok := named(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("there is no layer %q; there are: %s", name, Names())
		}
		found = append(found, l)
	}
	return found, nil
}

func named(name string) (Layer, bool) {
	for _, l := range Layers {
		if l.Name == name {
			return l, true
		}
	}
	return Layer{}, false
}

// Names lists the layers.
func Names() string {
	names := make([]string, len(Layers))
	for i, l := range Layers {
		names[i] = l.Name
	}
	return strings.Join(names, ", ")
}

// Line is what a layer says of a run, in the last line of JSON that it prints.
type Line struct {
	Layer   string           `json:"layer"`
	Seed    uint64           `json:"seed"`
	Runs    int64            `json:"runs"`
	Counts  map[string]int64 `json:"counts"` // of faults and operations
	Void    int64            `json:"void"`   // runs without the fault they were for
	Failed  int64            `json:"failed"`
	Seconds float64          `json:"seconds"`
}

// Result is what came of a run.
type Result struct {
	Line
	Passed  bool
	Verdict string // the first line that says what was found
	Last    string // the end of what was printed
	Took    time.Duration
}

// Caught tells if the run has found something wrong in what it ran, and not only
// gone wrong itself.
func (r Result) Caught() bool { return !r.Passed && r.Verdict != "" }

// Build compiles the layer of the project at root into the file binary.
func (l Layer) Build(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", l.Tags, "-o", binary, "./"+l.Folder)
	cmd.Dir = filepath.Join(root, l.Module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the layer %s does not compile: %w\n%s", l.Name, err, bytes.TrimSpace(out))
	}
	return nil
}

// Order is how to run a layer.
type Order struct {
	Root, Binary string
	Budget       time.Duration
	Seed         uint64    // 0: the layer draws one
	Out          io.Writer // of what the layer prints
}

// grace is what a layer may take beyond its budget, to tell what it has found in
// fewer words.
const grace = 5 * time.Minute

// Run runs what Build has made. It fails only if the layer could not be run.
func (l Layer) Run(ctx context.Context, o Order) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Budget+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Binary, "-test.v", "-test.run", l.Test, "-test.timeout", "0",
		"-budget", o.Budget.String(), "-seed", fmt.Sprint(o.Seed))
	cmd.Dir = filepath.Join(o.Root, l.Module, l.Folder)
	// What it starts ends with it: a layer that starts processes gets to end them.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var all bytes.Buffer
	cmd.Stdout = io.MultiWriter(&all, o.Out)
	cmd.Stderr = cmd.Stdout
	begin := time.Now()
	err := cmd.Run()
	r := l.read(&all)
	r.Took = time.Since(begin)
	if _, exited := err.(*exec.ExitError); err != nil && !exited && ctx.Err() == nil {
		return r, fmt.Errorf("the layer %s cannot be run: %w", l.Name, err)
	}
	if ctx.Err() != nil {
		r.Verdict = "" // stopped from outside
	}
	r.Passed = err == nil && r.Failed == 0 && r.Layer == l.Name
	return r, nil
}

// read makes a result of what a layer printed.
func (l Layer) read(printed io.Reader) Result {
	var r Result
	var tail []string
	lines := bufio.NewScanner(printed)
	lines.Buffer(nil, 64<<20) // stories are long
	for lines.Scan() {
		text := lines.Text()
		if line, ok := parse(text); ok && line.Layer == l.Name {
			r.Line = line
			continue
		}
		if r.Verdict == "" {
			r.Verdict = l.judgement(text)
		}
		if tail = append(tail, text); len(tail) > 20 {
			tail = tail[1:]
		}
	}
	r.Last = strings.Join(tail, "\n")
	return r
}

func (l Layer) judgement(text string) string {
	if strings.HasPrefix(text, "panic: ") {
		return text
	}
	if m := l.verdict.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

func parse(text string) (Line, bool) {
	var line Line
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &line) != nil {
		return line, false
	}
	return line, line.Layer != ""
}
