package repocheck

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rule is one rule of the house.
type rule struct {
	name  string
	check func(*tree) []finding
	// advice says what to do about a finding.
	advice string
}

var rules = []rule{
	{"imports", checkImports, "see the table in imports_test.go: imports point one way"},
	{"sqlite-driver", checkDriver, "use engine/store/sqlite/mattn"},
	{"function-length", checkFunctionLength, "split it by what it does"},
	{"file-length", checkFileLength, "split it: one reason to change a file"},
	{"package-files", checkPackageFiles, "the package does too much"},
	{"interface-size", checkInterfaces, "smaller interfaces, or a struct"},
	{"parameters", checkParameters, "pass a struct"},
	{"package-comment", checkPackageComments, "one file says what the package owns and what it must not know"},
	{"exported-docs", checkExportedDocs, "say what it is, with units, limits, errors and defaults"},
	{"go-statement", checkGo, "use internal/svc: it catches panics, and waits"},
	{"purity", checkPurity, "time and randomness come in with the input"},
	{"map-order", checkMapOrder, "range over slices.Sorted(maps.Keys(m))"},
	{"sleep-in-test", checkSleep, "wait for what you mean, or use testing/synctest"},
	{"context-background", checkBackground, "take the caller's context"},
	{"testing-import", checkTesting, "move it into a _test.go file"},
	{"error-text", checkErrorText, "give the error a type and use errors.As"},
	{"doc-links", checkLinks, "correct the link"},
	{"doc-lines", checkLineNumbers, "name the function: line numbers are wrong tomorrow"},
}

func TestTheHouseKeepsItsRules(t *testing.T) {
	r := load(t, os.DirFS("../.."))
	if len(r.shipped()) < 20 {
		t.Fatalf("only %d files found: this is not the module's root", len(r.shipped()))
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, p := range judge(rule, rule.check(r), exceptions) {
				t.Error(p)
			}
		})
	}
}

// judge holds the findings against the exceptions and returns what is wrong.
func judge(r rule, found []finding, except []exception) []string {
	var wrong []string
	used := map[string]int{} // the largest size met, by where
	for _, f := range found {
		used[f.where] = max(used[f.where], f.size)
		e, ok := lookup(except, r.name, f.where)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%s: %s; %s", place(f), f.what, r.advice))
		case f.size > e.size:
			wrong = append(wrong, fmt.Sprintf("%s: %s; its exception allows %d: it may only shrink", place(f), f.what, e.size))
		}
	}
	for _, e := range except {
		if e.rule != r.name {
			continue
		}
		size, met := used[e.where]
		switch {
		case !met:
			wrong = append(wrong, fmt.Sprintf("%s keeps the rule: remove its exception", e.where))
		case size < e.size:
			wrong = append(wrong, fmt.Sprintf("%s has shrunk to %d: lower its exception from %d", e.where, size, e.size))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func lookup(except []exception, rule, where string) (exception, bool) {
	for _, e := range except {
		if e.rule == rule && e.where == where {
			return e, true
		}
	}
	return exception{}, false
}

func place(f finding) string {
	if f.line == 0 {
		return f.where
	}
	file, fn, ok := strings.Cut(f.where, ":")
	if !ok {
		return fmt.Sprintf("%s:%d", file, f.line)
	}
	return fmt.Sprintf("%s:%d (%s)", file, f.line, fn)
}

func TestExceptionsHaveReasonsAndNameRules(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range exceptions {
		key := e.rule + " " + e.where
		if e.reason == "" || seen[key] {
			t.Errorf("%s: no reason, or listed twice", key)
		}
		seen[key] = true
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == e.rule }) {
			t.Errorf("%s: there is no such rule", key)
		}
	}
}

func TestAnExceptionMayOnlyShrink(t *testing.T) {
	r := rule{name: "r", advice: "do"}
	except := []exception{{rule: "r", where: "a", size: 80, reason: "x"}}
	for _, c := range []struct {
		found []finding
		want  string
	}{
		{[]finding{{where: "a", size: 80}}, ""},
		{[]finding{{where: "a", size: 81, what: "long"}}, "may only shrink"},
		{[]finding{{where: "a", size: 79}}, "lower its exception"},
		{nil, "remove its exception"},
		{[]finding{{where: "a", size: 80}, {where: "b", size: 71, what: "long"}}, "b: long; do"},
	} {
		got := judge(r, c.found, except)
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || !strings.Contains(got[0], c.want) {
			t.Errorf("%v: have %q, want one with %q", c.found, got, c.want)
		}
	}
}

func TestEveryRuleFindsWhatItForbids(t *testing.T) {
	for _, r := range rules {
		plants := planted[r.name]
		if len(plants) == 0 {
			t.Errorf("%s: no violation is planted", r.name)
		}
		for _, p := range plants {
			root := fstest.MapFS{}
			for name, src := range p.files {
				root[name] = &fstest.MapFile{Data: []byte(src)}
			}
			var got []string
			for _, f := range r.check(load(t, root)) {
				got = append(got, f.where)
			}
			slices.Sort(got)
			if !slices.Equal(got, p.want) {
				t.Errorf("%s on %q: found %q, want %q", r.name, p.files, got, p.want)
			}
		}
	}
}
