package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryPatchHasAHead(t *testing.T) {
	all, err := patches("patches")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if len(p.layers) == 0 {
			t.Errorf("%s names no layer", p.name)
		}
	}
}

func TestHeadsAreRead(t *testing.T) {
	p, err := parse("# rule: 6\n# what: answers\n#   too early\n# layer: sim, property\ndiff --git a/a b/a\n")
	if err != nil || p.rule != "6" || p.what != "answers too early" || len(p.layers) != 2 || p.layers[1].Name != "property" {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"# rule: 6\n# layer: sim\n\ndiff --git a/a b/a\n":             "# what:",
		"# rule: 6\n# what: x\n# layer: sum\n\ndiff --git a/a b/a\n":  "sum",
		"# rule: 6\n# what: x\n# layer: sim\n":                        "no diff",
		"# rule: 6\n# nonsense\n# layer: sim\n\ndiff --git a/a b/a\n": "nonsense",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// toy is a project with a layer that fails if a number is wrong, and patches.
func toy(t *testing.T, found string, patches map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"go.mod":            "module example.com/toy\n\ngo 1.26\n",
		"internal/n/n.go":   "package n\n\n// N is one.\nconst N = 1\n",
		"internal/sim/a.go": "package sim\n",
		"internal/sim/a_test.go": `package sim
import ("flag"; "fmt"; "testing"; "example.com/toy/internal/n")
var budget, seed = flag.Duration("budget", 0, ""), flag.Uint64("seed", 0, "")
func TestSimulation(t *testing.T) {
	_ = budget
	if ` + found + ` { t.Errorf("seed %d: I1: lost", *seed) }
	fmt.Printf("{\"layer\":\"sim\",\"seed\":%d,\"runs\":1}\n", *seed)
}
`,
	}
	for name, to := range patches {
		from := "1"
		if to == "old" {
			from = "7"
		}
		files["test/planted/patches/"+name+".patch"] = "# rule: 1\n# what: a wrong number\n# layer: sim\n" +
			"diff --git a/internal/n/n.go b/internal/n/n.go\n--- a/internal/n/n.go\n+++ b/internal/n/n.go\n" +
			"@@ -1,4 +1,4 @@\n package n\n \n // N is one.\n-const N = " + from + "\n+const N = " + to + "\n"
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

func try(t *testing.T, root string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), []string{"-root", root, "-budget", time.Second.String(), "-seed", "5"}, &out)
	return out.String(), err
}

func TestABugThatIsFoundIsCaught(t *testing.T) {
	out, err := try(t, toy(t, "n.N != 1", map[string]string{"two": "2", "three": "3"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"without a bug: sim passes, seed 5", "ok    two: sim, seed 5", "ok    three: sim", "seed 5: I1: lost", "2 of 2 planted bugs were caught",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestWhatIsNotCaughtFails(t *testing.T) {
	for name, c := range map[string]struct{ found, to, want string }{
		"the layer is too weak":        {"n.N > 2", "2", "broken was not caught"},
		"the layer always fails":       {"n.N > 0", "2", "sim fails without a bug"},
		"the patch does not compile":   {"n.N != 1", "x", "does not compile"},
		"the patch does not apply":     {"n.N != 1", "old", "broken: git apply"},
		"the tests of it do not build": {"n.M != 1", "2", "does not compile"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := try(t, toy(t, c.found, map[string]string{"broken": c.to})); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v\n%s", err, out)
			}
		})
	}
}

func TestPatchesAreChosen(t *testing.T) {
	all := []patch{{name: "store-a"}, {name: "store-b"}, {name: "saga-a"}}
	for _, c := range []struct {
		only string
		pick int
		want int
	}{{"", 0, 3}, {"^store", 0, 2}, {"", 2, 2}, {"^store", 5, 2}} {
		if got, err := choose(all, c.only, c.pick); err != nil || len(got) != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, err := choose(all, "fencing", 0); err == nil {
		t.Error("a pattern that names nothing is taken")
	}
}
